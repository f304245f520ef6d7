"""Refuses to destroy a stack that has a protected cluster, before anything of it is deleted."""

from collections.abc import Callable

import pulumi

from components.component import Component
from fleet.facts.remark import said
from fleet.providers.fleet import Fleet

HOOK = "refuse-to-destroy-protected-clusters"
"""The hook's name, which is in the state. A renamed hook would stop every `pulumi up` of a protected stack."""


class DestroyGuard(Component[[]]):
    """Depends on everything in the stack, so that Pulumi deletes it first. A hook refuses that.

    Pulumi's own protection does not suffice: the engine asks for it when a resource's turn comes, and control planes come last.
    With a hook of this kind in the state, `pulumi destroy` ends before its first step, also without a preview
    (pulumi/pulumi, `pkg/engine/destroy.go`). With `--run-program` the hook itself runs, and this resource is the first.
    """

    def declare(self, name: str) -> None:
        """Declare nothing: the options of the guard have its hook and what it depends on."""


def guarded(fleet: Fleet, stack: str) -> Callable[[], None]:
    """Watch the resources that are declared from now on. Returns what declares the guard after the last of them.

    It declares none without `protect`, and then the next `pulumi up` removes an earlier one.
    """
    protected = [name for name, cluster in fleet.clusters_by_name() if cluster.protect]
    declared: list[pulumi.Resource] = []

    def watch(args: pulumi.ResourceTransformationArgs) -> None:
        if args.opts.parent is None:  # a component stands for all inside it
            declared.append(args.resource)

    def refuse(_: pulumi.ResourceHookArgs) -> None:
        if protected:
            raise RuntimeError(said("protected_stack", protected=", ".join(protected), stack=stack))

    # Always registered: the engine deletes no resource whose hook the program does not have.
    hook = pulumi.ResourceHook(HOOK, refuse)
    pulumi.runtime.register_stack_transformation(watch)

    def declare() -> None:
        if protected:
            hooks = pulumi.ResourceHookBinding(before_delete=[hook])
            DestroyGuard("destroy-guard", pulumi.ResourceOptions(depends_on=[*declared], hooks=hooks))

    return declare
