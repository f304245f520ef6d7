"""The volumes of a machine: for containers and images, and for a provisioner that stores the volumes of pods in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.providers.talos.boot.patch import Document, document
from fleet.providers.talos.nodes import Host, UserVolume
from fleet.settings.model import memory_text

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
