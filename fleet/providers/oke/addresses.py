"""How many addresses of its subnet an OKE node takes, and how many a new VCN's node subnet has.

Pods have addresses of the VCN. They are not taken pod by pod: a node takes them all when it joins, as many as it may have pods,
whether those run or not (docs.oracle.com, OCI VCN-native pod networking: "pre-allocated in the pod subnet").
"""

from __future__ import annotations

import ipaddress
import math

_PODS_PER_CARD = 31
"""Pods' addresses on one network card (the same page)."""
_OCI_KEEPS = 3
"""Addresses of each subnet: its first two and its last (docs.oracle.com, networking overview)."""
OF_MOUNT_TARGET = 3
"""Addresses that a mount target of File Storage takes (docs.oracle.com, creating mount targets)."""


def of_node(pods: int) -> int:
    """Addresses of a node with room for `pods`: one of its own, one for each of them, one for each network card that has theirs.

    The cards are counted as OKE's controller does (dfoster-oracle/oci-cloud-controller-manager@5f6d2207,
    controllers/nativepodnetwork_controller.go).
    """
    return 1 + pods + math.ceil(pods / _PODS_PER_CARD)


def node_subnet(cidr: str) -> tuple[str, int]:
    """(range, usable addresses) of the node subnet of a new VCN, which is the first half of it."""
    half = next(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=1))
    return str(half), half.num_addresses - _OCI_KEEPS
