"""Types for GPU shapes of OCI and boot volumes in settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from fleet.facts import hardware
from fleet.settings.model import Form, problem
from fleet.settings.pool import Disk, GpuType

_LEAST_VOLUME, _MOST_VOLUME = 50, 32_768
"""GiB of a boot volume (oracle/terraform-provider-oci@8de3c480 website/docs/r/core_instance.html.markdown)."""


def _of_oci(name: object) -> object:
    """Refuse shapes without GPU and types of other clouds before the lookup, which would call them unknown."""
    if not isinstance(name, str):
        return name
    if name.startswith(("VM.", "BM.")) and ".GPU" not in name:
        raise problem("shape_without_gpu", f"{name} has no GPU; name a GPU shape such as VM.GPU.A10.1")
    if any(name == machine.name and machine.cloud != "oci" for machine in hardware.machines()):
        raise problem("foreign_shape", f"{name} is not an OCI shape; name one such as VM.GPU.A10.1")
    return name


def _nvidia(name: str) -> str:
    gpu = hardware.machine(name).gpu
    if gpu is None or gpu.vendor != "nvidia":
        raise problem(
            "gpu_vendor", f"{name} has no NVIDIA GPU, and GPUs of other vendors are not supported; name an NVIDIA shape"
        )
    return name


def _volume(mebibytes: int) -> int:
    if not _LEAST_VOLUME <= mebibytes // 1024 <= _MOST_VOLUME:
        raise problem("boot_volume", f"an OCI boot volume has {_LEAST_VOLUME}Gi to {_MOST_VOLUME}Gi; write for example 400Gi")
    return mebibytes


Shape = Annotated[
    GpuType,
    BeforeValidator(_of_oci),
    AfterValidator(_nvidia),
    Form(
        "GPU shape",
        "not a shape of OCI with NVIDIA GPUs; write for example VM.GPU.A10.1",
        values=lambda: (each.name for each in hardware.machines("oci") if each.gpu is not None and each.gpu.vendor == "nvidia"),
    ),
]
"""A shape with NVIDIA GPUs."""
BootVolume = Annotated[Disk, AfterValidator(_volume)]
"""Size of a boot volume in MiB, whole GiB."""


def require_preemptible(machines: tuple[hardware.Machine, ...], *, at: tuple[str, ...]) -> None:
    """Refuse spot for machines that OCI does not sell as preemptible: bare metal and most shapes."""
    for machine in machines:
        if not hardware.preemptible(machine):
            noun = "bare metal" if machine.bare_metal else "capacity of this shape"
            raise problem("not_preemptible", f"OCI has no preemptible {noun}; use on-demand", at=at, value=machine.name)
