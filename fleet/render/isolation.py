"""The isolation of a runner set's namespace: the network that its pods reach, its quota, and the limits of a container.

The specs are made from the set's chart, so facts about pods, GPUs and runners are not repeated here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource
from fleet.settings.egress import CLOSED, INTERNET, LINK_LOCAL

_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": KUBE_SYSTEM}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
"""CoreDNS, by its labels on EKS and on OKE."""
_PODS_OF_A_JOB = 3
"""In ARC's kubernetes modes: the runner's pod, the job's pod, and a pod for a container step while that step runs
(actions/runner-container-hooks)."""
_SPARE = 2
"""Pods beside those of runners: the sweep of an OCI set, and one that an operator starts by hand."""


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


def resource_quota(chart: Chart) -> dict[str, Any]:
    """Spec of a ResourceQuota of twice what the set may run. It limits other creators of pods, and ARC never reaches it.

    A pod that is stopping counts until its grace period ends (Kubernetes, pkg/quota/v1/evaluator/core/pods.go), and ARC may
    already have created the next one. So there are at most twice as many pods as runners. At a quota ARC 0.13.1 and newer would
    retry every half minute (actions/actions-runner-controller#4305). Older versions gave up the runner.

    Runners that create a pod for each job fail at a quota: the pod and its job fail instead of waiting
    (actions/runner-container-hooks#229). So only `maxRunners` and the pool's nodes limit their GPUs, and no quota does.
    """
    most = 2 * int(chart.values["maxRunners"])
    if _makes_pods(chart):
        return {"hard": {"pods": str(most * _PODS_OF_A_JOB + _SPARE)}}
    # The quota always names whole GPUs. A set with shares of GPUs or with a launcher may take none.
    gpus = Counter({GPU_RESOURCE: 0})
    for container in _pod(chart)["containers"]:
        gpus.update({name: count for name, count in container["resources"]["limits"].items() if is_gpu_resource(name)})
    # A quota supports only requests of extended resources. It has no CPU and no memory: it would reject a pod without them.
    hard = {f"requests.{name}": str(most * count) for name, count in gpus.items()}
    return {"hard": hard | {"pods": str(most + _SPARE)}}


def limit_range(chart: Chart) -> dict[str, Any]:
    """Spec of a LimitRange: a container may use as much as the set's own container, and gets that amount if it names none.

    ARC gives up a runner whose pod is rejected for any reason but a quota. So no limit is below the chart's own. GPUs are not in
    it: the API server uses a maximum as the default, which would give a GPU to every container.
    """
    (container,) = _pod(chart)["containers"]
    limits, requests = (_cpu_and_memory(container["resources"][kind]) for kind in ("limits", "requests"))
    return {"limits": [{"type": "Container", "max": limits, "default": limits, "defaultRequest": requests}]}


def _makes_pods(chart: Chart) -> bool:
    """Whether the set's runners create pods for their jobs (ARC's kubernetes modes). No set of this project does."""
    return str(chart.values.get("containerMode", {}).get("type", "")).startswith("kubernetes")


def _pod(chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = chart.values["template"]["spec"]
    return spec


def _cpu_and_memory(resources: dict[str, Any]) -> dict[str, str]:
    return {name: resources[name] for name in ("cpu", "memory") if name in resources}


def _block(cidr: str, but: Sequence[str] = ()) -> dict[str, Any]:
    return {"ipBlock": {"cidr": cidr, "except": list(but)} if but else {"cidr": cidr}}
