"""Images of Talos machines: the system extensions in each, as a schematic of the Image Factory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.providers.talos.nodes import TalosDriver

_KERNEL_MODULES = {"proprietary": "nonfree-kmod-nvidia", "open": "nvidia-open-gpu-kernel-modules"}
_TOOLKIT = "nvidia-container-toolkit"
"""It brings libraries and containerd's runtime `nvidia` (siderolabs/extensions v1.13.9 10-nvidia-container-runtime.part)."""


@dataclass(frozen=True, slots=True)
class Image:
    """A Talos image: what it is called here, and the official extensions in it."""

    name: str
    extensions: tuple[str, ...] = ()

    @property
    def schematic(self) -> dict[str, Any]:
        """The image as the Image Factory and talhelper take it."""
        return {"customization": {"systemExtensions": {"officialExtensions": list(self.extensions)}} if self.extensions else {}}


PLAIN = Image("plain")
"""Talos without extensions."""


def gpu_image(driver: TalosDriver) -> Image:
    """Kernel modules and toolkit of one tier, which is one version of the driver: user space of another one fails at start.

    No NVSwitch is among own machines, so there is no nvidia-fabricmanager.
    """
    names = (_KERNEL_MODULES[driver.kernel_modules], _TOOLKIT)
    return Image(f"gpu-{driver.tier}-{driver.kernel_modules}", tuple(f"siderolabs/{name}-{driver.tier}" for name in names))
