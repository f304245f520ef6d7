"""A policy of OCI's IAM that belongs to a component."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_oci as oci


def policy(
    name: str,
    statements: pulumi.Input[Sequence[pulumi.Input[str]]],
    *,
    compartment: str,
    description: str,
    tags: dict[str, str],
    iam: pulumi.ProviderResource | None,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource] = (),
) -> oci.identity.Policy:
    """Statements for one compartment.

    `iam` is the provider of the tenancy's home region, because OCI accepts policies only there. None: the provider of `parent`.
    """
    return oci.identity.Policy(
        name,
        compartment_id=compartment,
        description=description,
        statements=statements,
        freeform_tags=tags,
        opts=pulumi.ResourceOptions(parent=parent, provider=iam, depends_on=list(depends_on)),
    )
