"""Groups of machines that share an image and a patch: the control plane, the system hosts, and each GPU pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.scheduling import RUNTIME_CLASS, TALOS_PROFILE, system_labels
from fleet.providers.talos.boot.image import PLAIN, Image, gpu_image
from fleet.providers.talos.boot.patch import Patch
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host
from fleet.providers.talos.release import has_container_cli

KERNEL_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""Modules of the driver. The extensions load them only if a config names them (siderolabs/extensions, nvidia.conf). The names
come from seed 004."""
_BPF_SYSCTL = {"net.core.bpf_jit_harden": "1"}
"""Talos' own value is 2, with which nvidia-container-cli cannot load a BPF program (siderolabs/extensions v1.12.11, README of the
toolkit)."""


@dataclass(frozen=True, slots=True)
class Group:
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
