"""One GPU for several containers: by turns (time-slicing), side by side (MPS), or cut into parts (MIG).

Facts: NVIDIA/k8s-device-plugin v0.20.0, README and api/config/v1; NVIDIA MIG user guide. docs/sharing.md says which to take.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from fleet.facts import hardware
from fleet.facts.scheduling import GPU_RESOURCE, MIG_RESOURCE, SHARED_SUFFIX
from fleet.facts.tables import rows
from fleet.settings.model import Model, problem, told_by

STRATEGIES = ("time-slicing", "mps", "mig")
WAYS = f"GPUs are shared by {', '.join(STRATEGIES[:-1])} or {STRATEGIES[-1]}; name one in strategy"
"""What is wrong where settings name none of them."""


class Replicated(Model):
    """Every GPU advertised `replicas` times by the device plugin."""

    strategy: str

    replicas: Annotated[int, Field(ge=2)]
    """Units a GPU. The plugin refuses fewer than 2."""
    rename: bool = True
    """Whether the units are called `nvidia.com/gpu.shared`, so that nobody takes one for a whole GPU."""
    allow_several: bool = False
    """Whether a container may ask for several units: it gets no larger share for them, and may get one GPU twice."""

    @property
    def resource(self) -> str:
        """The plugin's name for shared GPUs, or that of whole ones where it does not rename them."""
        return GPU_RESOURCE + SHARED_SUFFIX if self.rename else GPU_RESOURCE

    @property
    def several(self) -> bool:
        """As set: the plugin refuses other requests with UnexpectedAdmissionError."""
        return self.allow_several

    @property
    def unit(self) -> str:
        """A fraction of a GPU."""
        return f"1/{self.replicas} GPU"

    def shares(self, machine: hardware.Machine) -> int:
        """The replicas."""
        return self.replicas

    def require(self, machine: hardware.Machine) -> None:
        """Any NVIDIA GPU takes turns."""


class TimeSlicing(Replicated):
    """Containers take turns on the whole GPU, with nothing between their memory."""

    strategy: Literal["time-slicing"]


_MPS_CLIENTS = {True: 48, False: 16}
"""Clients of one MPS server on GPUs of compute capability 7.5 and newer, and on older ones (the plugin's mps/device.go)."""


class Mps(Replicated):
    """Containers run side by side, each with an equal share of memory and of compute."""

    strategy: Literal["mps"]

    def require(self, machine: hardware.Machine) -> None:
        """Refuse more clients than an MPS server of this GPU has."""
        most = _MPS_CLIENTS[_capability(machine) >= (7, 5)]
        if self.replicas > most:
            name = machine.gpu.name if machine.gpu else machine.name
            raise problem(
                "mps_clients",
                f"MPS has at most {most} clients on {name} ({machine.name}); lower replicas",
                at=("sharing", "replicas"),
            )


def _capability(machine: hardware.Machine) -> tuple[int, ...]:
    return tuple(map(int, machine.gpu.compute_capability.split("."))) if machine.gpu else ()


class Mig(Model):
    """Every GPU cut into like parts of one profile, each with memory and compute of its own."""

    strategy: Literal["mig"]
    profile: str
    """As in the resource's name: 1g.5gb, 1g.10gb.me."""
    naming: Literal["mixed", "single"] = "mixed"
    """`mixed` calls a part `nvidia.com/mig-<profile>`, `single` calls it `nvidia.com/gpu`."""

    @property
    def resource(self) -> str:
        """The profile's own name, or that of GPUs."""
        return f"{MIG_RESOURCE}{self.profile}" if self.naming == "mixed" else GPU_RESOURCE

    @property
    def several(self) -> bool:
        """Each part is hardware of its own."""
        return True

    @property
    def unit(self) -> str:
        """A part by its profile."""
        return f"MIG {self.profile}"

    def shares(self, machine: hardware.Machine) -> int:
        """Parts of the profile that one GPU holds."""
        return profiles(machine).get(self.profile, 0)

    def require(self, machine: hardware.Machine) -> None:
        """Refuse GPUs without MIG, and a profile that is not of their memory."""
        known = profiles(machine)
        name = machine.gpu.name if machine.gpu else machine.name
        if not known:
            raise problem(
                "mig_gpu",
                f"{name} ({machine.name}) has no MIG; use time-slicing or mps, or another type",
                at=("sharing", "strategy"),
            )
        if self.profile not in known:
            raise problem(
                "mig_profile",
                f"{name} of {machine.gpu_memory_mib / 1024:.0f} GiB ({machine.name}) has no such profile; "
                f"use one of: {', '.join(known)}",
                at=("sharing", "profile"),
            )


def profiles(machine: hardware.Machine) -> dict[str, int]:
    """MIG profiles of a machine's GPUs and how many parts of each one GPU holds; empty without MIG."""
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
    Discriminator(
        told_by("strategy", STRATEGIES),
        custom_error_type="gpu_ci_sharing_strategy",
        # No context, which is a dict: a union with None has to be hashed.
        custom_error_message=WAYS,
    ),
]
"""One way of sharing, told by `strategy`."""


def resource_of(sharing: AnySharing | None) -> str:
    """The extended resource that nodes advertise: that of whole GPUs where they are not shared."""
    return sharing.resource if sharing else GPU_RESOURCE


def units_of(sharing: AnySharing | None, machine: hardware.Machine) -> int:
    """Units of that resource that one node of a machine offers: its GPUs, or their shares."""
    return machine.gpus * (sharing.shares(machine) if sharing else 1)
