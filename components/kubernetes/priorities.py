"""Priority classes of pods: each by itself, and those of GPU Jobs, workloads and placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
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
