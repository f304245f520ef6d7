"""The nodes of each pool as the scheduler and the autoscaler see them: labels, taints, room."""

from collections.abc import Iterator, Mapping

from fleet.facts.hardware import CAPACITY_BLOCK, SPOT, Machine
from fleet.facts.pods import Requests
from fleet.facts.record import Record
from fleet.facts.scheduling import HOST_LABEL, INSTANCE_TYPE_LABEL, SYSTEM_POOL, Taint, system_labels
from fleet.facts.tables import toml
from fleet.facts.versions import daemonsets
from fleet.prove.placement import Host, pool_hosts
from fleet.providers.installed import installed
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import GPU_OPERATOR
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes as Span

_DISCOVERED = ("nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig.", "feature.node.kubernetes.io/")
"""Prefixes of the labels that feature discovery sets (gpu-operator v26.7.0: GPU and node feature discovery)."""

Values = frozenset[str] | None
"""The possible values of a label. None: the label exists, and the settings do not show its value."""


class Nodes(Record):
    """The nodes of one pool. `labels` has the labels of each machine of the host, in the same order.

    `taints` are those of real nodes, `imagined` those that the autoscaler assumes while the pool has no node. `span` is the
    number of nodes. `discovers`: whether feature discovery adds labels once a node has started.
    """

    cluster: str
    settings: Cluster
    github: GitHub
    host: Host
    span: Span
    labels: tuple[Mapping[str, Values], ...]
    taints: tuple[Taint, ...]
    imagined: tuple[Taint, ...] = ()
    discovers: bool = False

    @property
    def name(self) -> str:
        """Cluster and pool."""
        return f"{self.cluster}/{self.host.name}"

    @property
    def is_system(self) -> bool:
        """Whether this is the system pool."""
        return self.host.name == SYSTEM_POOL

    @property
    def starts_empty(self) -> bool:
        """Whether the autoscaler must start the first node."""
        return self.span.min == 0

    def values(self, index: int, key: str) -> Values:
        """The possible values of a label on machine `index`. Empty if its nodes do not have the label."""
        if key in self.labels[index]:
            return self.labels[index][key]
        return None if self.discovers and not self.starts_empty and key.startswith(_DISCOVERED) else frozenset()

    def every(self, key: str) -> list[Values]:
        """The possible values of a label on each machine type."""
        return [self.values(index, key) for index in range(len(self.labels))]

    def discovered_late(self, key: str) -> bool:
        """Whether feature discovery sets the label, and only after the autoscaler has started a node."""
        return self.discovers and self.starts_empty and key.startswith(_DISCOVERED) and key not in self.labels[0]


def cluster_nodes(cluster: str, settings: Cluster, github: GitHub) -> Iterator[Nodes]:
    """The nodes of every pool of a cluster, in the order of the config; after them those of the system pool."""
    provider, facts = PROVIDERS[settings.provider], toml("nodes.toml")["providers"][settings.provider]
    for name, host in pool_hosts(settings).items():
        pool = settings.pools[name]
        bought = SPOT if host.capacity == SPOT else "on-demand"
        theirs = dict(text.split("=") for text in facts.get(f"{bought}-labels", ()) if host.capacity != CAPACITY_BLOCK)
        ours = pool.node_labels(cluster, name, provider.profile, settings.flavor_of(name))
        pool_labels = exactly(theirs | ours | dict(settings.gpu_node_labels if pool.has_gpus else {}))
        zones = settings.zones_with_nodes(pool)
        labels = tuple(machine_labels(machine, facts["labels"], zones) | pool_labels for machine in host.machines)
        imagined = tuple(map(Taint.read, facts.get("template", {}).get("gpu-taints", ()))) if pool.has_gpus else ()
        taints, discovers = pool.node_taints(provider.profile), pool.has_gpus and settings.enablement == GPU_OPERATOR
        yield Nodes(cluster, settings, github, host, pool.nodes, labels, taints, imagined, discovers)
    if (system := provider.system_machines(settings)) is not None:
        machines, disk, span = system
        # The cluster's name in its cloud changes no request.
        pods = [pod for chart in installed(settings, cluster, github) for pod in chart.pods if pod.on == "all nodes"]
        daemons: tuple[Requests, ...] = (*daemonsets(settings.provider, settings.node_features), *pods)
        host = Host(SYSTEM_POOL, machines, span.max, "on-demand", disk, daemons)
        labels = tuple(machine_labels(machine, facts["labels"], ()) | exactly(system_labels(cluster)) for machine in machines)
        yield Nodes(cluster, settings, github, host, span, labels, ())


def machine_labels(machine: Machine, provided: list[str], zones: tuple[str, ...]) -> dict[str, Values]:
    """The labels that kubelet and the provider set on a machine."""
    labels_of: dict[str, Values] = dict.fromkeys((HOST_LABEL, "topology.kubernetes.io/region", *provided))
    certain = {"kubernetes.io/os": "linux", "kubernetes.io/arch": machine.arch.replace("x86_64", "amd64")}
    if INSTANCE_TYPE_LABEL in provided:
        certain[INSTANCE_TYPE_LABEL] = machine.name
    return labels_of | exactly(certain) | ({"topology.kubernetes.io/zone": frozenset(zones)} if zones else {})


def exactly(labels: Mapping[str, str]) -> dict[str, Values]:
    """Labels that have one value each."""
    return {key: frozenset((value,)) for key, value in labels.items()}
