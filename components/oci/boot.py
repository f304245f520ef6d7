"""The script that an OKE node runs at its first boot."""

from __future__ import annotations

import base64

NODE_SCRIPT = """\
#!/usr/bin/env bash
set -o errexit -o nounset -o pipefail
# Without it Oracle Linux keeps the image's 47 GB, whatever the boot volume's size. A disk that is grown already makes it fail,
# and the node must join all the same. Ubuntu's cloud-init grows the disk by itself.
if [ -x /usr/libexec/oci-growfs ]; then
  bash /usr/libexec/oci-growfs -y || echo "root filesystem not grown"
fi
if command -v oke >/dev/null; then
  # An image with OKE's node package. The instance's certificate may not be there yet: a node that never joins is paid for.
  for attempt in 1 2 3 4 5 6; do
    if oke bootstrap; then exit 0; fi
    echo "oke bootstrap failed, attempt $attempt"
    sleep 20
  done
  exit 1
fi
metadata=http://169.254.169.254/opc/v2/instance/metadata
curl --fail --retry 10 --retry-delay 3 --header "Authorization: Bearer Oracle" --location "$metadata/oke_init_script" |
  base64 --decode >/var/run/oke-init.sh
bash /var/run/oke-init.sh
"""
"""Grows the root filesystem to the boot volume's size and joins the cluster (docs.oracle.com, custom cloud-init scripts,
examples 1 and 5; oracle-quickstart/oci-hpc-oke files/oke-ubuntu-cloud-init.sh, where Oracle Linux may have OKE's package too)."""


def node_metadata() -> dict[str, str]:
    """Instance metadata of every node: the script, and no metadata without OCI's own header (IMDSv1).

    A node pool has no other setting to require that header (docs.oracle.com, configuring IMDS for worker nodes).
    """
    return {"areLegacyImdsEndpointsDisabled": "true", "user_data": base64.b64encode(NODE_SCRIPT.encode()).decode()}
