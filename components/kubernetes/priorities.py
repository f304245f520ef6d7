"""Priority classes of pods, and the order of node groups for Cluster Autoscaler."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import AUTOSCALER, PRIORITIES, PRIORITIES_KEY
from fleet.facts.scheduling import Priority


def priority_class(
    logical_name: str, priority: Priority, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> kubernetes.scheduling.v1.PriorityClass:
    """A cluster-wide priority class. Only pods that name it have it."""
    return kubernetes.scheduling.v1.PriorityClass(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=priority.name),
        value=priority.value,
        preemption_policy="PreemptLowerPriority" if priority.preempts else "Never",
        global_default=False,
        description=priority.meaning,
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(depends_on),
            # Both are immutable, but the provider would try to update them in place
            # (pulumi/pulumi-kubernetes, provider/pkg/provider/diff.go).
            replace_on_changes=["value", "preemptionPolicy"],
            delete_before_replace=True,
        ),
    )


@dataclass(frozen=True, slots=True)
class PrioritiesArgs:
    """The classes. `ready` must exist before: the control plane."""

    priorities: Sequence[Priority]
    ready: Sequence[pulumi.Resource]


class Priorities(Component[PrioritiesArgs]):
    """Classes that pods name. Without them the API server rejects the pods."""

    classes: tuple[kubernetes.scheduling.v1.PriorityClass, ...]
    """A workload depends on all of them."""

    def declare(self, name: str, args: PrioritiesArgs) -> None:
        self.classes = tuple(
            priority_class(f"{name}-{priority.name}", priority, parent=self, depends_on=args.ready)
            for priority in args.priorities
        )


@dataclass(frozen=True, slots=True)
class PriorityExpanderArgs:
    """`text` is the ConfigMap's; it may be known late. `ready` must exist before: the control plane.

    `grant`: whether to let the autoscaler's service account read it, for an autoscaler whose own role may not.
    """

    text: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]
    grant: bool = False


class PriorityExpander(Component[PriorityExpanderArgs]):
    """The ConfigMap. It is not a value of a chart, because it may have ids that only the cloud knows."""

    def declare(self, name: str, args: PriorityExpanderArgs) -> None:
        opts = self._below(*args.ready, delete_before_replace=True)
        called = kubernetes.meta.v1.ObjectMetaArgs(name=PRIORITIES, namespace=KUBE_SYSTEM)
        kubernetes.core.v1.ConfigMap(f"{name}-priorities", metadata=called, data={PRIORITIES_KEY: args.text}, opts=opts)
        if not args.grant:
            return
        # The autoscaler lists and watches the ConfigMaps of its namespace (expander/factory at 1.36.1). A rule for lists cannot
        # name an object.
        reads = kubernetes.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["configmaps"], verbs=["get", "list", "watch"])
        role = kubernetes.rbac.v1.Role(f"{name}-role", metadata=called, rules=[reads], opts=opts)
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-binding",
            metadata=called,
            role_ref=kubernetes.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=PRIORITIES),
            subjects=[kubernetes.rbac.v1.SubjectArgs(kind="ServiceAccount", name=AUTOSCALER, namespace=KUBE_SYSTEM)],
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role])),
        )
