"""Addresses that an OKE node uses, and addresses of the node subnet of a new VCN.

Pods have addresses of the VCN. A node reserves one for each pod that it may have when it joins, whether the pods run or not
(docs.oracle.com, OCI VCN-native pod networking: "pre-allocated in the pod subnet").
"""

from __future__ import annotations

import ipaddress
import math

_PODS_PER_CARD = 31
"""Pod addresses per network card (the same page)."""
_OCI_KEEPS = 3
"""Addresses that OCI reserves in each subnet: the first two and the last (docs.oracle.com, networking overview)."""
_SMALL = 28
"""Prefix of the subnets of the API endpoint and of the metrics gateway. The endpoint needs a handful of addresses
(docs.oracle.com, example network configurations), the gateway one."""
OF_MOUNT_TARGET = 3
"""Addresses of a mount target of File Storage (docs.oracle.com, creating mount targets)."""


def of_node(pods: int) -> int:
    """Addresses of a node for `pods` pods: one for the node, one per pod, one per network card with pod addresses.

    The cards are counted as OKE's controller does (dfoster-oracle/oci-cloud-controller-manager@5f6d2207,
    controllers/nativepodnetwork_controller.go).
    """
    return 1 + pods + math.ceil(pods / _PODS_PER_CARD)


def node_subnet(cidr: str) -> tuple[str, int]:
    """(range, usable addresses) of the node subnet of a new VCN, which is the first half of it."""
    half = next(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=1))
    return str(half), half.num_addresses - _OCI_KEEPS


def endpoint_subnet(cidr: str) -> str:
    """Range of the endpoint's subnet of a new VCN: its last sixteen addresses."""
    return _from_end(cidr, 1)


def gateway_subnet(cidr: str) -> tuple[str, str]:
    """(range, address of the load balancer) of the metrics gateway of a new VCN: the sixteen addresses before the endpoint's."""
    subnet = _from_end(cidr, 2)
    return subnet, str(ipaddress.IPv4Network(subnet)[2])


def _from_end(cidr: str, number: int) -> str:
    network = ipaddress.IPv4Network(cidr)
    size: int = 2 ** (32 - _SMALL)
    return f"{ipaddress.IPv4Address(int(network.broadcast_address) + 1 - number * size)}/{_SMALL}"
