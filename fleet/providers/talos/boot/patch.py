"""Settings of a machine that the generator of its config does not write, in the form of its Talos release, and groups of machines
that share an image and a patch: the control plane, the system hosts, and each GPU pool. Then the folder `talos/` of a
cluster, file by file: talhelper's talconfig.yaml, patches, volumes, images and hosts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from fleet.facts.manifest import filled
from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import RUNTIME_CLASS, TALOS_PROFILE, Taint, system_labels
from fleet.facts.yaml_text import yaml_text
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, TalosDriver, UserVolume
from fleet.providers.talos.release import has_container_cli, has_documents

Document = dict[str, Any]

_API = "v1alpha1"
_CRI_PART = "/etc/cri/conf.d/20-customization.part"
"""The only file outside /var that Talos up to 1.13 allows a config to create (siderolabs/talos v1.13.9
v1alpha1_sequencer_tasks.go)."""
_CRI_NAME = "nvidia-default-runtime"
_KUBELET = "ghcr.io/siderolabs/kubelet"
"""Talos' image of kubelet (siderolabs/talos pkg/machinery/config/types/k8s/testdata/kubeletconfig.yaml)."""
_DELETED = {"$patch": "delete"}
"""With it Talos' strategic merge removes a part. talhelper reads it as a variable, so no file for talhelper has it."""


class Patch(Record):
    """A machine's part of a config, independent of the Talos release.

    `runtime` is containerd's default runtime. `kubelet` has fields of KubeletConfiguration; `kubernetes` is the release of its
    kubelet, such as v1.36.3. With `policies` Flannel enforces NetworkPolicies. With `no_network` Talos installs no network
    plugin. With `takes_pods` a control plane has no taint.
    """

    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taint: Taint | None = None
    kernel_modules: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    runtime: str = ""
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    kubernetes: str = ""
    policies: bool = False
    no_network: bool = False
    takes_pods: bool = False

    def documents(self, talos_version: str) -> tuple[Document, ...]:
        """The patch for a Talos minor. Empty if there is nothing to set."""
        # Without `auto: off` it conflicts with the host name that Talos generates.
        names = (document("HostnameConfig", auto="off", hostname=self.hostname),) if self.hostname else ()
        return (*names, *(self._documents() if has_documents(talos_version) else self._fields()))

    def _fields(self) -> Iterator[Document]:
        """Fields of the v1alpha1 config, for Talos up to 1.13."""
        kubelet, network = dict(self.kubelet), None
        if self.taint is not None:
            # NodeRestriction rejects nodeTaints of a worker, and its labels with them (siderolabs/talos#8193, #10935).
            kubelet["registerWithTaints"] = [{"key": self.taint.key, "value": self.taint.value, "effect": str(self.taint.effect)}]
        if self.policies:
            network = {"cni": {"name": "flannel", "flannel": {"kubeNetworkPoliciesEnabled": True}}}
        if self.no_network:
            network = {"cni": {"name": "none"}}
        runtime = {"path": _CRI_PART, "op": "create", "content": _default_runtime(self.runtime)}
        machine = {
            "kernel": filled({"modules": [{"name": name} for name in self.kernel_modules]}),
            "sysctls": dict(self.sysctls),
            "files": [runtime] if self.runtime else [],
            "kubelet": filled({"extraConfig": kubelet}),
            "nodeLabels": dict(self.labels),
        }
        cluster = {"network": network, "allowSchedulingOnControlPlanes": self.takes_pods}
        if config := filled({"machine": filled(machine), "cluster": filled(cluster)}):
            yield config

    def _documents(self) -> Iterator[Document]:
        """Documents, for Talos from 1.14 on. There the kubelet registers with the taint of `KubeNodeConfig`."""
        yield from (document("KernelModuleConfig", name=name) for name in self.kernel_modules)
        if self.sysctls:
            yield document("SysctlConfig", params=dict(self.sysctls))
        if self.runtime:
            yield document("CRICustomizationConfig", name=_CRI_NAME, content=_default_runtime(self.runtime))
        if self.kubelet:
            # The document must have the image (Talos 1.14, config.schema.json).
            yield document("KubeletConfig", image=f"{_KUBELET}:{self.kubernetes}", config=dict(self.kubelet))
        taints = {self.taint.key: f"{self.taint.value}:{self.taint.effect}"} if self.taint is not None else {}
        # talosctl gen config writes the control plane's taint, and has no option to omit it.
        if node := filled({"labels": dict(self.labels), "taints": _DELETED if self.takes_pods else taints}):
            yield document("KubeNodeConfig", **node)
        if self.policies:
            yield document("KubeFlannelCNIConfig", kubeNetworkPoliciesEnabled=True)
        if self.no_network:
            yield document("KubeFlannelCNIConfig", **_DELETED)


def document(kind: str, **parts: Any) -> Document:
    """A document of Talos' config beside the v1alpha1 config."""
    return {"apiVersion": _API, "kind": kind} | parts


def _default_runtime(name: str) -> str:
    """containerd's config. The plugin's name is the one of containerd 2 (seed 004; siderolabs/docs v1.13 nvidia-gpu.mdx)."""
    plugin = '"io.containerd.cri.v1.runtime"'
    return f'[plugins]\n  [plugins.{plugin}]\n    [plugins.{plugin}.containerd]\n      default_runtime_name = "{name}"\n'


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


_LEAST = "1GiB"
"""Talos requires a minimum. The volume grows to all free space (siderolabs/talos v1.13.9, volume_config.go `Validate`)."""
_UDEV = "/dev/disk/"
"""Paths below this folder are links to the path of a disk."""


def volume_file(hostname: str) -> str:
    """The path of the patch with a machine's volumes."""
    return f"patches/volumes/{hostname}.yaml"


def volume_documents(host: Host) -> Iterator[Document]:
    """The documents of a machine's volumes, none by default. They are the same for all pinned Talos releases."""
    if host.ephemeral_disk is not None:
        yield document("VolumeConfig", name="EPHEMERAL", provisioning=_on(_disk(host.ephemeral_disk)))
    if host.volume is not None:
        yield from _user_volume(host.volume)


def _user_volume(volume: UserVolume) -> Iterator[Document]:
    match = "system_disk"
    if volume.ephemeral is not None:
        # Without a maximum it grows to the whole disk, and leaves no space.
        yield document("VolumeConfig", name="EPHEMERAL", provisioning={"maxSize": f"{memory_text(volume.ephemeral)}B"})
    elif volume.disk is not None:
        match = _disk(volume.disk)
    yield document("UserVolumeConfig", name=volume.name, provisioning=_on(match))


def _disk(path: str) -> str:
    """The expression that selects a disk."""
    return f"'{path}' in disk.symlinks" if path.startswith(_UDEV) else f"disk.dev_path == '{path}'"


def _on(match: str) -> dict[str, Any]:
    """All free space of the disks that an expression selects."""
    return {"diskSelector": {"match": match}, "minSize": _LEAST, "grow": True}


def talconfig(name: str, cluster: TalosCluster, groups: Iterable[Group]) -> dict[str, Any]:
    """The file for talhelper 3 (budimanjojo/talhelper v3.1.16 pkg/config/schemas/talconfig.json). It holds no secret."""
    hosts = ((group, hostname, host) for group in groups for hostname, host in group.hosts.items())
    return filled(
        {
            "clusterName": name,
            "talosVersion": cluster.release.release,
            "kubernetesVersion": cluster.kubernetes,
            "endpoint": cluster.endpoint,
            "allowSchedulingOnControlPlanes": not cluster.system.hosts,
            "cniConfig": {"name": "none"} if cluster.cni == "none" else {},
            "nodes": [_node(*host, cluster.talos_version) for host in hosts],
        }
    )


def _node(group: Group, hostname: str, host: Host, talos_version: str) -> dict[str, Any]:
    patches = [group.file] if group.patch.documents(talos_version) else []
    if any(volume_documents(host)):
        patches.append(volume_file(hostname))
    schematic = group.image.schematic if group.image != PLAIN else {}
    node = {"hostname": hostname, "ipAddress": host.address, "controlPlane": group.control_plane}
    return node | filled({"installDisk": host.install_disk, "schematic": schematic, "patches": [f"@./{at}" for at in patches]})


def talos_files(name: str, cluster: TalosCluster) -> dict[str, str]:
    """Text of every file by its path in the folder. No file holds a secret: talhelper or talosctl creates the secrets.

    `talconfig.yaml` names the files of `patches/`. `hosts/` gives talosctl, used without talhelper, the settings of
    `talconfig.yaml`.
    """
    of_cluster = tuple(groups(name, cluster))
    files = {"talconfig.yaml": _text(f"machines of {name}, for talhelper", talconfig(name, cluster, of_cluster))}
    images = {PLAIN.name: PLAIN} | {group.image.name: group.image for group in of_cluster}
    for image in images.values():
        files[f"schematics/{image.name}.yaml"] = _text(f"image {image.name}, for the Image Factory", image.schematic)
    for group in of_cluster:
        if documents := group.patch.documents(cluster.talos_version):
            files[group.file] = _text(f"{group.what}, Talos {cluster.talos_version}", *documents)
        for hostname, host in group.hosts.items():
            if volumes := tuple(volume_documents(host)):
                files[volume_file(hostname)] = _text(f"volumes of {hostname}, Talos {cluster.talos_version}", *volumes)
            title = f"{hostname}, Talos {cluster.talos_version}, for talosctl without talhelper"
            files[f"hosts/{hostname}.yaml"] = _text(title, *_host(group, hostname, cluster).documents(cluster.talos_version))
    return files


def _host(group: Group, hostname: str, cluster: TalosCluster) -> Patch:
    if not group.control_plane:
        return Patch(hostname)
    return Patch(hostname, no_network=cluster.cni == "none", takes_pods=not cluster.system.hosts)


def _text(what: str, *documents: Mapping[str, Any]) -> str:
    return f"# Generated by make render: {what}.\n" + "---\n".join(map(yaml_text, documents))
