"""Kueue in a cluster, each team's queue, and the LocalQueues through which Jobs enter it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespaces import namespace
from fleet.charts.chart import Chart
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import DEFAULT_QUEUE
from fleet.render.queues import QueueObjects, TeamQueue


@dataclass(frozen=True, slots=True)
class QueueControllerArgs:
    """`chart` is Kueue's, `objects` its configuration for the cluster.

    `ready` must exist before any chart: control plane, system nodes, and the priority classes of pods, which do not belong to
    Kueue. `deliver` installs the chart.
    """

    chart: Chart
    objects: QueueObjects
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class QueueController(Component[QueueControllerArgs]):
    """Kueue in its own namespace. Queues and their namespaces depend on it, so they are deleted before it.

    Its webhooks check new objects and its finalizers hold deleted ones, so without Kueue neither would finish. A dot precedes
    names from the settings, so that no two logical names collide.
    """

    release: pulumi.Resource
    """Ready when the webhooks answer."""
    teams: Mapping[str, TeamQueue]
    """Each team's configuration of Kueue."""
    flavors: dict[str, pulumi.Resource]
    """The flavor of each pool that has one, by the pool's name."""

    def declare(self, name: str, args: QueueControllerArgs) -> None:
        self.teams = args.objects.teams
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        self.release = args.deliver(Delivery(f"{name}-chart", args.chart, self, [home, *args.ready]))
        for manifest in args.objects.priorities:
            custom(f"{name}-{manifest['metadata']['name']}", manifest, parent=self, depends_on=[self.release])
        self.flavors = {
            pool: custom(f"{name}.{pool}", manifest, parent=self, depends_on=[self.release])
            for manifest in args.objects.flavors
            for pool in [manifest["metadata"]["name"]]
        }


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


@dataclass(frozen=True, slots=True)
class LocalQueuesArgs:
    """`manifests` are the LocalQueues of each namespace (`fleet.render.queues`).

    `ready` exists before them: the ClusterQueue, the namespace and its network isolation.
    """

    manifests: Mapping[str, Sequence[Manifest]]
    ready: Mapping[str, Sequence[pulumi.Resource]]


class LocalQueues(Component[LocalQueuesArgs]):
    """The LocalQueues of all namespaces of a cluster.

    A LocalQueue's name is unique in its namespace, for all teams. So neither parent nor logical name contains the team: if a
    namespace changes teams, its LocalQueues keep their URNs and are replaced. Otherwise Pulumi would create a second one first.
    """

    made: dict[str, tuple[pulumi.Resource, ...]]
    """The LocalQueues on which a Job of a namespace depends, by namespace."""
    queues: pulumi.Output[dict[str, list[str]]]
    """Names that a Job may use in its queue label, by namespace."""

    def declare(self, name: str, args: LocalQueuesArgs) -> None:
        self.made = {
            namespace: tuple(self._declare(f"{name}.{namespace}", manifest, args.ready[namespace]) for manifest in manifests)
            for namespace, manifests in args.manifests.items()
        }
        names = {
            namespace: [manifest["metadata"]["name"] for manifest in manifests] for namespace, manifests in args.manifests.items()
        }
        self.queues = pulumi.Output.from_input(names)

    def _declare(self, name: str, manifest: Manifest, ready: Sequence[pulumi.Resource]) -> pulumi.Resource:
        # The role of the LocalQueue with its team's name is always the same.
        role = DEFAULT_QUEUE if manifest["metadata"]["name"] == DEFAULT_QUEUE else "team"
        return custom(
            f"{name}.{role}",
            manifest,
            parent=self,
            depends_on=ready,
            # The field is immutable (apis/kueue/v1beta2/localqueue_types.go).
            replace_on=["spec.clusterQueue"],
        )
