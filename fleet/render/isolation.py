"""The network that the pods of a namespace reach, and the objects of a team's namespace.

Every team's namespace has the same isolation, with or without a queue. There is no ResourceQuota of GPUs, because Kueue limits
them. A team may borrow GPUs that others leave free, and its namespaces share them. So a quota of one namespace could reject pods
of a Job that Kueue has admitted, while the Job kept its place in the queue.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.charts.chart import KUBE_SYSTEM
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.pods import Level
from fleet.facts.record import Record
from fleet.facts.scheduling import NAMESPACE_NAME_LABEL, POD_SECURITY_LABEL
from fleet.prove.namespace_limits import team_limit_range
from fleet.settings.cluster import Cluster
from fleet.settings.egress import CLOSED, INTERNET, LINK_LOCAL
from fleet.settings.workloads import BUILDKIT_PORT

API_PORTS = (443, 6443)
"""TCP ports of API servers: EKS; OKE and Talos. Their addresses are unknown before the cluster exists."""
_KUBE_DNS = {"matchLabels": {"k8s-app": "kube-dns"}}
_DNS = {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: KUBE_SYSTEM}}, "podSelector": _KUBE_DNS}
"""CoreDNS, by its labels on EKS and on OKE."""


def network_policy(
    closed: Sequence[str] = CLOSED, opened: Sequence[str] = (), private_ports: Sequence[int] = (), builders: Sequence[str] = ()
) -> dict[str, Any]:
    """Spec of a NetworkPolicy for every pod of the namespace: no ingress, and egress only to DNS and the internet.

    Pods reach the networks `opened` even if they are inside `closed`. They reach the TCP ports `private_ports` of every address
    except the node's own ones, and BuildKit in the namespaces `builders`. No IPv6 is allowed: the clusters have none, and an
    IPv6 exception breaks the whole policy on an IPv4 cluster of EKS (aws/aws-network-policy-agent#631).
    """
    egress: list[dict[str, Any]] = [
        {"to": [_DNS], "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        {"to": [_block(INTERNET, closed), *map(_block, opened)]},
    ]
    if private_ports:
        ports = [{"protocol": "TCP", "port": port} for port in private_ports]
        egress.append({"to": [_block(INTERNET, (LINK_LOCAL,))], "ports": ports})
    if builders:
        egress.append({"to": [in_namespace(name) for name in builders], "ports": [{"protocol": "TCP", "port": BUILDKIT_PORT}]})
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": egress}


def in_namespace(name: str) -> dict[str, Any]:
    """All pods of a namespace, as a peer of a NetworkPolicy."""
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME_LABEL: name}}}


def admits(labels: Mapping[str, str], clients: Sequence[Manifest], port: int) -> Manifest:
    """Spec of a NetworkPolicy by which only these clients reach the pods with these labels, at one TCP port."""
    ingress = [{"from": clients, "ports": [{"protocol": "TCP", "port": port}]}]
    return {"podSelector": {"matchLabels": dict(labels)}, "policyTypes": ["Ingress"], "ingress": ingress}


def _block(cidr: str, but: Sequence[str] = ()) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)} if but else {"cidr": cidr}}


NAME = "team"
"""Name of the NetworkPolicy and of the LimitRange. A namespace has one of each."""


class Home(Record):
    """The manifests of a namespace: itself, its NetworkPolicy, and its LimitRange if it has a queue."""

    namespace: Manifest
    wall: Manifest
    limits: Manifest | None = None


def homes(cluster: Cluster) -> dict[str, Home]:
    """Every namespace that the queues, workloads, caches and jobs of a cluster name, by its name.

    Its pods have the network of runners, and reach each other.
    """
    queued = cluster.queues.namespaces if cluster.queues is not None else ()
    spec = network_policy(cluster.closed_networks, sorted(cluster.private_egress))
    # So several pods can train together (NCCL uses any port), and no team's pods reach another team's.
    each_other: Manifest = {"podSelector": {}}
    spec |= {"ingress": [{"from": [each_other]}], "egress": [*spec["egress"], {"to": [each_other]}]}
    limits = {name: manifest("v1", "LimitRange", NAME, name, team_limit_range()) for name in queued}
    spaces = cluster.team_namespaces.items()
    return {name: Home(namespace(name, level), wall(NAME, name, spec), limits.get(name)) for name, level in spaces}


def namespace(name: str, level: Level) -> Manifest:
    """A namespace for whose pods the API server enforces a Pod Security Standard."""
    return manifest("v1", "Namespace", name, labels={POD_SECURITY_LABEL: level})


def wall(name: str, namespace: str, spec: Manifest) -> Manifest:
    """A NetworkPolicy with this spec."""
    return manifest("networking.k8s.io/v1", "NetworkPolicy", name, namespace, spec)
