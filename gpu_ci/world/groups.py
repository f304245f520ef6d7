"""The node groups that the cloud of a cluster would have, and their nodes."""

from collections.abc import Iterator
from datetime import date
from itertools import chain

from fleet.facts.hardware import OWNED, Machine, price_of
from fleet.facts.offer import Offer, allocatable, least
from fleet.facts.pricing import Money, quoted
from fleet.facts.scheduling import GPU_RESOURCE, HOST_LABEL, STARTUP_GATE, SYSTEM_POOL, Taint
from fleet.facts.tables import toml
from fleet.prove.bill import lines
from fleet.prove.nodes import Nodes, cluster_nodes, exactly, machine_labels
from fleet.prove.placement import Host
from fleet.providers.phases import NEW, node_phases
from fleet.providers.provider import NodeGroup
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes as Span
from fleet.settings.pool import offered
from gpu_ci.world.plane import FAKE_NODE

_UNKNOWN_SYSTEM = Machine(name="any", cloud=OWNED, vcpus=16, memory_mib=64 * 1024, arch="x86_64", sockets=1)
"""A node for controllers and listeners of a cluster whose settings describe none."""
_REGION_LABEL = "topology.kubernetes.io/region"


class Group(NodeGroup):
    """One node group of a pool, whose nodes are as `of` describes them. `span` are its least and most.

    `boot` are the seconds from a request to a node that is ready, as far as public figures know them.
    """

    of: Nodes
    boot: float

    @property
    def pool(self) -> str:
        """Its pool."""
        return self.of.host.name

    @property
    def replaces(self) -> bool:
        """Whether another machine follows one that is gone."""
        return PROVIDERS[self.of.settings.provider].profile.from_zero

    def price(self, at: int) -> Money:
        """USD an hour of a node of its machine type `at`, without its disk."""
        settings, machine = self.of.settings, self.of.host.machines[at]
        if (pool := settings.pools.get(self.pool)) is not None:
            return pool.price(machine.name, settings.region)
        if (known := price_of(machine, settings.region, self.of.host.capacity)) is not None:
            return quoted(known)
        # The bill alone has the price of a flexible shape, which is that of its parts and the same on each day.
        parts = (line.dear for line in lines(self.of.cluster, settings, date.min) if line.item == "system pool")
        return next(parts, quoted(None))

    def node(self, at: int, name: str, zone: str, address: str = "") -> Object:
        """A new node of the machine type `at`. `address` is its id at the cloud."""
        host = self.of.host
        machine = host.machines[at]
        units, offer = _units(host, machine), allocatable(machine, host.disk)
        whole = Offer(machine.vcpus * 1000, machine.memory_mib, host.disk, machine.gpus, offer.pods)
        return _node(name, self._labels(at, name, zone), self._taints(self.of.taints), address, (whole, offer), units)

    def template(self) -> Object:
        """A node that does not exist yet, as the cloud's autoscaler imagines it: the least of all machine types."""
        host, facts = self.of.host, toml("nodes.toml")["providers"][self.of.settings.provider]
        believed: list[str] = facts.get("template", facts)["labels"]
        known = self._labels(0, f"template-{self.pool}", zone := self.zones[0])
        labels = {key: value for key, value in known.items() if key not in facts["labels"] or key in believed}
        labels |= {key: zone for key in believed if key.endswith("/zone")}
        for text in facts.get("spot-labels", ()):
            labels.pop(text.partition("=")[0], None)
        # All machine types of a pool have the same GPUs.
        units = _units(host, host.machines[0])
        if units and not PROVIDERS[self.of.settings.provider].profile.shares_from_zero:
            units = {GPU_RESOURCE: host.machines[0].gpus}
        offer = least(allocatable(machine, host.disk) for machine in host.machines)
        return _node(known[HOST_LABEL], labels, self._taints(self.of.imagined or self.of.taints), "", (offer, offer), units)

    def _taints(self, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
        health, gpus = self.of.settings.health, self.of.host.machines[0].gpus
        return (*taints, *((STARTUP_GATE,) if health is not None and health.startup_gate and gpus else ()))

    def _labels(self, at: int, name: str, zone: str) -> dict[str, str]:
        """The labels of a node. A value that only the cloud knows is made up."""
        told = {HOST_LABEL: name, _REGION_LABEL: self.of.settings.region}
        known = self.of.labels[at].items()
        labels = {key: next(iter(values)) if values else told.get(key, self.pool) for key, values in known}
        return labels | {key: zone for key in labels if key.endswith("/zone")}


def _units(host: Host, machine: Machine) -> dict[str, int]:
    return {host.resource: host.units(machine)} if machine.gpus else {}


def _node(
    name: str, labels: dict[str, str], taints: tuple[Taint, ...], address: str, offers: tuple[Offer, Offer], units: dict[str, int]
) -> Object:
    marks = [{"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in taints]
    capacity, free = ({**offered(offer, units), "pods": str(offer.pods)} for offer in offers)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {FAKE_NODE: "fake"}},
        "spec": {"taints": marks, "providerID": address},
        "status": {"capacity": capacity, "allocatable": free},
    }


def groups(name: str, settings: Cluster, github: GitHub) -> dict[str, Group]:
    """The node groups of the cluster `name` by id: those of its pools, and of the nodes for controllers and listeners."""
    return {group.id: group for group in chain(_of_pools(name, settings, github), _undescribed(name, settings, github))}


def _of_pools(name: str, settings: Cluster, github: GitHub) -> Iterator[Group]:
    for nodes in cluster_nodes(name, settings, github):
        pool = settings.pools.get(nodes.host.name)
        phases = [phase for phase in node_phases(settings, pool, NEW) if phase.name != "capacity"] if pool is not None else []
        boot = sum((phase.low + (phase.high or phase.low)) / 2 for phase in phases)
        for group in PROVIDERS[settings.provider].node_groups(name, settings, nodes.host.name):
            # The region stands for the zones that the settings do not show.
            yield Group(group.id, group.zones or (settings.region,), group.span, nodes, boot)


def _undescribed(name: str, settings: Cluster, github: GitHub) -> Iterator[Group]:
    """Two nodes of a cluster whose settings do not describe the nodes of controllers."""
    if PROVIDERS[settings.provider].system_machines(settings) is None:
        own = machine_labels(_UNKNOWN_SYSTEM, toml("nodes.toml")["providers"][settings.provider]["labels"], ())
        labels = own | exactly(settings.system_selector)
        span, host = Span(min=2, max=2), Host(SYSTEM_POOL, (_UNKNOWN_SYSTEM,), 2, "on-demand", 200 * 1024, ())
        nodes = Nodes(name, settings, github, host, span, (labels,), ())
        yield Group(f"{name}-{SYSTEM_POOL}", (settings.region,), span, nodes, 0)
