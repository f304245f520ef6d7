"""The folder `talos/` of a cluster, file by file: talhelper's talconfig.yaml, patches, volumes, images and hosts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.facts.manifest import filled
from fleet.facts.quantities import memory_text
from fleet.facts.yaml_text import yaml_text
from fleet.providers.talos.boot.patch import PLAIN, Document, Group, Patch, document, groups
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host, UserVolume

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
