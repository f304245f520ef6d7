"""Images of Talos machines: the system extensions in each, as a schematic of the Image Factory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.providers.talos.nodes import TalosDriver

_KERNEL_MODULES = {"proprietary": "nonfree-kmod-nvidia", "open": "nvidia-open-gpu-kernel-modules"}
_TOOLKIT = "nvidia-container-toolkit"
"""It installs libraries and containerd's runtime `nvidia` (siderolabs/extensions v1.13.9 10-nvidia-container-runtime.part)."""


@dataclass(frozen=True, slots=True)
class Image:
    """A Talos image: its name in this project, and its official extensions."""

    name: str
    extensions: tuple[str, ...] = ()

    @property
    def schematic(self) -> dict[str, Any]:
        """The image's schematic, for the Image Factory and talhelper."""
        return {"customization": {"systemExtensions": {"officialExtensions": list(self.extensions)}} if self.extensions else {}}


PLAIN = Image("plain")
"""Talos without extensions."""


def gpu_image(driver: TalosDriver) -> Image:
    """Kernel modules and toolkit of one tier, which is one version of the driver. A user space of another version fails at start.

    No supported machine has an NVSwitch, so the image has no nvidia-fabricmanager.
    """
    names = (_KERNEL_MODULES[driver.kernel_modules], _TOOLKIT)
    return Image(f"gpu-{driver.tier}-{driver.kernel_modules}", tuple(f"siderolabs/{name}-{driver.tier}" for name in names))
