"""A cluster as talhelper's talconfig.yaml: versions, hosts, images, and patches with all other settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.providers.talos.boot.groups import Group
from fleet.providers.talos.boot.image import PLAIN
from fleet.providers.talos.boot.volumes import volume_documents, volume_file
from fleet.providers.talos.cluster import TalosCluster
from fleet.providers.talos.nodes import Host


def talconfig(name: str, cluster: TalosCluster, groups: Iterable[Group]) -> dict[str, Any]:
    """The file for talhelper 3 (budimanjojo/talhelper v3.1.16 pkg/config/schemas/talconfig.json). It holds no secret."""
    config: dict[str, Any] = {
        "clusterName": name,
        "talosVersion": cluster.release.release,
        "kubernetesVersion": cluster.kubernetes,
        "endpoint": cluster.endpoint,
    }
    if not cluster.system.hosts:
        config["allowSchedulingOnControlPlanes"] = True
    if cluster.cni == "none":
        config["cniConfig"] = {"name": "none"}
    config["nodes"] = [
        _node(group, hostname, host, cluster.talos_version) for group in groups for hostname, host in group.hosts.items()
    ]
    return config


def _node(group: Group, hostname: str, host: Host, talos_version: str) -> dict[str, Any]:
    node: dict[str, Any] = {
        "hostname": hostname,
        "ipAddress": host.address,
        "controlPlane": group.control_plane,
        "installDisk": host.install_disk,
    }
    if group.image != PLAIN:
        node["schematic"] = group.image.schematic
    patches = [group.file] if group.patch.documents(talos_version) else []
    if any(volume_documents(host)):
        patches.append(volume_file(hostname))
    if patches:
        node["patches"] = [f"@./{path}" for path in patches]
    return node
