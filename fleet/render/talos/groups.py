"""Machines of one kind: where their patch lies, what it is for, which image they boot, who they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.scheduling import RUNTIME_CLASS, TALOS_PROFILE, system_labels
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, TalosPool
from fleet.providers.talos.release import has_container_cli
from fleet.render.talos.image import PLAIN, Image, gpu_image
from fleet.render.talos.patch import Patch

KERNEL_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""Modules of the driver. The extensions keep them from loading until a config names them (siderolabs/extensions, nvidia.conf);
the names are seed 004's."""
_BPF_SYSCTL = {"net.core.bpf_jit_harden": "1"}
"""nvidia-container-cli loads no BPF program under 2, Talos' own (siderolabs/extensions v1.12.11, README of the toolkit)."""


@dataclass(frozen=True, slots=True)
class Group:
    """`name` is the path of their patch below patches/, without its ending; `what` tells its reader what it is for."""

    name: str
    what: str
    hosts: Mapping[str, Host]
    image: Image
    patch: Patch
    control_plane: bool = False

    @property
    def file(self) -> str:
        """Where their patch lies, if they have one."""
        return f"patches/{self.name}.yaml"


def groups(name: str, cluster: TalosCluster) -> Iterator[Group]:
    """Control plane, system hosts, GPU pools of the cluster `name`."""
    labels = system_labels(name)
    patch = Patch(labels={} if cluster.system.hosts else labels, policies=cluster.walls_hold)
    yield Group("control-plane", f"control plane of {name}", cluster.control_plane.hosts, PLAIN, patch, control_plane=True)
    if cluster.system.hosts:
        yield Group("system", f"system hosts of {name}", cluster.system.hosts, PLAIN, Patch(labels=labels))
    for pool_name, pool in cluster.pools.items():
        patch = _gpu_patch(name, cluster, pool_name, pool)
        yield Group(f"pools/{pool_name}", f"pool {pool_name} of {name}", pool.nodes.hosts, gpu_image(pool.driver), patch)


def _gpu_patch(name: str, cluster: TalosCluster, pool_name: str, pool: TalosPool) -> Patch:
    return Patch(
        labels=pool.node_labels(name, pool_name, TALOS_PROFILE),
        taint=TALOS_PROFILE.gpu_taint,
        kernel_modules=KERNEL_MODULES,
        sysctls=_BPF_SYSCTL if has_container_cli(cluster.talos_version) else {},
        runtime=RUNTIME_CLASS,
    )
