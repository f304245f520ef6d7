"""The requests of this repository's workflows, and whether a fleet's runners fulfill them.

GitHub matches `runs-on` to runner sets: a set must have every label (its name is one) and be in the group; case is ignored. A
set guarantees each job the requests of its pod, or the whole machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.prove.placement import Placement, place
from fleet.providers.fleet import Fleet
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.runner import PodRunner


def _gigabytes(count: int) -> int:
    """Gigabytes as MiB, rounded up."""
    return math.ceil(count * 10**9 / 2**20)


@dataclass(frozen=True, slots=True)
class RunsOn:
    """A `runs-on`: labels that one runner must have all, and the group that it must be in; an empty group is any."""

    labels: tuple[str, ...]
    group: str = ""

    @classmethod
    def read(cls, value: Any) -> RunsOn:
        """As a workflow spells it: a label, a list of labels, or a mapping of labels and group. Raises ValueError otherwise."""
        held = value if isinstance(value, Mapping) else {"labels": value}
        labels, group = held.get("labels", []), held.get("group", "")
        labels = [labels] if isinstance(labels, str) else labels
        texts = isinstance(labels, list) and all(isinstance(label, str) and label for label in labels) and isinstance(group, str)
        if not texts or not {*held} <= {"labels", "group"} or not (labels or group) or "${{" in f"{labels}{group}":
            raise ValueError(f"not a runs-on: {value!r}; write a label, a list of labels, or a mapping of labels and group")
        return cls(tuple(labels), group)

    def __str__(self) -> str:
        """In words: "labels self-hosted, gpu in group GPUs"."""
        names = f"label{'s' * (len(self.labels) > 1)} {', '.join(self.labels)}" if self.labels else "any label"
        return f"{names} in group {self.group}" if self.group else names

    def matches(self, labels: Iterable[str], group: str) -> bool:
        """Whether a set with these labels, its name among them, in this group gets the job."""
        held = {label.lower() for label in labels}
        return all(label.lower() in held for label in self.labels) and self.group.lower() in ("", group.lower())


@dataclass(frozen=True, slots=True)
class CiWorkload:
    """One job of a workflow and what it asks; 0 where nobody has said how much.

    `gpu_memory` (of each GPU), `memory` and `disk` are MiB, `cpu` millicores. `whole` says that each GPU must be one of the job's
    own, `kind` that it makes kind clusters with GPUs, which only machines with nvkind can.
    """

    name: str
    workflow: str
    runs_on: RunsOn
    gpus: int
    gpu_memory: int = 0
    cpu: int = 0
    memory: int = 0
    disk: int = 0
    whole: bool = False
    kind: bool = False


_GENERIC = RunsOn(("self-hosted", "linux", "x64", "gpu"))
_A10 = RunsOn(("oracle-vm-gpu-a10-1",), "GPUs")
_TWO_A10 = RunsOn(("oracle-vm-gpu-a10-2",), "GPUs")

CI_WORKLOADS = (
    # Measured: PyTorch 2.10 for CUDA 12.8 takes 7 GiB, its wheels four more while pip installs, and half a GiB to import.
    CiWorkload("test-gpu", "test-gpu.yml", _GENERIC, gpus=1, cpu=1000, memory=4 * 1024, disk=12 * 1024),
    CiWorkload("ddp", "gpu-ddp.yml", _TWO_A10, gpus=2, cpu=2000, memory=8 * 1024, disk=12 * 1024, whole=True),
    # Seed 002. An A10 has 24 GB, of which programs see 22888 MiB. The disk is the runtime's claim (kubeflow/trainer v2.3.0).
    CiWorkload(
        "torchtune-qwen2.5-1.5b-alpaca",
        "kubeflow-blueprints.yml",
        _A10,
        gpus=1,
        gpu_memory=22 * 1024,
        memory=_gigabytes(128),
        disk=20 * 1024,
        whole=True,
        kind=True,
    ),
    CiWorkload("jax-mnist", "kubeflow-blueprints.yml", _A10, gpus=1, cpu=8000, whole=True, kind=True),
)
"""Every job of .github/workflows that runs on the fleet's runners."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A workload held against a fleet.

    `runner_set` is the one that its `runs-on` reaches ("sjc/oci-a10"), empty where that is not one; `error` is why not.
    """

    workload: CiWorkload
    runner_set: str
    error: str


def proofs(fleet: Fleet, workloads: Iterable[CiWorkload] = CI_WORKLOADS) -> tuple[Proof, ...]:
    """Every workload held against a fleet, in order."""
    placements = place(fleet)
    return tuple(_proof(fleet, placements, workload) for workload in workloads)


def proof(fleet: Fleet, workload: CiWorkload) -> Proof:
    """One workload held against a fleet."""
    return _proof(fleet, place(fleet), workload)


def _proof(fleet: Fleet, placements: Iterable[Placement], workload: CiWorkload) -> Proof:
    held = [(found, (found.runner_set, *found.runner.labels), fleet.group_of(found.runner)) for found in placements]
    reached = [found for found, labels, group in held if workload.runs_on.matches(labels, group)]
    if not reached:
        elsewhere = RunsOn(workload.runs_on.labels)
        others = [f"{_name(found)} in group {group}" for found, labels, group in held if elsewhere.matches(labels, group)]
        where = f", only {' and '.join(others)}" if others and workload.runs_on.labels else ""
        return Proof(workload, "", f"no runner set has {workload.runs_on}{where}; add the set, or correct runs-on")
    if len(reached) > 1:
        names = " and ".join(_name(found) for found in reached)
        return Proof(workload, "", f"{workload.runs_on}: {names} all get such jobs; name one set, and its group")
    [found] = reached
    return Proof(workload, _name(found), "; ".join(_shortages(workload, found)))


def _name(found: Placement) -> str:
    return f"{found.cluster}/{found.runner_set}"


def _shortages(workload: CiWorkload, found: Placement) -> Iterator[str]:
    """Every request of a job that a set does not fulfill."""
    name, runner, host = _name(found), found.runner, found.host
    if found.error:
        yield f"{name} itself cannot be placed: {found.error}"
        return
    if workload.kind and not (isinstance(runner, MachineRunner) and runner.nvkind):
        yield f"makes kind clusters, which jobs of {name} cannot; use a set of machines with nvkind: true"
    if workload.whole and host.sharing is not None:
        yield f"needs GPUs of its own, and {name} gives shares of GPUs ({host.sharing.strategy}); use a pool that shares none"
    asks = (workload.gpus, workload.gpu_memory, workload.cpu, workload.memory, workload.disk)
    for (what, text), asked, given in zip(_WORDS, asks, _gives(found), strict=True):
        if asked > given:
            yield f"asks {text(asked)} {what}, {name} gives {text(given)}{_more(what, found)}"


_WORDS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("GPUs", str),
    ("of memory on each GPU", memory_text),
    ("CPU", cpu_text),
    ("of memory", memory_text),
    ("of disk", memory_text),
)
"""What a job asks, in words, and how its amounts are written."""


def _gives(found: Placement) -> tuple[int, int, int, int, int]:
    """The amounts of `_WORDS` that any job of a set gets for sure: the least of its machines, or what is reserved for a pod."""
    runner, host = found.runner, found.host
    gpu_memory = min(machine.gpu_memory_mib // (host.units(machine) // machine.gpus) for machine in host.machines)
    if isinstance(runner, PodRunner):
        return runner.gpus, gpu_memory, runner.cpu.request, runner.memory.request, runner.scratch
    return (
        min(machine.gpus for machine in host.machines),
        gpu_memory,
        min(machine.vcpus for machine in host.machines) * 1000,
        min(machine.memory_mib for machine in host.machines),
        host.disk,
    )


def _more(what: str, found: Placement) -> str:
    """A note if a pod's limit is above its request, because a reader may expect the limit."""
    runner = found.runner
    if not isinstance(runner, PodRunner):
        return ""
    limits = {
        "CPU": (runner.cpu.limit, runner.cpu.request, cpu_text),
        "of memory": (runner.memory.limit, runner.memory.request, memory_text),
    }
    limit, request, text = limits.get(what, (0, 0, str))
    return f" (its limit of {text(limit)} is not kept for it)" if limit > request else ""
