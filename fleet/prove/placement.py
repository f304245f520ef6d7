"""Placement of runners: how many fit on a machine, which GPUs stay idle, which runners can never be scheduled.

A runner set of pods uses one or several pools and must fit on every instance type of each: the autoscaler assumes the smallest,
and any type may be bought. Only requests count, as in the scheduler. A runner that is a machine has the machine to itself. Its
launcher runs in the cluster and needs room on the system pool.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from fleet.charts.arc import LAUNCHER_POD
from fleet.charts.container_jobs import OWN_POD, own_runner
from fleet.facts import hardware, pricing
from fleet.facts.credentials import mask
from fleet.facts.flow import most_runners
from fleet.facts.groups import grouped
from fleet.facts.offer import DISK_KEPT, DISK_SHARE, Offer, allocatable, for_runners
from fleet.facts.pods import Requests
from fleet.facts.pricing import Money
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.remark import Remark, costs, said
from fleet.facts.scheduling import SYSTEM_POOL
from fleet.facts.versions import daemonsets, runner_gpu
from fleet.prove import topology
from fleet.prove.image_fit import node_driver, unrunnable
from fleet.prove.launchers import launcher_room, system_room
from fleet.prove.runner_pods import runner_ask
from fleet.prove.topology import Ask
from fleet.providers.fleet import Fleet
from fleet.providers.installed import gpu_node_pods
from fleet.settings.cluster import Cluster
from fleet.settings.health import nodes_at_once
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.runner import PodRunner, Runner, request_text
from fleet.settings.sharing import AnySharing, resource_of, units_of


class Host(Record):
    """The machines that run a set's jobs: at most `count`, each of one of `machines`. `name` is the pool or the kind of machine.

    `disk` is the root disk in MiB. `daemonsets` are the DaemonSets' pods of every node.
    `capacity` is one of `fleet.settings.pool.Capacity`. `managers` are the policies of kubelet that may reject pods.
    """

    name: str
    machines: tuple[hardware.Machine, ...]
    count: int
    capacity: str
    disk: int
    daemonsets: tuple[Requests, ...]
    sharing: AnySharing | None = None
    managers: ResourceManagers | None = None

    @property
    def resource(self) -> str:
        """The extended resource that its nodes advertise."""
        return resource_of(self.sharing)

    def units(self, machine: hardware.Machine) -> int:
        """Units of the resource that one node of a machine offers: its GPUs, or their shares."""
        return units_of(self.sharing, machine)

    @property
    def counted(self) -> str:
        """The word for its units: GPUs or shares."""
        return "shares" if self.sharing else "GPUs"


class Fit(Record):
    """Runners of one class on one machine: how many fit, which resource runs out first, how many GPUs stay idle.

    If GPUs are shared, `offer` and `stranded` count shares.
    """

    machine: hardware.Machine
    offer: Offer
    count: int
    limited_by: str
    stranded: int


NUMA = "NUMA"
"""What limits a node whose NUMA nodes have no room for one more pod."""


def fit(runner: Ask, machine: hardware.Machine, host: Host) -> Fit:
    """How many runners of a class, or equal jobs, one machine of a host holds."""
    offer = replace(for_runners(machine, host.disk, host.daemonsets), gpus=host.units(machine))
    rooms = _rooms(runner, offer, host.counted)
    aligned = topology.room(runner, machine, offer.gpus, host.managers)
    rooms |= {} if aligned is None else {NUMA: aligned}
    count = min(rooms.values())
    limited_by = next(name for name, room in rooms.items() if room == count)
    return Fit(machine, offer, count, limited_by, offer.gpus - count * runner.gpus)


def offered(offer: Offer) -> tuple[int, int, int, int]:
    """GPUs, millicores, and MiB of memory and of disk."""
    return offer.gpus, offer.cpu, offer.memory, offer.storage


def requested(ask: Ask) -> tuple[int, int, int, int]:
    """The same of a request."""
    return ask.gpus, ask.cpu.request, ask.memory.request, ask.scratch


def _rooms(runner: Ask, offer: Offer, counted: str) -> dict[str, int]:
    """How many runners each resource would hold on its own."""
    rows = zip((counted, "CPU", "memory", "disk"), offered(offer), requested(runner), strict=True)
    # A pod may request nothing of a resource. Then only the number of pods limits it.
    return {name: max(free, 0) // request for name, free, request in rows if request} | {"pods": offer.pods}


class Placement(Record):
    """One runner set and one of its hosts. `capacity` is the number of runners on a full host of the worst machine type.

    A set of pods with several pools has a placement for each, the first choice first, and must fit in all of them. `launchers` is
    how many launchers the cluster's system pool holds, for all its sets of machines together; None for pods. `of_runners`: the
    pods are the runners' own, of a set whose jobs run in containers elsewhere. `host_error` is why the host cannot run the set at
    all: its image, or no room for the runners' own pods on the system pool.
    """

    cluster: str
    runner_set: str
    runner: Runner
    host: Host
    fits: tuple[Fit, ...]
    launchers: int | None = None
    host_error: str = ""
    of_runners: bool = False

    @property
    def pods(self) -> str:
        """The set, and whether these are the runners' own pods."""
        return f"{self.runner_set} (runners)" if self.of_runners else self.runner_set

    @property
    def choice(self) -> int:
        """The place of the host among the set's pools: 1 for the first choice."""
        return self.runner.ordered.index(self.host.name) + 1 if isinstance(self.runner, PodRunner) else 1

    @property
    def asks(self) -> str:
        """The requests of one runner in words, those of its whole pod. A share of a GPU is named as a share."""
        if not isinstance(self.runner, PodRunner):
            return self.runner.asks
        ask = runner_ask(self.runner)
        words, count = request_text(ask.gpus, ask.cpu, ask.memory), ask.gpus
        words += " with services" if self.runner.in_containers else ""
        if self.host.sharing is None:
            return words
        unit = self.host.sharing.unit
        return words.replace(f"{count} GPU", unit if count == 1 else f"{count} x {unit}", 1)

    @property
    def worst(self) -> Fit:
        """The instance type that holds the fewest."""
        return min(self.fits, key=lambda fitted: fitted.count)

    @property
    def capacity(self) -> int:
        """Runners that the whole host holds if all machines are of the worst type."""
        return self.worst.count * self.host.count

    @property
    def error(self) -> str:
        """Why the runner cannot be placed, or nothing."""
        if not isinstance(self.runner, PodRunner):
            return _NO_LAUNCHER if self.launchers == 0 else ""
        wrong = self.host_error or unfit(runner_ask(self.runner), self.host, self.fits)
        if wrong and self.runner.in_containers and not self.host_error:
            wrong = f"a job with {self.runner.services.most} services and a container action {wrong}"
        if wrong and self.of_runners:
            return f"the runners' own pods on pool {self.host.name}: {wrong}"
        return f"pool {self.host.name}: {wrong}" if wrong and len(self.runner.ordered) > 1 else wrong

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about a working placement."""
        if self.error:
            return ()
        if isinstance(self.runner, PodRunner):
            return tuple(_remarks(self.runner, self))
        # The launcher of a machine tries its shapes and domains in one order, if there are several.
        order = self.runner.whole_machine.order if self.runner.whole_machine is not None else ""
        return (f"falls back in this order where {order}",) if order else ()


def place(fleet: Fleet) -> tuple[Placement, ...]:
    """Every runner set and its hosts, in the order of the config."""
    return tuple(placement for name, cluster in fleet.clusters_by_name() for placement in _placements(fleet, name, cluster))


def _placements(fleet: Fleet, cluster: str, settings: Cluster) -> Iterator[Placement]:
    hosts = pool_hosts(settings)
    machines = any(runner.whole_machine is not None for runner in settings.runners.values())
    launchers = launcher_room(cluster, settings, fleet.github) if machines else None
    on_system = any(runner.on_system_pool for runner in settings.pod_runners.values())
    crowded = on_system and system_room(cluster, settings, fleet.github) == []
    for name, runner in settings.runners.items():
        if (whole := runner.whole_machine) is not None and launchers is not None:
            host = Host(whole.name, whole.types, runner.span.max, whole.capacity, whole.disk, ())
            # A machine runs only one job.
            offers = (Offer(machine.vcpus * 1000, machine.memory_mib, whole.disk, machine.gpus, 1) for machine in whole.types)
            fits = tuple(Fit(machine, offer, 1, "one job", 0) for machine, offer in zip(whole.types, offers, strict=True))
            yield Placement(cluster, name, runner, host, fits, launchers)
        elif isinstance(runner, PodRunner):
            # The workflow of a job in a container names its image.
            with_image = bool(runner.gpus) and not runner.in_containers
            row, ask = runner_gpu(settings.with_image(runner).image) if with_image else None, runner_ask(runner)
            no_room = _no_own_room(runner) if crowded and runner.on_system_pool else ""
            for host in (hosts[pool] for pool in runner.ordered):
                fits = tuple(fit(ask, machine, host) for machine in host.machines)
                wrong = unrunnable(row.image, host.machines, node_driver(settings, host.name)) if row else no_room
                yield Placement(cluster, name, runner, host, fits, host_error=wrong)
            if runner.runner_pool is not None:
                own, host = own_runner(runner), hosts[runner.runner_pool]
                fits = tuple(fit(own, machine, host) for machine in host.machines)
                yield Placement(cluster, name, own, host, fits, of_runners=True)
        else:
            raise TypeError(f"{cluster}/{name}: {settings.provider} has no place for runners of kind {runner.kind}; add it here")


def _no_own_room(runner: PodRunner) -> str:
    """Why the runners' own pods of a class have no room on the system pool."""
    return said("own_pods_room", runner=runner, cpu=cpu_text(OWN_POD.cpu), memory=memory_text(OWN_POD.memory))


def pool_hosts(settings: Cluster, *names: str) -> dict[str, Host]:
    """The pools of these names, or every pool of a cluster, as hosts of jobs: a node has the pods of provider and charts."""
    provided, charted = daemonsets(settings.provider, settings.node_features), gpu_node_pods(settings)
    hosts = {}
    for name in names or settings.pools:
        pool = settings.pools[name]
        strategies = ("", pool.sharing.strategy if pool.sharing else "")
        theirs = (pod for pod in charted if pod.strategy in strategies and (pool.has_gpus or pod.on == "all nodes"))
        pods: tuple[Requests, ...] = (*provided, *theirs)
        shared = (pool.sharing, pool.resource_managers)
        hosts[name] = Host(name, pool.machines, pool.nodes.max, pool.capacity, pool.disk, pods, *shared)
    return hosts


def pool_host(settings: Cluster, pool_name: str) -> Host:
    """One pool of a cluster as a host of jobs."""
    return pool_hosts(settings, pool_name)[pool_name]


def per_node(ask: Ask, hosts: Iterable[Host]) -> int:
    """How many such pods each node of these hosts holds at least. A pod that does not fit is refused elsewhere."""
    return max(1, min(fit(ask, machine, host).count for host in hosts for machine in host.machines))


def node_price(settings: Cluster, host: Host) -> Money:
    """The price per hour of the most expensive machine of a host, as it is bought."""
    return pricing.span([pricing.quoted(hardware.price_of(each, settings.region, host.capacity)) for each in host.machines])[1]


def overbooked(placements: Iterable[Placement]) -> Iterator[str]:
    """A line for each group of pools whose sets may ask for more runners than it holds, and for launchers without room."""
    rows = list(placements)
    for group in _connected(row for row in rows if isinstance(row.runner, PodRunner)):
        if not any(placement.error for placement in group):
            yield from _too_many(group)
    of_machines = (row for row in rows if not isinstance(row.runner, PodRunner) and not row.error)
    for cluster, sets in groupby(of_machines, lambda row: row.cluster):
        # Sets that always keep launchers come first. The others share the rest.
        keeping_first = sorted(sets, key=lambda row: row.runner.span.min == 0)
        room = keeping_first[0].launchers or 0
        if sum(row.runner.span.max for row in keeping_first) > room:
            yield (
                f"{cluster}/{SYSTEM_POOL}: {_asked(keeping_first)} machines need a launcher each, "
                f"the system pool holds {room}: {_shared(keeping_first, room)}"
            )


def _connected(placements: Iterable[Placement]) -> list[list[Placement]]:
    """The placements in groups, in the order of their first ones. Groups share no pool and no runner set."""
    group_of: dict[tuple[str, str, str], list[Placement]] = {}
    for placement in placements:
        of_pool = group_of.setdefault((placement.cluster, "pool", placement.host.name), [])
        of_set = group_of.setdefault((placement.cluster, "set", placement.pods), of_pool)
        of_pool.append(placement)
        if of_set is not of_pool:
            of_set += of_pool
            group_of |= {key: of_set for key, group in group_of.items() if group is of_pool}
    return list({id(group): group for group in group_of.values()}.values())


def _too_many(group: list[Placement]) -> Iterator[str]:
    """The line of a group of pools whose sets may ask for more runners than the pools hold at the same time."""
    sets = list({placement.pods: placement for placement in group}.values())
    pools = {placement.host.name: placement.host for placement in group}
    names = f"{group[0].cluster}/{' + '.join(pools)}"
    # The runner of a job in a container has taken it from GitHub's queue, and gives up.
    fail = any(isinstance(placement.runner, PodRunner) and placement.runner.in_containers for placement in sets)
    rest = "jobs beyond that wait" + (", and those in containers then fail" if fail else "") + _never_placed(group)
    if len(pools) == 1:
        # Share of a node that one runner takes on the worst type; sets of one pool add up.
        needed = math.ceil(sum(Fraction(placement.runner.span.max, placement.worst.count) for placement in sets))
        most = sets[0].host.count
        if needed > most:
            yield f"{names}: {_asked(sets)} runners need {needed} nodes, the pool has at most {most}: {rest}"
        return
    runners = sum(placement.runner.span.max for placement in sets)
    demand, counts = {row.pods: row.runner.span.max for row in sets}, {name: host.count for name, host in pools.items()}
    held = most_runners(demand, counts, {(row.pods, row.host.name): row.worst.count for row in group})
    if held < runners:
        yield f"{names}: {_asked(sets)} runners, and the pools hold at most {held} at the same time: {rest}"


def _never_placed(group: list[Placement]) -> str:
    """The classes that ask for more runners than their own pools hold. Their set takes more jobs from GitHub than can run.

    ARC sends GitHub `maxRunners` as the set's capacity and asks nothing else (actions/scaleset v0.4.0, session_client.go).
    """
    held: dict[str, int] = {}
    for placement in group:
        held[placement.pods] = held.get(placement.pods, 0) + placement.capacity
    sets = {placement.pods: placement for placement in group if not placement.of_runners}
    over = [f"{name} to {held[name]}" for name, placement in sets.items() if placement.runner.span.max > held[name]]
    return f", and no other set gets them; lower scale.max of {' and of '.join(over)}" if over else ""


def unfilled(fleet: Fleet, placements: Iterable[Placement]) -> Iterator[Remark]:
    """A remark for each pool with more nodes than its runners need, if only runners use it. Nodes in quarantine count too."""
    of_pods = (placement for placement in placements if isinstance(placement.runner, PodRunner))
    for (cluster, name), sets in grouped(((pods.cluster, pods.host.name), pods) for pods in of_pods).items():
        settings, nodes = fleet.clusters[cluster], fleet.clusters[cluster].pools[name].nodes
        # The nodes of a reservation, and those that always run, are paid for anyway.
        fixed = settings.pools[name].reservation is not None or nodes.min == nodes.max
        if fixed or name in settings.pools_of_others or any(placement.error for placement in sets):
            continue
        sick = nodes_at_once(settings.health.max_share, nodes.max) if settings.health else 0
        needed = sum(math.ceil(placement.runner.span.max / placement.worst.count) for placement in sets)
        if max(needed, nodes.min) + settings.pools[name].placeholders + sick < nodes.max:
            few = f"{needed} {'node' if needed == 1 else 'nodes'}"
            yield costs(
                f"{cluster}/{name}: {_asked(sets)} runners fill at most {few}, and the pool has up to {nodes.max}; lower "
                "nodes.max, or raise scale.max",
                act=True,
            )


def _shared(sets: Iterable[Placement], room: int) -> str:
    """The sets that always keep launchers, and those that may get too few."""
    keep = [placement for placement in sets if placement.runner.span.min]
    more = [placement for placement in sets if placement.runner.span.max > placement.runner.span.min]
    if not (always_on := sum(placement.runner.span.min for placement in keep)):
        return "jobs beyond that wait"
    always = f"{' + '.join(f'{placement.runner.span.min} of {placement.runner_set}' for placement in keep)} always run"
    if always_on < room:
        return f"{always}, the other {room - always_on} are for jobs of {_names(more)}; more jobs than that wait"
    without = f", {always_on - room} of them without a launcher" if always_on > room else ""
    starved = f", and {_names(more)} may get none" if more else ""
    return f"{always}{without}{starved}; raise system.nodes"


def _names(sets: Iterable[Placement]) -> str:
    return " and ".join(placement.pods for placement in sets)


def _asked(sets: Iterable[Placement]) -> str:
    return " + ".join(f"{placement.runner.span.max} {placement.pods}" for placement in sets)


class PlacementError(Exception):
    """Runner sets that no node can hold, and parts that cannot work, a line for each. Credentials are masked."""

    def __init__(self, text: str) -> None:
        super().__init__(mask(text))


def unfit(runner: Ask, host: Host, fits: Iterable[Fit]) -> str:
    """Why a machine of a host cannot hold the requests, and what would help. Empty if all machines can."""
    short = [fitted for fitted in fits if fitted.count == 0]
    return "; ".join(shortage(runner, fitted, host) for fitted in short) + _advice(runner, host, short)


def shortage(runner: Ask, fitted: Fit, host: Host) -> str:
    """The requests that a machine cannot hold, and what it has."""
    offer, machine, disk = fitted.offer, fitted.machine, host.disk
    if fitted.limited_by == host.counted:
        return f"asks for {runner.gpus} {host.counted}, {machine.name} has {offer.gpus}"
    if fitted.limited_by == NUMA:
        return topology.rejection(runner, machine, offer.gpus, host.managers)
    cpu, memory, scratch = runner.cpu.request, runner.memory.request, runner.scratch
    # Show every shortage at once, so that the reader can fix all of them in one step.
    rows = (
        (cpu, offer.cpu, f"{cpu_text(cpu)} CPU", f"{cpu_text(max(offer.cpu, 0))} of {machine.vcpus}"),
        (memory, offer.memory, memory_text(memory), f"{max(offer.memory, 0)}Mi of {memory_text(machine.memory_mib)}"),
        (scratch, offer.storage, f"{memory_text(scratch)} of disk", f"{max(offer.storage, 0)}Mi of {memory_text(disk)}"),
        (1, offer.pods, "room for a pod", f"{max(offer.pods, 0)} of {allocatable(machine, disk).pods}"),
    )
    requests, offers = zip(*((want, offered) for needed, has, want, offered in rows if needed > has), strict=True)
    return f"asks for {' and '.join(requests)}, {machine.name} leaves pods {' and '.join(offers)}"


_NO_LAUNCHER = (
    f"its launcher ({cpu_text(LAUNCHER_POD.cpu)} CPU, {memory_text(LAUNCHER_POD.memory)}) has no room in the system pool "
    "beside ARC's controller and listeners; raise system.nodes"
)


def _advice(runner: Ask, host: Host, fits: Collection[Fit]) -> str:
    if all(fitted.limited_by == NUMA for fitted in fits):
        return ""
    short = {room for fitted in fits for room, count in _rooms(runner, fitted.offer, host.counted).items() if not count}
    if short == {"disk"}:
        return f"; raise the pool's disk to {memory_text(disk_for(runner.scratch))}"
    if host.machines[0].cloud == hardware.OWNED:
        return "; ask for less, or name a larger machine"
    if best := smallest(runner, host):
        return f"; the smallest type that is large enough is {best.name}"
    kind = "with this GPU" if host.machines[0].gpu else "without GPU"
    return f"; no type {kind} in this cloud is large enough: ask for less"


def disk_for(scratch: int) -> int:
    """The smallest root disk, in MiB of whole GiB, that leaves `scratch` MiB to a pod."""
    return math.ceil((scratch + DISK_KEPT) / DISK_SHARE / 1024) * 1024


def smallest(runner: Ask, host: Host) -> hardware.Machine | None:
    """The smallest machine of the host's cloud and GPU that holds the runner: fewest GPUs, then least memory and vCPU."""
    first = host.machines[0]
    fitting = (one for one in hardware.machines(first.cloud) if one.gpu == first.gpu and fit(runner, one, host).count > 0)
    return min(fitting, key=lambda machine: (machine.gpus, machine.memory_mib, machine.vcpus), default=None)


def _remarks(runner: PodRunner, placement: Placement) -> Iterator[str]:
    worst = placement.worst
    if worst.stranded:
        counted = placement.host.counted
        reasons = {counted: f"runners of {runner.gpus} do not divide them", NUMA: "no NUMA node has room for one more"}
        why = reasons.get(worst.limited_by, f"{worst.limited_by} runs out first")
        yield costs(f"{worst.stranded} of {worst.offer.gpus} {counted} of a full {worst.machine.name} stay idle: {why}")
    if runner.fill_nodes and placement.choice == 1:
        yield said("fills")
    yield from doubts(runner_ask(runner), placement.host, placement.fits)
    if runner.memory.limit > worst.offer.memory:
        limit = memory_text(runner.memory.limit)
        yield f"memory limit {limit} is above the {worst.offer.memory}Mi of {worst.machine.name}: a job may be evicted before it"


def doubts(runner: Ask, host: Host, fits: Iterable[Fit]) -> Iterator[str]:
    """What stays undetermined offline, for machines whose NUMA nodes are not known."""
    return filter(None, (topology.undeterminable(runner, fitted.machine, fitted.count, host.managers) for fitted in fits))
