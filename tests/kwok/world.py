"""A simulated fleet: pools of GPU nodes, faults, the cloud's node repair, the autoscaler, and the sweep that the fleet installs.

Time is virtual. A step is a minute, three times as long as the pause between two passes of the sweep.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from fleet.facts.xid import GPU_WAIT, OTHER_WAIT, REASONS
from fleet.render.sweeps.api import Api, Object
from fleet.render.sweeps.quarantine import EVENTS, NODES, once
from tests.kwok.kubelet import BOOT, ERROR, GPUS, PENDING, READY

MINUTE = 60
START = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
BOOTS, REGISTERS = 3 * MINUTE, 2 * MINUTE
"""Seconds from the request of a machine to its node, and from there to its GPUs."""
IDLE = 10 * MINUTE
"""The pool's idleDelay: after it the autoscaler removes an empty node that is in quarantine."""
JOB = 30 * MINUTE
"""Seconds of the longest job."""
UNREACHABLE = "node.kubernetes.io/unreachable"
"""Kubernetes' own taint of a node whose kubelet is silent for 50 seconds."""
REPLACED = {each.reason: each.ours for each in REASONS}


class Settles(Protocol):
    """An API whose kubelets may be late."""

    def settle(self) -> None:
        """Wait until every status is as new as its annotations."""


@dataclass(slots=True)
class Machine:
    """A machine as the cloud knows it. `busy_until` is when its last job ends."""

    name: str
    pool: str
    made: float
    units: int
    gpus: int
    ready: str = "True"
    error: str = ""
    error_since: float = 0
    boot: int = 1
    fault: Fault | None = None
    busy_until: float = 0
    empty_since: float = 0


@dataclass(slots=True)
class Fault:
    """A fault of one machine. `ended` is when the machine was healed, out of use or gone; `how` says which."""

    kind: str
    machine: str
    began: float
    ended: float = 0
    how: str = ""


@dataclass
class World:
    """The fleet. `pools` are nodes and GPUs of each node by pool. `settings` are those of the sweep; None without it."""

    api: Any
    settings: Mapping[str, Any] | None
    pools: Mapping[str, tuple[int, int]]
    dice: random.Random
    now: float = START
    machines: dict[str, Machine] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    wasted: Counter[str] = field(default_factory=Counter)
    """Seconds of GPUs that ran no job because of a fault, by kind."""
    repairs: Counter[str] = field(default_factory=Counter)
    ordered: list[tuple[float, str]] = field(default_factory=list)
    """Machines that boot: when their node appears, and its pool."""
    made: int = 0

    def machine(self, pool: str, gpus: int | None = None) -> Machine:
        """A new node of the pool. Without `gpus` it offers none yet."""
        units = self.pools[pool][1]
        self.made += 1
        made = Machine(f"{pool}-{self.made}", pool, self.now, units, gpus or 0)
        self.machines[made.name] = made
        gate = [{"key": self.settings["gate"], "value": "pending", "effect": "NoSchedule"}] if self.settings else []
        self.api.call(
            "POST",
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": made.name,
                    "labels": {"gpu-ci/pool": pool, PENDING: "yes"},
                    "annotations": self._said(made),
                    "creationTimestamp": time_text(self.now),
                },
                "spec": {"taints": gate},
            },
        )
        return made

    def report(self, machine: Machine) -> None:
        """The machine's kubelet reports what changed."""
        patch = {"metadata": {"labels": {PENDING: "yes"}, "annotations": self._said(machine)}}
        self.api.call("PATCH", f"{NODES}/{machine.name}", patch, "application/merge-patch+json")

    def _said(self, machine: Machine) -> dict[str, str]:
        boot = f"{machine.name}-{machine.boot}"
        return {
            GPUS: str(machine.gpus),
            READY: machine.ready,
            ERROR: machine.error,
            BOOT: boot,
            "sim/made": time_text(machine.made),
        }

    def remove(self, machine: Machine, why: str) -> None:
        """The cloud ends the machine, and its pool orders another one."""
        self.api.call("DELETE", f"{NODES}/{machine.name}")
        del self.machines[machine.name]
        self.repairs[why] += 1
        self.ordered.append((self.now + BOOTS, machine.pool))

    def reject(self, machine: Machine) -> None:
        """The node rejects a pod."""
        pod = f"pod-{self.dice.randrange(10**9)}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod}.1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod, "uid": pod},
            "reason": "UnexpectedAdmissionError",
            "message": "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
            "type": "Warning",
            "source": {"component": "kubelet", "host": machine.name},
            "lastTimestamp": time_text(self.now),
        }
        self.api.call("POST", "/api/v1/namespaces/default/events", event)

    @property
    def busy(self) -> bool:
        """Whether a machine is sick, in quarantine, starting, or without all its GPUs."""
        quarantined = any(keys(node) for node in self.api.list(NODES)) if self.settings else False
        return bool(self.ordered) or quarantined or any(each.fault is not None for each in self.machines.values())

    def step(self) -> None:
        """One minute: machines boot, faults go on, the cloud repairs, the sweep looks, the autoscaler removes, the meter runs."""
        self.now += MINUTE
        for when, pool in [each for each in self.ordered if each[0] <= self.now]:
            self.ordered.remove((when, pool))
            self.machine(pool)
        for machine in list(self.machines.values()):
            if machine.fault is not None:
                BEHAVIOUR[machine.fault.kind](self, machine, self.now - machine.fault.began)
            elif machine.gpus < machine.units and self.now - machine.made >= REGISTERS:
                machine.gpus = machine.units
                self.report(machine)
        self.api.settle()
        self._repair()
        if self.settings is not None:
            once(self.api, self.settings, self.api.list(NODES), self.api.list(EVENTS), self.now)
        self._look({node["metadata"]["name"]: keys(node) for node in self.api.list(NODES)})

    def _repair(self) -> None:
        """EKS: one machine of a pool at a time, and none if more than a fifth of it is unhealthy."""
        wait = GPU_WAIT if self.settings is None else 300
        for pool, (count, _) in self.pools.items():
            sick = [each for each in self.machines.values() if each.pool == pool and each.error_since]
            due = [
                each
                for each in sick
                if self.now - each.error_since >= (OTHER_WAIT if each.ready != "True" else wait)
                and (each.ready != "True" or REPLACED.get(each.error) in ("Replace", "Reboot"))
            ]
            if due and len(sick) <= max(1, -(-count // 5)):
                self.remove(due[0], "replaced by EKS")

    def _look(self, taints: Mapping[str, set[str]]) -> None:
        """Note which faults are over, remove empty machines in quarantine, and count what is wasted."""
        quarantine = self.settings["quarantine"] if self.settings else ""
        for fault in self.faults:
            if not fault.ended:
                held = taints.get(fault.machine)
                how = (
                    "replaced"
                    if held is None
                    else "quarantined"
                    if quarantine in held
                    else "unreachable taint"
                    if UNREACHABLE in held
                    else "healed"
                    if self.machines[fault.machine].fault is None
                    else ""
                )
                fault.how, fault.ended = how, self.now if how else 0
        for machine in list(self.machines.values()):
            outside = quarantine in taints[machine.name]
            if machine.fault is not None:
                working = machine.gpus if self.now < machine.busy_until or not (outside or machine.fault.kind in USELESS) else 0
                self.wasted[machine.fault.kind] += MINUTE * (machine.units - min(working, machine.units))
            elif outside:
                self.wasted["healthy, still in quarantine"] += MINUTE * machine.units
            if not outside or self.now < machine.busy_until:
                machine.empty_since = self.now
            elif self.now - machine.empty_since >= IDLE:
                self.remove(machine, "removed by the autoscaler")

    def strike(self, kind: str) -> bool:
        """Begin a fault of this kind on a machine. False if every pool has its share of sick machines already."""
        pools = [name for name, (_, units) in self.pools.items() if units > 1 or kind not in PARTIAL]
        pool = self.dice.choice(pools)
        mine = [each for each in self.machines.values() if each.pool == pool]
        sick = [each for each in mine if each.fault is not None or keys_of(self.api, each) & SICK]
        if len(sick) >= max(1, -(-len(mine) // 5)):
            return False
        if kind in STARTING:
            # The machine that starts next instead of a healthy one.
            gone = self.dice.choice([each for each in mine if each not in sick])
            self.api.call("DELETE", f"{NODES}/{gone.name}")
            del self.machines[gone.name]
            struck = self.machine(pool)
        else:
            struck = self.dice.choice([each for each in mine if each not in sick and each.gpus == each.units])
            struck.busy_until = self.now + self.dice.uniform(0, JOB)
        struck.fault = Fault(kind, struck.name, self.now)
        self.faults.append(struck.fault)
        return True


def _once(**changes: Any) -> Callable[[World, Machine, float], None]:
    """A fault that changes the machine at its beginning. A value may be a function of the machine."""

    def behave(world: World, machine: Machine, age: float) -> None:
        if age > MINUTE:
            return
        for key, value in changes.items():
            setattr(machine, key, value(machine) if callable(value) else value)
        if machine.error or machine.ready != "True":
            machine.error_since = world.now
        world.report(machine)

    return behave


def _rejects(world: World, machine: Machine, _age: float) -> None:
    """Five pods a minute, as long as the scheduler sends it pods (pytorch/ci-infra#1058: 554 in 106 minutes)."""
    if not keys_of(world.api, machine) & SICK:
        for _ in range(5):
            world.reject(machine)


def _flaps(world: World, machine: Machine, age: float) -> None:
    """A GPU that comes and goes each minute for a quarter of an hour, then stays."""
    if age > 15 * MINUTE:
        machine.fault, machine.gpus = None, machine.units
    else:
        machine.gpus = machine.units - int(age // MINUTE) % 2
    world.report(machine)


def _silent(world: World, machine: Machine, age: float) -> None:
    _once(ready="Unknown")(world, machine, age)
    if age <= MINUTE:
        node = next(each for each in world.api.list(NODES) if each["metadata"]["name"] == machine.name)
        taints = [*node["spec"].get("taints", []), {"key": UNREACHABLE, "effect": "NoSchedule"}]
        world.api.call("PATCH", f"{NODES}/{machine.name}", {"spec": {"taints": taints}}, "application/merge-patch+json")


BEHAVIOUR: dict[str, Callable[[World, Machine, float], None]] = {
    "one GPU lost": _once(gpus=lambda machine: machine.units - 1),
    "all GPUs lost": _once(gpus=0),
    "rejects pods": _rejects,
    "Xid 79": _once(error="NvidiaXID79Error", gpus=lambda machine: machine.units - 1),
    "GPU comes and goes": _flaps,
    "starts without GPUs": _once(gpus=0),
    "starts with some GPUs": _once(gpus=lambda machine: machine.units // 2),
    "kubelet silent": _silent,
}
"""The kinds of faults, and what each does in a minute."""
PARTIAL = ("starts with some GPUs",)
"""Kinds that need a machine with several GPUs."""
STARTING = ("starts without GPUs", "starts with some GPUs")
USELESS = ("rejects pods", "kubelet silent", "Xid 79")
"""Kinds in which the GPUs that a node offers run no new job."""
SICK = {"status-taint.cluster-autoscaler.kubernetes.io/gpu-ci-quarantine", UNREACHABLE}


def keys(node: Object) -> set[str]:
    """The keys of a node's taints."""
    return {each["key"] for each in node.get("spec", {}).get("taints", [])}


def keys_of(api: Api, machine: Machine) -> set[str]:
    """The keys of the taints of a machine's node."""
    return keys(api.call("GET", f"{NODES}/{machine.name}"))


def time_text(now: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fill(world: World) -> None:
    """Start all nodes of the pools, and wait until the sweep has opened their gates."""
    for pool, (nodes, units) in world.pools.items():
        for _ in range(nodes):
            world.machine(pool, units)
    world.step()


def strike_all(world: World, count: int, hours: int) -> None:
    """Begin `count` faults at random times within `hours`, all kinds equally often, and go on until each is over.

    A fault waits until its pool has less than its share of sick machines.
    """
    kinds = [list(BEHAVIOUR)[index % len(BEHAVIOUR)] for index in range(count)]
    world.dice.shuffle(kinds)
    waiting = sorted((world.now + world.dice.uniform(0, hours * 60 * MINUTE), kind) for kind in kinds)
    while waiting or world.busy:
        if waiting and waiting[0][0] > world.now and not world.busy:
            # Nothing happens until the next fault.
            world.now = waiting[0][0]
        if waiting and waiting[0][0] <= world.now and world.strike(waiting[0][1]):
            waiting.pop(0)
        world.step()


def table(world: World) -> list[str]:
    """What happened, as the lines of a Markdown table: faults by kind, what ended them, minutes, and wasted hours of GPUs."""
    lines = []
    for kind in BEHAVIOUR:
        of_kind = [each for each in world.faults if each.kind == kind]
        hows = ", ".join(f"{count} {how or 'nothing'}" for how, count in Counter(each.how for each in of_kind).items())
        minutes = sorted((each.ended - each.began) / MINUTE for each in of_kind if each.ended) or [0]
        middle, longest, hours = minutes[len(minutes) // 2], minutes[-1], world.wasted[kind] / 3600
        lines.append(f"| {kind} | {hows} | {middle:.0f}, {longest:.0f} | {hours:.1f} |")
    return lines
