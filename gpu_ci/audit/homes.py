"""Which pools of a foreign fleet run the pod of a runner class, by the proof of `fleet.prove.reach`, and what a node costs."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from fleet.facts import hardware, pricing
from fleet.facts.errors import InputError
from fleet.facts.nested import parts
from fleet.facts.offer import allocatable
from fleet.facts.pricing import Money
from fleet.facts.record import Record
from fleet.facts.requests import amounts
from fleet.facts.scheduling import GPU_RESOURCE, INSTANCE_TYPE_LABEL, is_gpu_resource
from fleet.prove import reach, topology
from fleet.prove.pod import PLAIN, Pod, pod_of
from gpu_ci.audit import model
from gpu_ci.audit.formats.types import node_labels
from gpu_ci.audit.model import Keys, RunnerClass, Seen

_ZONE = "topology.kubernetes.io/zone"
_MEBIBYTE = 2**20
_EFA = "vpc.amazonaws.com/efa"
_FEW = 3
"""Machine types of a pool that are listed."""
_ROOT_GIB = 20
"""The root disk of a group that names none (EKS user guide, managed node groups: 20 GiB)."""


class Home(Record):
    """A pool that runs a class: how many of its jobs each node of its first machine holds, and how many GPUs then stay idle."""

    pool: model.Pool
    from_zero: bool
    machine: hardware.Machine | None
    held: int | None
    stranded: int

    @property
    def words(self) -> str:
        """Its machine, and how many jobs a node of it holds."""
        more = len(self.pool.types) - _FEW
        types = ", ".join(self.pool.types[:_FEW]) + (f" and {more} more" if more > 0 else "")
        kind = self.machine.name if self.machine else types or "unknown machine"
        return f"{self.held} on {kind}" if self.held is not None else kind

    def node_price(self, region: str) -> Money:
        """USD an hour of a node, as it is bought first."""
        place = self.pool.region or region
        return price_of(self.machine.name if self.machine else "", place, self.pool.capacities)

    def price(self, region: str) -> Money:
        """USD an hour of a job, on a node full of them."""
        return self.node_price(region).times(1 / self.held) if self.held else Money(unknown=1)


def price_of(name: str, region: str, capacities: Iterable[str]) -> Money:
    """USD an hour of a machine in the first of these capacity types that has a price."""
    found = hardware.find(name)
    prices = [hardware.price(name, region, capacity) for capacity in capacities] if found and region else []
    return pricing.quoted(next((price for price in prices if price is not None), None))


def answer(one: RunnerClass, seen: Seen) -> reach.Reach | None:
    """What each pool of its cluster says to the pod of a class. None for machines, and if the files declare no such pool."""
    if one.machines or not one.where or not seen.pools:
        return None
    if (known := seen.reached.get(id(one))) is None:
        # The project's own figure is in the pod. That of a live node has its DaemonSets too, which the proof counts itself.
        own = next((over for over in one.overheads if not over.daemon_sets), None)
        spec = own.beside(one.where) if own else one.where
        if pod_in(one.values.instead({"kind": "Pod", "spec": spec})) is None:
            return None
        pod = Pod("class", one.name, "", spec, "", 1, False)
        known = seen.reached[id(one)] = prove(pod, one.at.file.path, seen, one.cluster)
    return known


def pod_in(keys: Keys) -> Pod | None:
    """The pod of an object; None if it has none that the API server reads."""
    try:
        return pod_of(keys.place, keys.mapping())
    except InputError:
        return None


def prove(pod: Pod, file: Path, seen: Seen, cluster: str = "") -> reach.Reach:
    """What each pool of a cluster says to a pod of a file; without a name of the cluster, each pool near the file."""
    if (near := seen.near.get((file.parent, cluster))) is None:
        near = pools_near(file, [pool for pool in seen.pools if not cluster or pool.group in ("", cluster)], seen)
        seen.near[file.parent, cluster] = near
    return reach.reach(pod, [proved(pool, pod, seen) for pool in near])


def pools_near(file: Path, pools: list[model.Pool], seen: Seen) -> list[model.Pool]:
    """The pools of the innermost folder around a file that has any: a repository may have a folder for each cluster.

    Pools in a folder beside that of the file are left out if classes are there, too: then it is another cluster's.
    """
    for folder in file.parents:
        if inside := [pool for pool in pools if pool.at.file.path.is_relative_to(folder)]:
            paths = (one.at.file.path for one in seen.classes if one.at.file.path.is_relative_to(folder))
            others = {_below(folder, path) for path in paths} - {"", _below(folder, file)}
            return [pool for pool in inside if _below(folder, pool.at.file.path) not in others]
    return []


def _below(folder: Path, file: Path) -> str:
    """The folder in `folder` that a file is in; empty if it is directly in `folder`."""
    first, *more = file.relative_to(folder).parts
    return first if more else ""


def homes(one: RunnerClass, seen: Seen) -> list[Home]:
    """The pools that run a class, the first choice first."""
    if (settled := seen.homes.get(id(one))) is not None:
        return settled
    if (known := answer(one, seen)) is None:
        return []
    # Two clusters may have a pool of one name.
    pools = {(pool.name, pool.at.place): pool for pool in seen.pools}
    found = [_home(pools[verdict.pool.name, verdict.pool.place], verdict.pool, known.pod) for verdict in known.runs]
    seen.homes[id(one)] = sorted(found, key=lambda home: (-home.pool.weight, home.machine is None))
    return seen.homes[id(one)]


def _home(pool: model.Pool, proved: reach.Pool, pod: Pod) -> Home:
    """The pool with its first node that takes the pod."""
    node = next((node for node in proved.nodes if not reach.refusals(pod, node)), proved.nodes[0])
    wants = {name: amount for name, amount in pod.requests().items() if amount} | {"pods": Fraction(1)}
    free = node.free
    held = min((int(free.get(name, 0) // amount) for name, amount in wants.items()), default=0) if free is not None else None
    if held and node.machine is not None and proved.managers is not None and (gpus := wants.get(GPU_RESOURCE)):
        room = topology.room(pod.ask(GPU_RESOURCE), node.machine, int((free or {}).get(GPU_RESOURCE, gpus)), proved.managers)
        held = held if room is None else min(held, room)
    left = (free or {}).get(GPU_RESOURCE, Fraction(0)) - (held or 0) * wants.get(GPU_RESOURCE, Fraction(0))
    return Home(pool, not proved.minimum, node.machine, held, int(left) if held else 0)


def proved(pool: model.Pool, pod: Pod, seen: Seen) -> reach.Pool:
    """A pool as the proof takes it. Startup taints are left out: they are gone once a node is ready."""
    nodes = [node for kind in pool.types or ("",) for node in _nodes(pool, kind, pod, seen)]
    ceilings = {} if pool.maximum is None else {"maximum": pool.maximum}
    if pool.most_gpus is not None and (gpus := max((node.machine.gpus for node in nodes if node.machine), default=0)):
        ceilings[f"limits.{GPU_RESOURCE}"] = pool.most_gpus // gpus
    cpus = "static" if pool.kubelet.get("cpuManagerPolicy") == "static" else "none"
    managers = topology.Policies(pool.topology, cpus) if pool.topology in topology.STRICT else None
    template, group = None, pool.scaler in ("managed group", "group")
    first = nodes[0].machine
    scaler = ("oke" if first is not None and first.cloud == "oci" else "eks") if group else ""
    if pool.from_zero and group and first is not None:
        told = (pool.labels, pool.taints) if pool.scaler == "managed group" or scaler == "oke" else ({}, ())
        template = reach.template(scaler, nodes[0], _capacity(first), *told, pool.tags)
    return reach.Pool(
        pool.name, tuple(nodes), pool.at.place, template, pool.minimum, ceilings, scaler, pool.scaler == "karpenter", "", managers
    )


def _nodes(pool: model.Pool, kind: str, pod: Pod, seen: Seen) -> Iterator[reach.Node]:
    """A node of one type: several if the pod may choose the value of a label that it asks for."""
    zones = {_ZONE: pool.zones} if pool.zones or pool.scaler == "karpenter" else {}
    wanted = _asked(pod)
    asked = {key: values or tuple(wanted[key]) for key, values in (dict(pool.choices) | zones).items() if key in wanted}
    for values in itertools.product(*asked.values()):
        chosen = tuple(zip(asked, values, strict=True))
        key = id(pool), kind, chosen
        if key not in seen.nodes:
            seen.nodes[key] = _node(pool, kind, dict(chosen), seen)
        node = seen.nodes[key]
        more = _of_plugins(node.machine, pod) if node.machine is not None and node.free else {}
        yield replace(node, free={**node.free, **more}) if more and node.free else node


def _node(pool: model.Pool, kind: str, chosen: Mapping[str, str], seen: Seen) -> reach.Node:
    """A node of one type with these labels, and what kubelet and the DaemonSets that run on it leave free."""
    machine = hardware.find(kind)
    free: dict[str, Fraction] | None = amounts(pool.allocatable) or None
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"} | ({INSTANCE_TYPE_LABEL: kind} if kind else {})
    if machine is not None:
        domain = "karpenter.k8s.aws/" if pool.scaler == "karpenter" and machine.cloud == "aws" else ""
        labels |= {key if "/" in key else domain + key: value for key, value in node_labels(machine).items()}
        free = free or _free(machine, pool.disk or _ROOT_GIB, pool.instance_store)
    node = reach.Node(kind or pool.name, labels | dict(pool.labels) | dict(chosen), pool.taints, None, machine=machine)
    if not free:
        return node
    running = [one for one in map(pod_in, seen.of_kind("DaemonSet")) if one is not None and not reach.refusals(one, node)]
    for taken in (amounts(pool.used), *(one.requests() | {"pods": Fraction(1)} for one in running)):
        free |= {name: free.get(name, Fraction(0)) - amount for name, amount in taken.items()}
    return replace(node, free=free)


def _asked(pod: Pod) -> dict[str, set[str]]:
    """The values that the pod names for each label of its node."""
    found = {key: {value} for key, value in pod.selector.items()}
    for one in (one for term in pod.terms for one in parts(term, "matchExpressions")):
        found.setdefault(str(one.get("key")), set()).update(map(str, one.get("values") or ()))
    return found


def _free(machine: hardware.Machine, disk: int, instance_store: bool) -> dict[str, Fraction]:
    """What a node offers to pods, by kubelet's reservations."""
    gibibytes = int(machine.nvme_gb * 10**9 / 2**30) if instance_store and machine.nvme_gb else disk
    offer = allocatable(machine, gibibytes * 1024)
    return _resources(offer.cpu, offer.memory, offer.gpus) | {
        "ephemeral-storage": Fraction(offer.storage * _MEBIBYTE),
        "pods": Fraction(offer.pods),
    }


def _of_plugins(machine: hardware.Machine, pod: Pod) -> dict[str, Fraction]:
    """What the pod asks of device plugins: EFA as the machine has it. No table has what the plugins of other resources offer."""
    asked = (row for row in pod.requests().items() if row[0] not in PLAIN and not is_gpu_resource(row[0]))
    efa = {_EFA: Fraction(machine.efa_interfaces)} if machine.cloud == "aws" else {}
    return {name: efa.get(name, amount * _MEBIBYTE) for name, amount in asked}


def _capacity(machine: hardware.Machine) -> dict[str, Fraction]:
    return _resources(machine.vcpus * 1000, machine.memory_mib, machine.gpus)


def _resources(cpu: int, memory: int, gpus: int) -> dict[str, Fraction]:
    found = {"cpu": Fraction(cpu, 1000), "memory": Fraction(memory * _MEBIBYTE)}
    return found | ({GPU_RESOURCE: Fraction(gpus)} if gpus else {})
