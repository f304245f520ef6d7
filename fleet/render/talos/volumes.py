"""The user volume of a machine. A provisioner of local volumes stores the volumes of pods in it."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.talos.nodes import UserVolume
from fleet.render.talos.patch import Document, document
from fleet.settings.model import memory_text

_LEAST = "1GiB"
"""Talos requires a minimum. The volume grows to all free space (siderolabs/talos v1.13.9, volume_config.go `Validate`)."""
_UDEV = "/dev/disk/"
"""Paths below this folder are links to the path of a disk."""


def volume_file(hostname: str) -> str:
    """The path of the patch with a machine's volumes."""
    return f"patches/volumes/{hostname}.yaml"


def volume_documents(volume: UserVolume) -> Iterator[Document]:
    """The documents of a volume. They are the same for all pinned Talos releases."""
    match = "system_disk"
    if volume.ephemeral is not None:
        # Without a maximum it grows to the whole disk, and leaves no space.
        yield document("VolumeConfig", name="EPHEMERAL", provisioning={"maxSize": f"{memory_text(volume.ephemeral)}B"})
    elif volume.disk is not None:
        match = f"'{volume.disk}' in disk.symlinks" if volume.disk.startswith(_UDEV) else f"disk.dev_path == '{volume.disk}'"
    provisioning = {"diskSelector": {"match": match}, "minSize": _LEAST, "grow": True}
    yield document("UserVolumeConfig", name=volume.name, provisioning=provisioning)
