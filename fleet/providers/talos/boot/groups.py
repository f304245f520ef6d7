"""Groups of machines that share an image and a patch: the control plane, the system hosts, and each GPU pool."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.facts.record import Record
from fleet.facts.scheduling import RUNTIME_CLASS, TALOS_PROFILE, system_labels
from fleet.providers.talos.boot.patch import Patch
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, TalosDriver
from fleet.providers.talos.release import has_container_cli

_KERNEL_MODULES = {"proprietary": "nonfree-kmod-nvidia", "open": "nvidia-open-gpu-kernel-modules"}
_TOOLKIT = "nvidia-container-toolkit"
"""It installs libraries and containerd's runtime `nvidia` (siderolabs/extensions v1.13.9 10-nvidia-container-runtime.part)."""


class Image(Record):
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


KERNEL_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""Modules of the driver. The extensions load them only if a config names them (siderolabs/extensions, nvidia.conf). The names
come from seed 004."""
_BPF_SYSCTL = {"net.core.bpf_jit_harden": "1"}
"""Talos' own value is 2, with which nvidia-container-cli cannot load a BPF program (siderolabs/extensions v1.12.11, README of the
toolkit)."""


class Group(Record):
    """`name` is the path of the group's patch below patches/, without its suffix. `what` describes the group to a reader."""

    name: str
    what: str
    hosts: Mapping[str, Host]
    image: Image
    patch: Patch
    control_plane: bool = False

    @property
    def file(self) -> str:
        """The path of the group's patch, if the group has one."""
        return f"patches/{self.name}.yaml"


def groups(name: str, cluster: TalosCluster) -> Iterator[Group]:
    """The control plane, the system hosts and the GPU pools of the cluster `name`."""
    labels = system_labels(name)
    patch = Patch(labels={} if cluster.system.hosts else labels, policies=cluster.enforces_policies)
    yield Group("control-plane", f"control plane of {name}", cluster.control_plane.hosts, PLAIN, patch, control_plane=True)
    if cluster.system.hosts:
        yield Group("system", f"system hosts of {name}", cluster.system.hosts, PLAIN, Patch(labels=labels))
    for pool_name, pool in cluster.pools.items():
        patch = Patch(
            labels=pool.node_labels(name, pool_name, TALOS_PROFILE, cluster.flavor_of(pool_name)),
            taint=TALOS_PROFILE.gpu_taint,
            kernel_modules=KERNEL_MODULES,
            sysctls=_BPF_SYSCTL if has_container_cli(cluster.talos_version) else {},
            runtime=RUNTIME_CLASS,
            kubelet=pool.kubelet.model_dump(mode="json", by_alias=True, exclude_none=True) if pool.kubelet else {},
            kubernetes=cluster.kubernetes,
        )
        yield Group(f"pools/{pool_name}", f"pool {pool_name} of {name}", pool.nodes.hosts, gpu_image(pool.driver), patch)
