"""Kueue in a cluster, each team's queue, and the LocalQueues through which Jobs enter it."""

from collections.abc import Mapping, Sequence

import pulumi

from components.component import Component, Resources
from components.kubernetes.custom import custom
from components.kubernetes.deliver import deliver
from components.kubernetes.namespaces import namespace
from fleet.charts.chart import Chart
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import DEFAULT_QUEUE
from fleet.render.queues import QueueObjects, TeamQueue
from fleet.settings.gitops import GitOps


class QueueController(Component[Chart, QueueObjects, Resources, GitOps | None]):
    """Kueue in its own namespace. Queues and their namespaces depend on it, so they are deleted before it.

    Its webhooks check new objects and its finalizers hold deleted ones, so without Kueue neither would finish. A dot precedes
    names from the settings, so that no two logical names collide.

    `chart` is Kueue's, `objects` its configuration for the cluster. `ready` must exist before any chart: control plane, system
    nodes, and the priority classes of pods, which do not belong to Kueue. With `git` ArgoCD installs the chart.
    """

    release: pulumi.Resource
    """Ready when the webhooks answer."""
    teams: Mapping[str, TeamQueue]
    """Each team's configuration of Kueue."""
    flavors: dict[str, pulumi.Resource]
    """The flavor of each pool that has one, by the pool's name."""

    def declare(self, name: str, chart: Chart, objects: QueueObjects, ready: Resources, git: GitOps | None) -> None:
        self.teams = objects.teams
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=ready)
        self.release = deliver(f"{name}-chart", chart, git=git, parent=self, depends_on=[home, *ready])
        for manifest in objects.priorities:
            custom(f"{name}-{manifest['metadata']['name']}", manifest, parent=self, depends_on=[self.release])
        flavors = {manifest["metadata"]["name"]: manifest for manifest in objects.flavors}
        after = [self.release]
        self.flavors = {pool: custom(f"{name}.{pool}", of, parent=self, depends_on=after) for pool, of in flavors.items()}


class GpuQueue(Component[TeamQueue, Mapping[str, pulumi.Resource]]):
    """A team's ClusterQueue. `LocalQueues` declares the LocalQueues that refer to it, because a namespace may change teams.

    `queue` is the team's configuration of Kueue. `flavors` are the cluster's flavors by pool, which must exist before.
    """

    cluster_queue: pulumi.CustomResource
    """Active once it exists."""

    def declare(self, name: str, queue: TeamQueue, flavors: Mapping[str, pulumi.Resource]) -> None:
        needed = [flavors[pool] for pool in queue.flavors]
        self.cluster_queue = custom(f"{name}-queue", queue.cluster_queue, parent=self, depends_on=needed)


class LocalQueues(Component[Mapping[str, Sequence[Manifest]], Mapping[str, Resources]]):
    """The LocalQueues of all namespaces of a cluster.

    A LocalQueue's name is unique in its namespace, for all teams. So neither parent nor logical name contains the team: if a
    namespace changes teams, its LocalQueues keep their URNs and are replaced. Otherwise Pulumi would create a second one first.

    `of` are the LocalQueues of each namespace (`fleet.render.queues`). `ready` exists before them: the ClusterQueue, the
    namespace and its network isolation.
    """

    made: dict[str, tuple[pulumi.Resource, ...]]
    """The LocalQueues on which a Job of a namespace depends, by namespace."""
    queues: pulumi.Output[dict[str, list[str]]]
    """Names that a Job may use in its queue label, by namespace."""

    def declare(self, name: str, of: Mapping[str, Sequence[Manifest]], ready: Mapping[str, Resources]) -> None:
        spaces = of.items()
        self.made = {at: tuple(self._declare(f"{name}.{at}", each, ready[at]) for each in manifests) for at, manifests in spaces}
        names = {namespace: [manifest["metadata"]["name"] for manifest in manifests] for namespace, manifests in of.items()}
        self.queues = pulumi.Output.from_input(names)

    def _declare(self, name: str, manifest: Manifest, ready: Resources) -> pulumi.Resource:
        # The role of the LocalQueue with its team's name is always the same.
        role = DEFAULT_QUEUE if manifest["metadata"]["name"] == DEFAULT_QUEUE else "team"
        # The field is immutable (apis/kueue/v1beta2/localqueue_types.go).
        return custom(f"{name}.{role}", manifest, parent=self, depends_on=ready, replace_on=["spec.clusterQueue"])
