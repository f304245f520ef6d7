"""A simulated cloud: it makes and ends the nodes of one cluster, refuses machines, loses them, and counts what they cost.

It keeps each group at its size, as an Auto Scaling group does: it replaces a machine that it loses. Nodes are kwok's. A boot
takes the public figures of `fleet/facts/data/starts.csv` over the time factor. The cloud refuses a machine at once.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from threading import Event, RLock, Thread
from typing import NamedTuple
from urllib.error import HTTPError

from fleet.facts.hardware import SPOT
from fleet.facts.pricing import Money
from fleet.facts.scheduling import SYSTEM_POOL
from fleet.render.sweeps.api import Api, Object
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world.groups import Group
from gpu_ci.world.plane import FAKE_NODE, delete, merge, owner_of, passes, path_of

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
            one = self.instances[name]
            if not one.group.replaces:
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
