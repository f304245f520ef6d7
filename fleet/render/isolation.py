"""What keeps a runner set's namespace apart: whom its pods reach, how much it holds, and what a container may take.

Plain specs, made of a set's chart: what is written there of pods, GPUs and runners is not written a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource
from fleet.settings.egress import CLOSED, INTERNET, LINK_LOCAL

_DNS = {"namespace": {"kubernetes.io/metadata.name": KUBE_SYSTEM}, "pod": {"k8s-app": "kube-dns"}}
"""CoreDNS, by the labels that it has on EKS and on OKE."""
_PODS_OF_A_JOB = 3
"""In ARC's kubernetes modes: the runner's, the job's, and a container step's while that runs (actions/runner-container-hooks)."""
_SPARE = 2
"""Pods beside those of runners: the sweep of an OCI set, and one by hand."""


def network_policy(
    closed: Sequence[str] = CLOSED, opened: Sequence[str] = (), private_ports: Sequence[int] = ()
) -> dict[str, Any]:
    """Spec of a NetworkPolicy for every pod of the namespace: nothing comes in; out go DNS and the internet.

    `opened` are networks that are reached though they lie in `closed`, `private_ports` TCP ports that are reached anywhere but on
    the node's own addresses. Nothing of IPv6 is allowed: the clusters have none, and an IPv6 exception breaks the whole policy on
    an IPv4 cluster of EKS (aws/aws-network-policy-agent#631).
    """
    egress: list[dict[str, Any]] = [
        {
            "to": [{"namespaceSelector": {"matchLabels": _DNS["namespace"]}, "podSelector": {"matchLabels": _DNS["pod"]}}],
            "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
        },
        {"to": [_block(INTERNET, closed), *map(_block, opened)]},
    ]
    if private_ports:
        ports = [{"protocol": "TCP", "port": port} for port in private_ports]
        egress.append({"to": [_block(INTERNET, (LINK_LOCAL,))], "ports": ports})
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": egress}


def resource_quota(chart: Chart) -> dict[str, Any]:
    """Spec of a ResourceQuota of twice what the set may run: a wall against what is not ARC, never one that ARC meets.

    A pod that is told to stop counts until its grace period ends (Kubernetes, pkg/quota/v1/evaluator/core/pods.go), while ARC has
    made the next one: at most as many again as there may be runners. ARC 0.13.1 and newer would try again all the same, each half
    minute (actions/actions-runner-controller#4305); older ones gave the runner up.

    Runners that make a pod for each job meet it otherwise: such a pod fails at a quota and its job with it, instead of waiting
    (actions/runner-container-hooks#229). Their GPUs are capped by `maxRunners` and by the pool's nodes, and by no quota.
    """
    most = 2 * int(chart.values["maxRunners"])
    if _makes_pods(chart):
        return {"hard": {"pods": str(most * _PODS_OF_A_JOB + _SPARE)}}
    # Whole GPUs are counted in any case: who has shares or a launcher takes none.
    gpus = Counter({GPU_RESOURCE: 0})
    for container in _pod(chart)["containers"]:
        gpus.update({name: count for name, count in container["resources"]["limits"].items() if is_gpu_resource(name)})
    # Of extended resources a quota takes requests alone. No CPU and no memory: a pod that named none would be refused.
    wall = {f"requests.{name}": str(most * count) for name, count in gpus.items()}
    return {"hard": wall | {"pods": str(most + _SPARE)}}


def limit_range(chart: Chart) -> dict[str, Any]:
    """Spec of a LimitRange: a container takes no more than the set's own, and one that names nothing gets the same as that.

    ARC gives up a runner whose pod is refused for anything but a quota, so no bound is below what the chart asks for. GPUs are
    not in it: from a maximum the API server makes a default, which would hand one to every container.
    """
    (container,) = _pod(chart)["containers"]
    limits, requests = (_cpu_and_memory(container["resources"][kind]) for kind in ("limits", "requests"))
    return {"limits": [{"type": "Container", "max": limits, "default": limits, "defaultRequest": requests}]}


def _makes_pods(chart: Chart) -> bool:
    """Whether the set's runners make pods of the cluster for their jobs: ARC's kubernetes modes. No set of ours has one."""
    return str(chart.values.get("containerMode", {}).get("type", "")).startswith("kubernetes")


def _pod(chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = chart.values["template"]["spec"]
    return spec


def _cpu_and_memory(resources: dict[str, Any]) -> dict[str, str]:
    return {name: resources[name] for name in ("cpu", "memory") if name in resources}


def _block(cidr: str, but: Sequence[str] = ()) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)} if but else {"cidr": cidr}}
