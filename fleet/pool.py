"""GPU pools and the system pool: groups of like nodes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet import hardware
from fleet.model import Duration, LabelKey, LabelValue, Memory, Model, Scale, problem
from fleet.scheduling import Standing, term

Role = Literal["burst", "release"]
Capacity = Literal["on-demand", "spot"]


def _gpu_machine(name: str) -> str:
    machine = _known(name)
    if machine.gpus == 0:
        raise problem("gpu_type", f"{name} has no GPU; a pool is made of GPU types (the system pool has the CPU nodes); name one")
    return name


def _cpu_machine(name: str) -> str:
    if _known(name).gpus:
        raise problem("system_type", f"{name} has a GPU; the system pool runs controllers, give it a CPU type such as m6i.large")
    return name


def _known(name: str) -> hardware.Machine:
    try:
        return hardware.machine(name)
    except hardware.UnknownMachine as error:
        raise problem("instance_type", str(error.args[0])) from None


def _idle_delay(seconds: int) -> int:
    if not 60 <= seconds <= 86_400:
        raise problem("idle_delay", "an idle delay is from 1m to 24h; write one between, such as 10m")
    return seconds


def _disk(mebibytes: int) -> int:
    if mebibytes % 1024 or mebibytes < 30 * 1024:
        raise problem("disk", "a root disk is a whole number of Gi, 30Gi at least for the node image; write for example 100Gi")
    return mebibytes


GpuType = Annotated[str, AfterValidator(_gpu_machine)]
CpuType = Annotated[str, AfterValidator(_cpu_machine)]
Disk = Annotated[Memory, AfterValidator(_disk)]
"""Size of a root volume in MiB, whole GiB."""

MAX_LABELS = 25
"""Further labels of a pool: with ours they are tags of its Auto Scaling group, which holds 50."""


class Pool(Model):
    """A GPU pool. All its types have the same GPU model and count, so that one pod shape fits them all."""

    instance_types: Annotated[tuple[GpuType, ...], Field(min_length=1)]
    capacity: Capacity
    role: Role
    nodes: Scale
    idle_delay: Annotated[Duration, AfterValidator(_idle_delay)] = 600
    """How long a node stays unneeded before the autoscaler removes it, in seconds."""
    disk: Disk = 200 * 1024
    """Root volume. CUDA images are 10-20 GB each."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Further node labels; the vocabulary's own are set by the program."""

    @model_validator(mode="after")
    def _pool_rules(self) -> Self:
        """Refuse mixed hardware, spot for release jobs, and labels that the vocabulary claims."""
        machines = self.machines
        if len({(machine.gpus, machine.gpu, machine.gpu_memory_mib) for machine in machines}) > 1:
            found = ", ".join(map(_gpus, machines))
            raise problem(
                "mixed_gpus",
                f"types of one pool have one GPU model, memory and count, here {found}; split the pool",
                at=("instanceTypes",),
                value=list(self.instance_types),
            )
        if len(set(self.instance_types)) < len(self.instance_types):
            raise problem(
                "repeated_type",
                "an instance type is given twice; remove one",
                at=("instanceTypes",),
                value=list(self.instance_types),
            )
        if self.role == "release" and self.capacity == "spot":
            raise problem(
                "release_spot",
                "a release pool is never spot: an interruption would abort a release; use on-demand",
                at=("capacity",),
                value="spot",
            )
        if len(self.labels) > MAX_LABELS:
            raise problem(
                "many_labels",
                f"a pool has at most {MAX_LABELS} labels of its own; remove some",
                at=("labels",),
                value=self.labels,
            )
        for key in self.labels:
            if (known := term("label", key)) is not None:
                raise problem(
                    "claimed_label", _claimed(key, known.standing, known.instead), at=("labels", key), value=self.labels[key]
                )
        return self

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The pool's instance types as hardware."""
        return tuple(hardware.machine(name) for name in self.instance_types)

    @property
    def gpus_per_node(self) -> int:
        """GPUs that one node advertises."""
        return self.machines[0].gpus

    @property
    def accelerator(self) -> str:
        """Value of the accelerator labels, for example nvidia-tesla-t4."""
        gpu = self.machines[0].gpu
        return gpu.accelerator if gpu else ""


def _gpus(machine: hardware.Machine) -> str:
    name = machine.gpu.name if machine.gpu else "no GPU"
    return f"{machine.name} {machine.gpus}x {name} {machine.gpu_memory_mib / 1024:.0f}Gi"


def _claimed(key: str, standing: Standing, instead: str) -> str:
    why = {
        Standing.OURS: "is set by the program",
        Standing.ALIAS: "is set by the program as an alias",
        Standing.PROVIDER: "is set by the provider",
        Standing.REFUSED: "is refused",
    }[standing]
    return f"label {key} {why}; remove it" + (f" and use {instead}" if instead else "")


class SystemPool(Model):
    """The untainted CPU pool: controllers, listeners, CoreDNS."""

    instance_types: Annotated[tuple[CpuType, ...], Field(min_length=1)] = ("m6i.large",)
    nodes: Scale = Scale(min=2, max=4)
    disk: Disk = 50 * 1024

    @model_validator(mode="after")
    def _system_rules(self) -> Self:
        """Refuse an empty system pool: the autoscaler itself runs there, so nothing would ever start."""
        if self.nodes.min < 1:
            raise problem(
                "system_size",
                "the autoscaler runs in the system pool and cannot start it; raise min to 1 or more",
                at=("nodes", "min"),
                value=self.nodes.min,
            )
        return self

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The pool's instance types as hardware."""
        return tuple(hardware.machine(name) for name in self.instance_types)
