"""Which pods kubelet admits by NUMA nodes, and how many of one class a node holds for certain.

Rules: kubernetes v1.36.3, pkg/kubelet/cm/{topologymanager,cpumanager,devicemanager}. A resource wants the fewest NUMA nodes whose
total is enough for the request. `restricted` admits a pod if one set of NUMA nodes is the fewest for every resource and has
enough free of each; `single-numa-node` also requires that it is one node. GPUs always count. CPUs count only under the static CPU
manager, for a Guaranteed pod with whole CPUs: most runners request less than their limit, and then GPUs alone decide.

Every pod of this program has one container, so the scopes `container` and `pod` agree. If the device plugin reports no NUMA node
for the GPUs (docs/layers.md), kubelet admits more than this module says, never less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, combinations
from typing import Protocol

from fleet.facts.hardware import Machine
from fleet.facts.offer import allocatable
from fleet.facts.pods import Amount
from fleet.facts.record import Record
from fleet.facts.tables import rows
from fleet.settings.kubelet import ResourceManagers

STRICT = ("restricted", "single-numa-node")
"""Policies of the topology manager that reject pods. The others admit whatever the node has room for."""
ERROR = "TopologyAffinityError"
"""The reason of a pod that kubelet rejects by NUMA nodes. The pod stays failed."""


class Layout(Record):
    """CPUs and GPUs of each NUMA node, in the order of the nodes' numbers."""

    cpus: tuple[int, ...]
    gpus: tuple[int, ...]


_ROWS = {row["machine"]: row for row in rows("numa.csv")}
"""The NUMA nodes of machines, as far as a source names them. `sockets` of `instances.csv` is no such source: it is derived, and a
firmware may split a socket into several NUMA nodes."""


def layout(machine: Machine) -> Layout | None:
    """The NUMA nodes of a machine. None if no source names them."""
    if (row := _ROWS.get(machine.name)) is None or row["unknown"]:
        return None
    cpus, gpus = (tuple(map(int, row[column].split("+"))) for column in ("cpus", "gpus"))
    return Layout(cpus, gpus)


def _unknown(machine: Machine) -> str:
    """Why the NUMA nodes of a machine without a layout are not known, and how to see them."""
    why = _ROWS[machine.name]["unknown"] if machine.name in _ROWS else "no source names them"
    how = "lscpu on a node shows them; add them to fleet/facts/data/numa.csv"
    return f"the NUMA nodes of {machine.name} are not known: {why}; {how}"


class Ask(Protocol):
    """The requests of a runner, a job or a pod: units of its GPU resource, CPU in millicores, memory and scratch in MiB."""

    @property
    def gpus(self) -> int: ...
    @property
    def cpu(self) -> Amount: ...
    @property
    def memory(self) -> Amount: ...
    @property
    def scratch(self) -> int: ...


class Policies(Record):
    """Policies of kubelet: `none`, `best-effort`, … of the topology manager, `none` or `static` of the CPU manager."""

    topology_manager_policy: str | None
    cpu_manager_policy: str | None = None


Managers = ResourceManagers | Policies
"""The same as settings or as plain data."""


class Aligned(Record):
    """What kubelet aligns of a pod: `gpus` units, and `cpus` that it has alone. 0: this resource has no say."""

    gpus: int
    cpus: int


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def aligned(ask: Ask, managers: Managers) -> Aligned:
    """What kubelet aligns of a pod under these policies."""
    guaranteed = ask.cpu.request == ask.cpu.limit and ask.memory.request == ask.memory.limit
    whole = managers.cpu_manager_policy == "static" and guaranteed and ask.cpu.request % 1000 == 0
    return Aligned(ask.gpus, ask.cpu.request // 1000 if whole else 0)


class Nodes(Record):
    """The NUMA nodes of a machine: what each has, and what of it is free. `unit` is a GPU or a share of one."""

    total: Layout
    free: Layout
    unit: str = "GPU"

    def admits(self, pod: Aligned, policy: str) -> bool:
        """Whether a topology manager with this policy admits the pod, if the whole machine has enough free."""
        if policy not in STRICT:
            return True
        size = self._size(pod, policy)
        return size is not None and any(self._enough(pod, nodes) for nodes in self._sets(size))

    def certain(self, pod: Aligned, policy: str) -> int:
        """How many equal pods fit, whatever the order in which they come and go. `policy` is a strict one."""
        if (size := self._size(pod, policy)) is None:
            return 0
        if size <= 1:
            return sum(self._on_one(pod, node) for node in range(len(self.total.cpus)))
        # A pod takes parts of `size` NUMA nodes, and kubelet chooses which. Count pods for which whole NUMA nodes always remain.
        count, everything = 0, len(self.total.cpus)
        while everything - count * size >= size and all(
            any(self._enough(pod, nodes) for nodes in combinations(remaining, size))
            for remaining in self._sets(everything - count * size)
        ):
            count += 1
        return count

    def blocked_by(self, pod: Aligned, small: Aligned) -> int | None:
        """The fewest pods of another class that leave no single NUMA node with room for `pod`. None if they cannot."""
        counts = 0
        for node in range(len(self.total.cpus)):
            most = self._on_one(small, node)
            blocking = (count for count in range(most + 1) if not self._after(small, count, node)._on_one(pod, node))
            if (fewest := next(blocking, None)) is None:
                return None
            counts += fewest
        return counts

    def sizes(self, pod: Aligned) -> dict[str, int]:
        """The fewest NUMA nodes that each resource of the pod needs, by the resource in words."""
        rows = ((self.total.gpus, pod.gpus, self.unit), (self.total.cpus, pod.cpus, "exclusive CPU"))
        return {_counted(units, name): _fewest(totals, units) for totals, units, name in rows if units}

    def _size(self, pod: Aligned, policy: str) -> int | None:
        """The number of NUMA nodes on which all resources agree; None if the policy rejects it."""
        sizes = set(self.sizes(pod).values()) or {1}
        size = sizes.pop()
        return None if sizes or (policy == "single-numa-node" and size > 1) else size

    def _sets(self, size: int) -> Iterator[tuple[int, ...]]:
        return combinations(range(len(self.total.cpus)), size)

    def _enough(self, pod: Aligned, nodes: Sequence[int]) -> bool:
        gpus, cpus = (sum(free[node] for node in nodes) for free in (self.free.gpus, self.free.cpus))
        return gpus >= pod.gpus and cpus >= pod.cpus

    def _on_one(self, pod: Aligned, node: int) -> int:
        rows = ((self.free.gpus[node], pod.gpus), (self.free.cpus[node], pod.cpus))
        return min(max(free, 0) // units for free, units in rows if units)

    def _after(self, pod: Aligned, count: int, node: int) -> "Nodes":
        """The machine with `count` pods on one NUMA node."""
        gpus, cpus = list(self.free.gpus), list(self.free.cpus)
        gpus[node] -= count * pod.gpus
        cpus[node] -= count * pod.cpus
        return replace(self, free=Layout(tuple(cpus), tuple(gpus)))


def _fewest(totals: Sequence[int], units: int) -> int:
    """The least number of NUMA nodes whose total is enough; all of them if none is."""
    largest = sorted(totals, reverse=True)
    return next((size for size in range(1, len(totals) + 1) if sum(largest[:size]) >= units), len(totals))


def empty(machine: Machine, units: int) -> Nodes | None:
    """The NUMA nodes of a machine without pods, whose GPUs are `units` of a resource. None if no source names them.

    The CPU manager takes the reserved CPUs, rounded up, from the first NUMA node.
    """
    if (whole := layout(machine)) is None:
        return None
    total = replace(whole, gpus=tuple(gpus * units // max(machine.gpus, 1) for gpus in whole.gpus))
    reserved = machine.vcpus - allocatable(machine, 0).cpu // 1000
    before = accumulate(total.cpus, initial=0)
    free = tuple(max(cpus - max(reserved - taken, 0), 0) for cpus, taken in zip(total.cpus, before, strict=False))
    return Nodes(total, replace(total, cpus=free), "GPU" if units == machine.gpus else "share")


def strict(managers: Managers | None) -> str:
    """The policy of the topology manager if it can reject pods, or an empty string."""
    policy = managers.topology_manager_policy if managers else None
    return policy if policy in STRICT else ""


def room(ask: Ask, machine: Machine, units: int, managers: Managers | None) -> int | None:
    """How many equal pods one node admits for certain. None: nothing limits them, or its NUMA nodes are not known."""
    policy, nodes = strict(managers), empty(machine, units)
    if not policy or managers is None or nodes is None:
        return None
    pod = aligned(ask, managers)
    return nodes.certain(pod, policy) if nodes.sizes(pod) else None


def undeterminable(ask: Ask, machine: Machine, count: int, managers: Managers | None) -> str:
    """Why it is undetermined whether kubelet admits `count` pods on a node; empty if it is determined.

    One GPU alone is on one NUMA node of any layout. `restricted` admits the only pod of a node if GPUs alone decide.
    """
    set_policy = managers.topology_manager_policy if managers else None
    if set_policy not in (None, "none") and _ROWS.get(machine.name, {}).get("over_8") == "true":
        why = f"kubelet does not start with topologyManagerPolicy {set_policy} on more than 8 NUMA nodes"
        return f"undeterminable: {why}: {_unknown(machine)}"
    if not (policy := strict(managers)) or managers is None or layout(machine) is not None:
        return ""
    pod = aligned(ask, managers)
    if not pod.cpus and (pod.gpus <= 1 or (policy == "restricted" and count == 1)):
        return ""
    return f"undeterminable: topologyManagerPolicy {policy} may reject it ({ERROR}): {_unknown(machine)}"


def rejection(ask: Ask, machine: Machine, units: int, managers: Managers | None) -> str:
    """Why an empty node rejects a pod, and the smallest changes that work. Empty if it does not, or if that is unknown."""
    policy, nodes = strict(managers), empty(machine, units)
    if managers is None or nodes is None or nodes.admits(pod := aligned(ask, managers), policy):
        return ""
    sizes = nodes.sizes(pod)
    needs = (f"{text} {'needs' if text[:2] == '1 ' else 'need'} {_counted(size, 'node')}" for text, size in sizes.items())
    allowed = "the policy allows one" if policy == "single-numa-node" else "no such nodes have enough free"
    if len(set(sizes.values())) > 1 and policy == "restricted":
        allowed = "the policy wants the same number for both"
    rows = ((nodes.total.gpus, f"{nodes.unit}s"), (nodes.free.cpus, "free CPUs"))
    has = (f"{'+'.join(map(str, amounts))} {name}" for amounts, name in rows)
    return (
        f"is rejected by topologyManagerPolicy {policy} of {machine.name} ({ERROR}): its NUMA nodes have {' and '.join(has)}, "
        f"{' and '.join(needs)}, and {allowed}; {' or '.join(_changes(pod, nodes, policy, machine))}"
    )


def _changes(pod: Aligned, nodes: Nodes, policy: str, machine: Machine) -> Iterator[str]:
    """The nearest numbers of CPUs that the policy admits, and the strictest other policy that admits the pod."""
    works = [count for count in range(1, machine.vcpus) if pod.cpus and nodes.admits(replace(pod, cpus=count), policy)]
    if below := [count for count in works if count < pod.cpus]:
        yield f"ask for {below[-1]} CPUs or fewer"
    if above := [count for count in works if count > pod.cpus]:
        yield f"ask for {above[0]} CPUs or more"
    looser = "restricted" if policy != "restricted" and nodes.admits(pod, "restricted") else "best-effort"
    yield f"set topologyManagerPolicy {looser}"
