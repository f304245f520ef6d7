"""One team's queue: what its GPU Jobs wait in until its quota has room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.render.queues import TeamQueue


@dataclass(frozen=True, slots=True)
class GpuQueueArgs:
    """`queue` is what Kueue is told of the team; `flavors` are those of the cluster's pools by name, and stand before."""

    queue: TeamQueue
    flavors: Mapping[str, pulumi.Resource]


class GpuQueue(Component[GpuQueueArgs]):
    """A team's ClusterQueue. The team's namespaces reach it by LocalQueues, which are not here: a namespace may change teams."""

    cluster_queue: pulumi.CustomResource
    """Active once it is made."""

    def declare(self, name: str, args: GpuQueueArgs) -> None:
        needed = [args.flavors[pool] for pool in args.queue.flavors]
        self.cluster_queue = custom(f"{name}-queue", args.queue.cluster_queue, parent=self, depends_on=needed)
