"""One team's queue. Its GPU Jobs wait there until its quota has room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from fleet.render.queues import TeamQueue


@dataclass(frozen=True, slots=True)
class GpuQueueArgs:
    """`queue` is the team's configuration of Kueue. `flavors` are the cluster's flavors by pool, which must exist before."""

    queue: TeamQueue
    flavors: Mapping[str, pulumi.Resource]


class GpuQueue(Component[GpuQueueArgs]):
    """A team's ClusterQueue. `LocalQueues` declares the LocalQueues that refer to it, because a namespace may change teams."""

    cluster_queue: pulumi.CustomResource
    """Active once it exists."""

    def declare(self, name: str, args: GpuQueueArgs) -> None:
        needed = [args.flavors[pool] for pool in args.queue.flavors]
        self.cluster_queue = custom(f"{name}-queue", args.queue.cluster_queue, parent=self, depends_on=needed)
