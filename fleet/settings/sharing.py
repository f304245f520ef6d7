"""One GPU for several containers: in turns (time-slicing), in parallel (MPS), or as partitions (MIG).

Facts: NVIDIA/k8s-device-plugin v0.20.0, README and api/config/v1; NVIDIA MIG user guide. docs/sharing.md compares them.
"""

from functools import cache
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field, Tag

from fleet.facts import hardware
from fleet.facts.scheduling import GPU_RESOURCE, MIG_RESOURCE, PLUGIN_CONFIG_CDI, SHARED_SUFFIX
from fleet.facts.tables import rows
from fleet.settings.model import Model, selected_by
from fleet.settings.refusals import problem, refuse_if

STRATEGIES = ("time-slicing", "mps", "mig")


class Replicated(Model):
    """Every GPU advertised `replicas` times by the device plugin."""

    strategy: str
    """How containers share the GPU."""

    replicas: Annotated[int, Field(ge=2)]
    """Shares per GPU. The device plugin refuses fewer than 2; MPS allows at most 48, on GPUs older than Turing 16. Unit: shares
    per GPU."""
    rename: bool = True
    """Whether the shares have the resource name `nvidia.com/gpu.shared`, so that they do not look like whole GPUs. Example:
    `false`"""
    allow_several: bool = False
    """Whether a container may request several shares. It gets no larger share, and may get the same GPU twice. Example: `true`"""

    @property
    def resource(self) -> str:
        """The extended resource that the nodes advertise: the name of shared GPUs, or of whole ones without `rename`."""
        return GPU_RESOURCE + SHARED_SUFFIX if self.rename else GPU_RESOURCE

    @property
    def several(self) -> bool:
        """Whether a container may request several units; else the plugin refuses it with UnexpectedAdmissionError."""
        return self.allow_several

    @property
    def unit(self) -> str:
        """One unit in words: "1/4 GPU"."""
        return f"1/{self.replicas} GPU"

    def shares(self, machine: hardware.Machine) -> int:
        """Units per GPU of the machine."""
        return self.replicas

    def require(self, machine: hardware.Machine) -> None:
        """Accept every machine: all NVIDIA GPUs support time-slicing."""


class TimeSlicing(Replicated):
    """Containers take turns on the whole GPU, without memory isolation."""

    strategy: Literal["time-slicing"]
    """Containers take turns on the whole GPU, without memory isolation."""


class Mps(Replicated):
    """Containers run in parallel, each with an equal share of memory and compute."""

    strategy: Literal["mps"]
    """Containers run in parallel, each with an equal share of memory and compute, by NVIDIA's Multi-Process Service."""

    def require(self, machine: hardware.Machine) -> None:
        """Refuse more clients than an MPS server supports on this GPU. Raises a settings problem."""
        capability = machine.gpu.compute_capability if machine.gpu else "0"
        # GPUs of compute capability 7.5 and newer have more clients than older ones (the plugin's mps/device.go).
        most = 48 if tuple(map(int, capability.split("."))) >= (7, 5) else 16
        if self.replicas > most:
            name = machine.gpu.name if machine.gpu else machine.name
            raise problem("mps_clients", at=("sharing", "replicas"), most=most, name=name, machine=machine.name)


class Mig(Model):
    """Every GPU split into partitions of one profile, each with its own memory and compute."""

    strategy: Literal["mig"]
    """Every GPU is split into partitions of one profile, each with its own memory and compute (Multi-Instance GPU)."""
    profile: str
    """MIG profile as in the resource's name: 1g.5gb, 1g.10gb.me."""
    naming: Literal["mixed", "single"] = "mixed"
    """`mixed` names the resource `nvidia.com/mig-<profile>`, `single` names it `nvidia.com/gpu`. Example: `single`"""

    several: ClassVar[bool] = True
    """A container may request several units: each partition has its own hardware."""

    @property
    def resource(self) -> str:
        """The extended resource that the nodes advertise."""
        return f"{MIG_RESOURCE}{self.profile}" if self.naming == "mixed" else GPU_RESOURCE

    @property
    def unit(self) -> str:
        """One unit in words: "MIG 1g.5gb"."""
        return f"MIG {self.profile}"

    def shares(self, machine: hardware.Machine) -> int:
        """Partitions of the profile per GPU of the machine; 0 without such a profile."""
        return profiles(machine).get(self.profile, 0)

    def require(self, machine: hardware.Machine) -> None:
        """Refuse GPUs without MIG, and a profile that the GPU does not have. Raises a settings problem."""
        names = profiles(machine)
        name = machine.gpu.name if machine.gpu else machine.name
        refuse_if("mig_gpu", not names, at=("sharing", "strategy"), name=name, machine=machine.name)
        if self.profile not in names:
            gpu = f"{name} of {machine.gpu_memory_mib / 1024:.0f} GiB ({machine.name})"
            raise problem("mig_profile", at=("sharing", "profile"), gpu=gpu, names=", ".join(names))


def profiles(machine: hardware.Machine) -> dict[str, int]:
    """MIG profiles of a machine's GPUs, with the number of partitions per GPU; empty without MIG."""
    if machine.gpu is None or not machine.gpu.mig:
        return {}
    return _profiles().get((machine.gpu.name, round(machine.gpu_memory_mib / 1024)), {})


@cache
def _profiles() -> dict[tuple[str, int], dict[str, int]]:
    found: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows("mig.csv"):
        found.setdefault((row["gpu"], int(row["memory_gib"])), {})[row["profile"]] = int(row["per_gpu"])
    return found


AnySharing = Annotated[
    Annotated[TimeSlicing, Tag("time-slicing")] | Annotated[Mps, Tag("mps")] | Annotated[Mig, Tag("mig")],
    selected_by("strategy", STRATEGIES, "sharing_strategy", "GPUs are shared by"),
]
"""A way of sharing, selected by `strategy`."""


def resource_of(sharing: AnySharing | None) -> str:
    """The extended resource that nodes advertise; without sharing, the one of whole GPUs."""
    return sharing.resource if sharing else GPU_RESOURCE


def units_of(sharing: AnySharing | None, machine: hardware.Machine) -> int:
    """Units of the resource that one machine offers: its GPUs, or their shares."""
    return machine.gpus * (sharing.shares(machine) if sharing else 1)


class GpuAccess(Protocol):
    """How the containers of a pool get their GPUs."""

    @property
    def sharing(self) -> AnySharing | None:
        """How containers share a GPU; None: a container gets whole GPUs."""

    @property
    def cdi(self) -> bool:
        """Whether containers get GPUs by the Container Device Interface."""


def config_name(access: GpuAccess) -> str:
    """Name of the device plugin's config for the nodes of a pool; empty for the default config. The name lists its settings.

    MIG needs no config: the MIG manager partitions the GPUs, and the naming of partitions is a setting of the whole cluster.
    """
    parts = []
    if isinstance(access.sharing, Replicated):
        parts += [access.sharing.strategy, str(access.sharing.replicas)]
        parts += ["unrenamed"] * (not access.sharing.rename) + ["several"] * access.sharing.allow_several
    return "-".join([*parts, *[PLUGIN_CONFIG_CDI] * access.cdi])
