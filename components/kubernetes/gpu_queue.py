"""One team's queue: what its GPU Jobs wait in until its quota has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.kubernetes.custom import custom
from fleet.queues import Manifest, TeamQueue
from fleet.team_namespace import limit_range

_NAME = "queue"
"""Of the objects in a team's namespace: it has one of each."""


@dataclass(frozen=True, slots=True)
class GpuQueueArgs:
    """`queue` is what Kueue is told of the team.

    `flavors` are those of the cluster's pools by name, `homes` the team's namespaces by name, `network_policy` the spec of one
    for each of them. They stand before, and Kueue does.
    """

    queue: TeamQueue
    flavors: Mapping[str, pulumi.Resource]
    homes: Mapping[str, kubernetes.core.v1.Namespace]
    network_policy: Mapping[str, Any]


class GpuQueue(pulumi.ComponentResource):
    """A ClusterQueue, the LocalQueues by which the Jobs of the team's namespaces reach it, and the walls of those namespaces."""

    local_queues: pulumi.Output[dict[str, list[str]]]
    """Names that a Job may give in its queue label, by namespace."""

    def __init__(self, name: str, args: GpuQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:GpuQueue", name, {}, opts)
        queue = args.queue
        home = custom(
            f"{name}-queue", queue.cluster_queue, parent=self, depends_on=[args.flavors[pool] for pool in queue.flavors]
        )
        found: dict[str, list[str]] = {}
        for namespace, manifests in queue.local_queues.items():
            walls = self._walls(f"{name}.{namespace}", args.homes[namespace], args.network_policy)
            self._local_queues(f"{name}.{namespace}", manifests, [home, args.homes[namespace], *walls])
            found[namespace] = [each["metadata"]["name"] for each in manifests]
        self.local_queues = pulumi.Output.from_input(found)
        self.register_outputs({"localQueues": self.local_queues})

    def _walls(self, name: str, home: kubernetes.core.v1.Namespace, network_policy: Mapping[str, Any]) -> list[pulumi.Resource]:
        metadata = kubernetes.meta.v1.ObjectMetaArgs(name=_NAME, namespace=home.metadata.name)
        opts = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        return [
            kubernetes.networking.v1.NetworkPolicy(f"{name}-network", metadata=metadata, spec=dict(network_policy), opts=opts),
            kubernetes.core.v1.LimitRange(f"{name}-limits", metadata=metadata, spec=limit_range(), opts=opts),
        ]

    def _local_queues(self, name: str, manifests: Sequence[Manifest], depends_on: Sequence[pulumi.Resource]) -> None:
        for each in manifests:
            custom(
                f"{name}.{each['metadata']['name']}",
                each,
                parent=self,
                depends_on=depends_on,
                # The API server takes no other (apis/kueue/v1beta2/localqueue_types.go).
                replace_on=["spec.clusterQueue"],
            )
