"""The user volume of a machine, in which a provisioner of local volumes keeps what pods have of it."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.talos.nodes import UserVolume
from fleet.render.talos.patch import Document, document
from fleet.settings.model import memory_text

_LEAST = "1GiB"
"""Talos wants a bound; the volume grows over whatever is there (siderolabs/talos v1.13.9, volume_config.go `Validate`)."""
_UDEV = "/dev/disk/"
"""Paths below are links to a disk's own."""


def volume_file(hostname: str) -> str:
    """Where the patch with a machine's volumes lies."""
    return f"patches/volumes/{hostname}.yaml"


def volume_documents(volume: UserVolume) -> Iterator[Document]:
    """As every release that is pinned has it."""
    match = "system_disk"
    if volume.ephemeral is not None:
        # By itself it grows over all of the disk, and nothing is left.
        yield document("VolumeConfig", name="EPHEMERAL", provisioning={"maxSize": f"{memory_text(volume.ephemeral)}B"})
    elif volume.disk is not None:
        match = f"'{volume.disk}' in disk.symlinks" if volume.disk.startswith(_UDEV) else f"disk.dev_path == '{volume.disk}'"
    provisioning = {"diskSelector": {"match": match}, "minSize": _LEAST, "grow": True}
    yield document("UserVolumeConfig", name=volume.name, provisioning=provisioning)
