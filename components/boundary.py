"""The permissions boundary of a stack's IAM roles."""

from __future__ import annotations

import pulumi

_ROLE = "aws:iam/role:Role"


def bound_roles(policy_arn: str) -> None:
    """Give every IAM role that is registered from now on the permissions boundary.

    A transform of the stack also reaches the role that the remote component eks.Cluster creates; it has no argument for this.
    """

    def bound(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ != _ROLE:
            return None
        return pulumi.ResourceTransformResult({**args.props, "permissionsBoundary": policy_arn}, args.opts)

    pulumi.runtime.register_resource_transform(bound)
