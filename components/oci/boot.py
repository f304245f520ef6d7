"""The script that an OKE node runs at its first boot."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).parent
_SCRIPT = (_HERE / "node.sh").read_text(encoding="utf-8")
"""Grows the root filesystem to the boot volume's size and joins the cluster (docs.oracle.com, custom cloud-init scripts,
examples 1 and 5; oracle-quickstart/oci-hpc-oke files/oke-ubuntu-cloud-init.sh, where Oracle Linux may have OKE's package too)."""
_DISKS = (_HERE / "local-disks.sh").read_text(encoding="utf-8")
"""Makes one array of the local disks, and puts the folders of containers, kubelet and pod logs on it, also after a restart. Bare
metal boots from a network volume, which is not an NVMe device. The folders and the order are those of
oracle-quickstart/oci-hpc-oke, files/oke-nvme-raid.sh."""


def node_script(flags: Sequence[str] = (), *, array: bool = False) -> str:
    """The script of a pool: `flags` are kubelet's, `array` makes an array of the local disks."""
    arguments = f" --kubelet-extra-args {shlex.quote(' '.join(flags))}" if flags else ""
    return _SCRIPT.replace("@ARGUMENTS@", arguments).replace("@DISKS@\n", _DISKS if array else "")


def node_metadata(flags: Sequence[str] = (), *, array: bool = False) -> dict[str, str]:
    """Instance metadata of every node: the script, and no metadata without OCI's own header (IMDSv1).

    A node pool has no other setting to require that header (docs.oracle.com, configuring IMDS for worker nodes).
    """
    return {
        "areLegacyImdsEndpointsDisabled": "true",
        "user_data": base64.b64encode(node_script(flags, array=array).encode()).decode(),
    }
