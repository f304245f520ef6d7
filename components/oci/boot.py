"""The script that an OKE node runs at its first boot."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence

_SCRIPT = """\
#!/usr/bin/env bash
set -o errexit -o nounset -o pipefail
# Without it Oracle Linux keeps the image's 47 GB, whatever the boot volume's size. A disk that is grown already makes it fail,
# and the node must join all the same. Ubuntu's cloud-init grows the disk by itself.
if [ -x /usr/libexec/oci-growfs ]; then
  bash /usr/libexec/oci-growfs -y || echo "root filesystem not grown"
fi
@DISKS@if command -v oke >/dev/null; then
  # An image with OKE's node package. The instance's certificate may not be there yet: a node that never joins is paid for.
  for attempt in 1 2 3 4 5 6; do
    if oke bootstrap@ARGUMENTS@; then exit 0; fi
    echo "oke bootstrap failed, attempt $attempt"
    sleep 20
  done
  exit 1
fi
metadata=http://169.254.169.254/opc/v2/instance/metadata
curl --fail --retry 10 --retry-delay 3 --header "Authorization: Bearer Oracle" --location "$metadata/oke_init_script" |
  base64 --decode >/var/run/oke-init.sh
bash /var/run/oke-init.sh@ARGUMENTS@
"""
"""Grows the root filesystem to the boot volume's size and joins the cluster (docs.oracle.com, custom cloud-init scripts,
examples 1 and 5; oracle-quickstart/oci-hpc-oke files/oke-ubuntu-cloud-init.sh, where Oracle Linux may have OKE's package too)."""

_DISKS = """\
# The node joins without the array too: its boot volume is as large as the plan counts with.
use_local_disks() {
  local array=/dev/md/local root=/mnt/local options folder
  options=nofail,x-systemd.before=crio.service,x-systemd.before=kubelet.service
  set -- /dev/nvme*n1
  mdadm --create "$array" --run --force --level=0 --raid-devices=$# "$@" || return 1
  mkfs.ext4 -q -F -m 1 "$array" || return 1
  echo "UUID=$(blkid -s UUID -o value "$array") $root ext4 noatime,$options 0 0" >>/etc/fstab
  mkdir -p "$root" || return 1
  mount "$root" || return 1
  for folder in /var/lib/containers /var/lib/kubelet /var/log/pods; do
    echo "$root$folder $folder none bind,$options 0 0" >>/etc/fstab
    mkdir -p "$root$folder" "$folder" || return 1
    mount "$folder" || return 1
  done
}
use_local_disks || echo "local disks not used"
"""
"""Makes one array of the local disks, and puts the folders of containers, kubelet and pod logs on it, also after a restart. Bare
metal boots from a network volume, which is not an NVMe device. The folders and the order are those of
oracle-quickstart/oci-hpc-oke, files/oke-nvme-raid.sh."""


def node_script(flags: Sequence[str] = (), *, array: bool = False) -> str:
    """The script of a pool: `flags` are kubelet's, `array` makes an array of the local disks."""
    arguments = f" --kubelet-extra-args {shlex.quote(' '.join(flags))}" if flags else ""
    return _SCRIPT.replace("@ARGUMENTS@", arguments).replace("@DISKS@", _DISKS if array else "")


def node_metadata(flags: Sequence[str] = (), *, array: bool = False) -> dict[str, str]:
    """Instance metadata of every node: the script, and no metadata without OCI's own header (IMDSv1).

    A node pool has no other setting to require that header (docs.oracle.com, configuring IMDS for worker nodes).
    """
    return {
        "areLegacyImdsEndpointsDisabled": "true",
        "user_data": base64.b64encode(node_script(flags, array=array).encode()).decode(),
    }
