"""The network that the pods of a namespace reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import KUBE_SYSTEM
from fleet.settings.egress import CLOSED, INTERNET, LINK_LOCAL

_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": KUBE_SYSTEM}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
"""CoreDNS, by its labels on EKS and on OKE."""


def network_policy(
    closed: Sequence[str] = CLOSED, opened: Sequence[str] = (), private_ports: Sequence[int] = ()
) -> dict[str, Any]:
    """Spec of a NetworkPolicy for every pod of the namespace: no ingress, and egress only to DNS and the internet.

    Pods reach the networks `opened` even if they are inside `closed`. They reach the TCP ports `private_ports` of every address
    except the node's own ones. No IPv6 is allowed: the clusters have none, and an IPv6 exception breaks the whole policy on an
    IPv4 cluster of EKS (aws/aws-network-policy-agent#631).
    """
    egress: list[dict[str, Any]] = [
        {"to": [_DNS], "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        {"to": [_block(INTERNET, closed), *map(_block, opened)]},
    ]
    if private_ports:
        ports = [{"protocol": "TCP", "port": port} for port in private_ports]
        egress.append({"to": [_block(INTERNET, (LINK_LOCAL,))], "ports": ports})
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": egress}


def _block(cidr: str, but: Sequence[str] = ()) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)} if but else {"cidr": cidr}}
