"""A priority class of pods."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

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
