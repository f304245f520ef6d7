"""Builds every cluster of a fleet, each with its provider's builder."""

import importlib
from typing import Any, Protocol

import pulumi

from components.context import Context, PrivateKeys
from components.destroy_guard import guarded
from components.generations import Generations
from components.outputs import Built, StackOutputs
from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.facts.remark import said
from fleet.jobs import stack as stack_jobs
from fleet.prove import placement, works
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS


class Builder(Protocol):
    """Declares one cluster of a fleet and returns its outputs."""

    def __call__(self, name: str, settings: Any, fleet: Fleet, context: Context, private_keys: PrivateKeys, /) -> Built: ...


_BUILDERS = {"eks": "components.eks.stack", "oke": "components.oci.stack", "kubernetes": "components.kubernetes.stack"}
"""Modules by provider, for clusters that `pulumi up` deploys. `components.git` declares the others."""


def require_deployable(fleet: Fleet, stack: str) -> None:
    """Raise RunError if Pulumi does not deploy a provider of the fleet. The error names the command to run instead."""
    for name, cluster in fleet.clusters_by_name():
        if not PROVIDERS[cluster.provider].deployable:
            raise pulumi.RunError(said("not_by_pulumi", name=name, cluster=cluster, stack=stack))


def _require_works(fleet: Fleet) -> None:
    """Warn in a preview, and raise PlacementError in an update, if something cannot work on the day."""
    try:
        day = day_of()
    except InputError as error:
        raise pulumi.RunError(str(error)) from None
    try:
        works.require(fleet, day)
    except placement.PlacementError as error:
        if not pulumi.runtime.is_dry_run():
            raise
        pulumi.log.warn(str(error))


def bound_roles(policy_arn: str) -> None:
    """Give every IAM role that is registered from now on the permissions boundary.

    A transform of the stack also reaches the role that the remote component eks.Cluster creates; it has no argument for this.
    """

    def bound(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ != "aws:iam/role:Role":
            return None
        return pulumi.ResourceTransformResult({**args.props, "permissionsBoundary": policy_arn}, args.opts)

    pulumi.runtime.register_resource_transform(bound)


def build(fleet: Fleet, project: str, stack: str, private_keys: PrivateKeys) -> StackOutputs:
    """Declare the fleet's resources. Returns the stack outputs. `private_keys` are those of the Apps by GitHub scope.

    Before the first resource, raises PlacementError if a runner set, workload or job fits no node, and in an update also if
    something cannot work today: a preview warns. Raises RunError as `require_deployable` does, and if GPU_CI_AS_OF is not a day.
    """
    require_deployable(fleet, stack)
    stack_jobs.require(fleet, placement.place(fleet))
    _require_works(fleet)
    if fleet.permissions_boundary is not None:
        bound_roles(fleet.permissions_boundary)
    declare_guard = guarded(fleet, stack)
    context = Context(project, stack, dict(fleet.tags), Generations.read())
    outputs: StackOutputs = {"clusters": {}, "kubeconfigs": {}, "generations": context.generations.first}
    for name, cluster in fleet.clusters_by_name():
        # A stack imports only the SDKs of its own providers: each costs seconds and memory.
        declare: Builder = importlib.import_module(_BUILDERS[cluster.provider]).build
        built = declare(name, cluster, fleet, context, private_keys)
        outputs["clusters"][name] = built.outputs
        if built.kubeconfig is not None:
            outputs["kubeconfigs"][name] = pulumi.Output.secret(built.kubeconfig)
    declare_guard()
    return outputs
