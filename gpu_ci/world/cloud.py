"""A simulated cloud: it makes and ends the nodes of one cluster, refuses machines, loses them, and counts what they cost.

It keeps each group at its size, as an Auto Scaling group does: it replaces a machine that it loses. Nodes are kwok's. A boot
takes the public figures of `fleet/facts/data/starts.csv` over the time factor. The cloud refuses a machine at once.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from http import HTTPStatus
from itertools import chain
from threading import Event, RLock, Thread
from typing import NamedTuple
from urllib.error import HTTPError

from fleet.facts.hardware import OWNED, SPOT, Machine, price_of
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
from fleet.render.sweeps.api import Api, Object
from fleet.render.sweeps.quarantine import NODES
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes as Span
from fleet.settings.pool import offered
from gpu_ci.world.plane import FAKE_NODE, delete, merge, owner_of, passes, path_of

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


REFUSED = "InsufficientInstanceCapacity"
"""The error of a machine that the cloud does not have."""
_READY = 10
"""Seconds in which a new node is ready."""


@dataclass(slots=True)
class Instance:
    """A machine, of the machine type `at` of its group. Its node appears at `due`, a time of the cloud's clock."""

    name: str
    group: Group
    at: int
    zone: str
    due: float
    refused: bool
    made: bool = False

    @property
    def id(self) -> str:
        """Its id at the cloud, which its node has as providerID."""
        return f"gpu-ci-world:///{self.zone}/{self.name}"


class Usage(NamedTuple):
    """What machines cost so far. `seconds` by pool and `usd` are in the time of the fleet: real time by the factor.

    `peak` is the most machines of each pool at one time, and `hour` the highest USD an hour. Disks are not counted.
    """

    seconds: Mapping[str, float]
    usd: Money
    peak: Mapping[str, int]
    hour: Money


class Cloud:
    """The machines of one cluster. `factor` is how many seconds of the fleet pass in one of the world."""

    def __init__(
        self,
        api: Api,
        groups: Mapping[str, Group],
        factor: float = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        dice: random.Random | None = None,
    ) -> None:
        self.api, self.groups, self.factor = api, groups, factor
        self.sizes = {group.id: group.span.min for group in groups.values()}
        self.refuses: set[str] = set()
        self.instances: dict[str, Instance] = {}
        self.wake = Event()
        self._clock, self._dice, self._lock = clock, dice or random.Random(0), RLock()  # noqa: S311 - no secret
        self._gone: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._seconds: defaultdict[tuple[str, int], float] = defaultdict(float)
        self._peak: Counter[str] = Counter()
        self._hour, self._counted = Money(), clock()

    def start(self, stop: Event) -> Thread:
        """Keep every group at its size until `stop` is set."""
        return passes(self.once, self.wake, stop, 0.5)

    def once(self) -> None:
        """Ask for the machines that groups lack, and write what changed to the API server."""
        with self._lock:
            self._count()
            for group in self.groups.values():
                for _ in range(self.sizes[group.id] - len(self.of(group.id))):
                    self._ask(group)
            now = self._clock()
            for one in self.instances.values():
                if one.refused and one.group.id not in self.refuses:
                    one.refused, one.due = False, now + self._boot(one.group)
            due = [one for one in self.instances.values() if not (one.made or one.refused) and one.due <= now]
            gone = [*self._gone]
            self._count()
        for name in gone:
            delete(self.api, f"{NODES}/{name}")
            self._gone.discard(name)
        for one in due:
            try:
                self.api.call("POST", NODES, one.group.node(one.at, one.name, one.zone, one.id))
            except HTTPError as error:
                if error.code != HTTPStatus.CONFLICT:
                    raise
            one.made = True
            if one.name not in self.instances:
                self._gone.add(one.name)

    def of(self, group: str) -> list[Instance]:
        """The machines of a group, those that boot or were refused too."""
        with self._lock:
            return [one for one in self.instances.values() if one.group.id == group]

    def starts(self, group: str) -> bool:
        """Whether a machine of a group boots, or its node may not be ready yet."""
        return any(self._clock() < one.due + _READY for one in self.of(group))

    def find(self, identity: str) -> Instance | None:
        """The machine of an id or of a node's name; None if it is gone."""
        return self.instances.get(identity.rpartition("/")[2])

    def idle_delay(self, group: Group) -> float:
        """Seconds of the world for which a node of a pool stays idle."""
        return group.of.settings.idle_delay_of(group.pool) / self.factor

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def increase(self, group: str, count: int) -> None:
        """Ask for more machines. Raises ValueError beyond the most of the group."""
        with self._lock:
            if self.sizes[group] + count > self.groups[group].span.max:
                raise ValueError(f"{group} has {self.sizes[group]} machines, and at most {self.groups[group].span.max}")
            self.sizes[group] += count
        self.once()

    def decrease(self, group: str, count: int) -> None:
        """Withdraw requests for machines that have no node yet."""
        with self._lock:
            booting = [one for one in self.of(group) if not one.made]
            self.delete(group, [one.name for one in booting[-count:]] if count else ())

    def delete(self, group: str, names: Iterable[str]) -> None:
        """End machines, and make the group smaller by them. Raises ValueError for one of another group."""
        with self._lock:
            found = [(name, self.find(name)) for name in names]
            if wrong := [name for name, one in found if one is not None and one.group.id != group]:
                raise ValueError(f"{wrong[0]} is not in {group}")
            for one in [one for _, one in found if one is not None]:
                self.sizes[group] -= 1
                self._end(one)
        self.wake.set()

    # -- faults --------------------------------------------------------------------------------------------------------

    def refuse(self, pool: str = "", zone: str = "") -> None:
        """Have no new machine for the groups of a pool and a zone; without them for any GPU or CPU pool."""
        for group in self.groups.values():
            if group.pool == (pool or group.pool) != SYSTEM_POOL and zone in ("", *group.zones):
                self.refuses.add(group.id)

    def accept(self) -> None:
        """Have machines for all groups again."""
        self.refuses.clear()
        self.wake.set()

    def lose(self, name: str) -> None:
        """A machine is gone, with its node. The group replaces it, unless its machines are the owner's."""
        with self._lock:
            if not (one := self.instances[name]).group.replaces:
                self.sizes[one.group.id] -= 1
            self._end(one)
        self.wake.set()

    def silence(self, name: str, silent: bool = True) -> None:
        """The kubelet of a node says nothing any more, or speaks again."""
        self._patch(name, {"metadata": {"annotations": {FAKE_NODE: None if silent else "fake"}}})

    def lose_gpus(self, name: str, count: int = 1) -> None:
        """A node offers fewer GPUs."""
        resource = self.instances[name].group.of.host.resource
        free = self.api.call("GET", f"{NODES}/{name}")["status"]["allocatable"]
        left = {resource: str(max(0, int(free[resource]) - count))}
        self._patch(f"{name}/status", {"status": {"capacity": left, "allocatable": left}})

    def drain(self, name: str, seconds: float = 60) -> bool:
        """Let a node take no pod, and evict those that it has. Returns whether all were gone in time."""
        self._patch(name, {"spec": {"unschedulable": True}})
        end = self._clock() + seconds
        while (pods := self._pods(name)) and self._clock() < end:
            for pod in pods:
                asked = {key: pod["metadata"][key] for key in ("name", "namespace")}
                # A disruption budget refuses with 429: it is asked again.
                with suppress(HTTPError):
                    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": asked}
                    self.api.call("POST", f"{path_of(pod)}/eviction", eviction)
            time.sleep(0.2)
        return not pods

    def roll(self, group: str, seconds: float = 60) -> None:
        """Replace every node of a group, one after the other, when the old one is drained: it goes, and a new one comes."""
        for one in [one for one in self.of(group) if one.made]:
            self.drain(one.name, seconds)
            with self._lock:
                self._end(one)
            self.once()

    # -- money ---------------------------------------------------------------------------------------------------------

    def usage(self) -> Usage:
        """What the machines cost until now."""
        with self._lock:
            self._count()
            seconds: defaultdict[str, float] = defaultdict(float)
            usd = Money()
            for (group, at), spent in self._seconds.items():
                seconds[self.groups[group].pool] += spent * self.factor
                usd += self.groups[group].price(at).times(spent * self.factor / 3600)
            return Usage(seconds, usd, dict(self._peak), self._hour)

    def _count(self) -> None:
        """Count the time since the last call for every machine that the cloud has started."""
        now = self._clock()
        running = [one for one in self.instances.values() if not one.refused]
        for one in running:
            self._seconds[one.group.id, one.at] += now - self._counted
        self._counted = now
        for pool, number in Counter(one.group.pool for one in running).items():
            self._peak[pool] = max(self._peak[pool], number)
        self._hour = max(self._hour, sum((one.group.price(one.at) for one in running), Money()), key=lambda money: money.usd)

    # -- machines ------------------------------------------------------------------------------------------------------

    def _boot(self, group: Group) -> float:
        return group.boot / self.factor

    def _ask(self, group: Group) -> None:
        """Start a machine. On demand a cloud takes the first type of a list, for spot any of them."""
        self._numbers[group.pool] += 1
        types = len(group.of.host.machines) if group.of.host.capacity == SPOT else 1
        zone = min(group.zones, key=[one.zone for one in self.of(group.id)].count)
        name = f"{group.pool}-{self._numbers[group.pool]}"
        due = self._clock() + self._boot(group)
        self.instances[name] = Instance(name, group, self._dice.randrange(types), zone, due, group.id in self.refuses)

    def _end(self, one: Instance) -> None:
        self._count()
        del self.instances[one.name]
        if one.made:
            self._gone.add(one.name)

    def _pods(self, name: str) -> list[Object]:
        """The pods on a node that still run, without those of DaemonSets."""
        pods = self.api.list(f"/api/v1/pods?fieldSelector=spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed")
        return [pod for pod in pods if owner_of(pod)[0] != "DaemonSet"]

    def _patch(self, name: str, body: Object) -> None:
        merge(self.api, f"{NODES}/{name}", body)
