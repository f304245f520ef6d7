"""The priority classes of GPU Jobs, workloads and placeholders, with and without queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.priority_class import priority_class
from fleet.facts.scheduling import Priority


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
