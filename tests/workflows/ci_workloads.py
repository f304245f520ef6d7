"""The requests of this repository's workflows, and whether a fleet's runners fulfill them.

A set guarantees each job the requests of its pod, or the whole machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fleet.facts.quantities import cpu_text, memory_text
from fleet.prove.placement import Placement, place
from fleet.prove.runs_on import RunsOn
from fleet.prove.same_sets import class_of
from fleet.providers.fleet import Fleet
from fleet.settings.runner import PodRunner


def _gigabytes(count: int) -> int:
    """Gigabytes as MiB, rounded up."""
    return math.ceil(count * 10**9 / 2**20)


@dataclass(frozen=True, slots=True)
class CiWorkload:
    """One job of a workflow and the resources that it needs; 0 means that the need is unknown.

    `gpu_memory` (of each GPU), `memory` and `disk` are in MiB, `cpu` is in millicores. `whole`: the job needs whole GPUs, not
    shares. `kind`: the job creates kind clusters with GPUs, which only machines with nvkind can do.
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
    # Measured: PyTorch 2.10 for CUDA 12.8 needs 7 GiB of disk, and 4 GiB more while pip installs it. Importing it needs half a
    # GiB of memory.
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
    """Whether a fleet can run a workload.

    `runner_set` is the runner set that its `runs-on` selects ("use1/gpu-t4"), or the sets of one class ("a/x or b/y"). It is
    empty if `runs-on` does not select exactly one class. `error` is the reason why the fleet cannot run the workload, or empty.
    """

    workload: CiWorkload
    runner_set: str
    error: str


def proofs(fleet: Fleet, workloads: Iterable[CiWorkload] = CI_WORKLOADS) -> tuple[Proof, ...]:
    """Check every workload against a fleet, in the given order."""
    placements = place(fleet)
    return tuple(_proof(fleet, placements, workload) for workload in workloads)


def proof(fleet: Fleet, workload: CiWorkload) -> Proof:
    """Check one workload against a fleet."""
    return _proof(fleet, place(fleet), workload)


def _proof(fleet: Fleet, placements: Iterable[Placement], workload: CiWorkload) -> Proof:
    sets = [
        (found, (found.runner_set, *found.runner.labels), fleet.group_of(found.cluster, found.runner)) for found in placements
    ]
    reached: dict[str, list[Placement]] = {}
    for found, labels, group in sets:
        if workload.runs_on.matches(labels, group):
            reached.setdefault(_name(found), []).append(found)
    if not reached:
        elsewhere = RunsOn(workload.runs_on.labels)
        others = dict.fromkeys(
            f"{_name(found)} in group {group}" for found, labels, group in sets if elsewhere.matches(labels, group)
        )
        where = f", only {' and '.join(others)}" if others and workload.runs_on.labels else ""
        return Proof(workload, "", f"no runner set has {workload.runs_on}{where}; add the set, or correct runs-on")
    if len({class_of(name, choices[0].runner) for name, choices in reached.items()}) > 1:
        names = " and ".join(reached)
        return Proof(workload, "", f"{workload.runs_on}: {names} all match; name one set and its group")
    # A job may run in any pool of the set, and in any set of its class. A lack of the set itself is the same in each pool.
    lacking = dict.fromkeys(each for choices in reached.values() for found in choices for each in _shortages(workload, found))
    return Proof(workload, " or ".join(reached), "; ".join(lacking))


def _name(found: Placement) -> str:
    return f"{found.cluster}/{found.runner_set}"


def _shortages(workload: CiWorkload, found: Placement) -> Iterator[str]:
    """Every request of a job that a set does not fulfill."""
    name, runner, host = _name(found), found.runner, found.host
    if found.error:
        yield f"{name} itself cannot be placed: {found.error}"
        return
    if workload.kind and not (runner.whole_machine is not None and runner.whole_machine.nests):
        yield f"creates kind clusters, which jobs of {name} cannot; use a set of machines with nvkind: true"
    if workload.whole and host.sharing is not None:
        yield f"needs whole GPUs, and {name} gives shares of GPUs ({host.sharing.strategy}); use a pool without sharing"
    asks = (workload.gpus, workload.gpu_memory, workload.cpu, workload.memory, workload.disk)
    for (what, text), asked, given in zip(_WORDS, asks, _gives(found), strict=True):
        if asked > given:
            yield f"asks for {text(asked)} {what}, {name} gives {text(given)}{_more(what, found)}"


_WORDS: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("GPUs", str),
    ("of memory on each GPU", memory_text),
    ("CPU", cpu_text),
    ("of memory", memory_text),
    ("of disk", memory_text),
)
"""The resources of a job in words, and the functions that format their amounts."""


def _gives(found: Placement) -> tuple[int, int, int, int, int]:
    """The guaranteed amounts of `_WORDS`: a pod's requests, or the smallest amounts of a set's machines."""
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
    return f" (its limit of {text(limit)} is not reserved for it)" if limit > request else ""
