"""Priority classes of pods, and the order of node groups for Cluster Autoscaler."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component, Resources, Text
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import PRIORITIES, PRIORITIES_KEY
from fleet.facts.scheduling import Priority


def priority_class(
    logical_name: str, priority: Priority, *, parent: pulumi.Resource, depends_on: Resources
) -> kubernetes.scheduling.v1.PriorityClass:
    """A cluster-wide priority class. Only pods that name it have it."""
    # Both are immutable, but the provider would try to update them in place
    # (pulumi/pulumi-kubernetes, provider/pkg/provider/diff.go).
    fixed = ["value", "preemptionPolicy"]
    opts = pulumi.ResourceOptions(parent, [*depends_on], replace_on_changes=fixed, delete_before_replace=True)
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=priority.name)
    about = {"value": priority.value, "description": priority.meaning, "global_default": False}
    about["preemption_policy"] = "PreemptLowerPriority" if priority.preempts else "Never"
    return kubernetes.scheduling.v1.PriorityClass(logical_name, metadata=metadata, **about, opts=opts)


class Priorities(Component[Sequence[Priority], Resources]):
    """Classes that pods name. Without them the API server rejects the pods. `ready` must exist before: the control plane."""

    classes: tuple[kubernetes.scheduling.v1.PriorityClass, ...]
    """A workload depends on all of them."""

    def declare(self, name: str, priorities: Sequence[Priority], ready: Resources) -> None:
        self.classes = tuple(priority_class(f"{name}-{each.name}", each, parent=self, depends_on=ready) for each in priorities)


class PriorityExpander(Component[Text, Resources, str]):
    """The ConfigMap with `text`. It is not a value of a chart, because it may have ids that only the cloud knows.

    `ready` must exist before: the control plane. `reader` is the service account of an autoscaler whose own role may not read
    it; empty for others.
    """

    def declare(self, name: str, text: Text, ready: Resources, reader: str) -> None:
        opts = self._below(*ready, delete_before_replace=True)
        called = kubernetes.meta.v1.ObjectMetaArgs(name=PRIORITIES, namespace=KUBE_SYSTEM)
        kubernetes.core.v1.ConfigMap(f"{name}-priorities", metadata=called, data={PRIORITIES_KEY: text}, opts=opts)
        if not reader:
            return
        # The autoscaler lists and watches the ConfigMaps of its namespace (expander/factory at 1.36.1). A rule for lists cannot
        # name an object.
        reads = kubernetes.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["configmaps"], verbs=["get", "list", "watch"])
        role = kubernetes.rbac.v1.Role(f"{name}-role", metadata=called, rules=[reads], opts=opts)
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-binding",
            metadata=called,
            role_ref=kubernetes.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=PRIORITIES),
            subjects=[kubernetes.rbac.v1.SubjectArgs(kind="ServiceAccount", name=reader, namespace=KUBE_SYSTEM)],
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role])),
        )
