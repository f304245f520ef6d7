"""Two device plugins never share a node: the real scheduler, and the published chart with the values of this project."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.device_plugin import NAMESPACE, OTHER_ADVERTISERS, device_plugin
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_TOLERATION, HOST_LABEL
from tests.kwok.server import ServerApi, api_server, apply, missing, running
from tests.policies.rendered import published, render

_LACKS = missing("kube-scheduler")
pytestmark = [pytest.mark.kwok, pytest.mark.reference, pytest.mark.skipif(bool(_LACKS), reason=f"not on PATH: {_LACKS}")]
_PATIENCE = 30
NODES = ("a", "b")
CRITICAL = "system-node-critical"
"""The class of the plugins of both of NVIDIA's charts (their values.yaml). It is one of Kubernetes' own."""
LOW = "low"


class Cluster:
    """A node with GPUs, and a second one so that a pod which may go anywhere would show it."""

    def __init__(self, api: ServerApi, plugin: dict[str, Any]) -> None:
        self.api, self.plugin = api, plugin

    def start(self, home: str, node: str, priority: str = CRITICAL) -> str:
        """The pod that the DaemonSet controller makes for a node. Returns its path."""
        spec: dict[str, Any] = (
            self.plugin if home == NAMESPACE else {"tolerations": [GPU_TOLERATION.manifest()], "containers": [PAUSE]}
        )
        name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = dict(spec.get("affinity", {}))
        old = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
        terms = [{**term, **name} for term in old or [{}]]
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        labels = OTHER_ADVERTISERS.get(home, {"app.kubernetes.io/name": "nvidia-device-plugin"})
        made = spec | {"affinity": affinity, "priorityClassName": priority, "terminationGracePeriodSeconds": 0}
        pod = manifest("v1", "Pod", f"plugin-{node}", home) | {"spec": made}
        pod["metadata"]["labels"] = labels
        self.api.call("POST", f"/api/v1/namespaces/{home}/pods", pod)
        return f"/api/v1/namespaces/{home}/pods/plugin-{node}"

    def stop(self, path: str) -> None:
        """The DaemonSet is gone, and its pod with it."""
        self.api.call("DELETE", path, {"gracePeriodSeconds": 0})

    def runs(self, path: str, within: float = _PATIENCE) -> bool:
        """Whether the scheduler gives the pod its node. False once it says that no node takes the pod."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            pod = self.api.call("GET", path)
            if pod["spec"].get("nodeName"):
                return True
            if any(each.get("reason") == "Unschedulable" for each in pod.get("status", {}).get("conditions", ())):
                return False
            time.sleep(0.1)
        raise TimeoutError(f"the scheduler did not judge {path}")

    def comes(self, path: str) -> bool:
        """Whether a pod that waited gets its node."""
        end = time.monotonic() + _PATIENCE
        while not (there := "nodeName" in self.api.call("GET", path)["spec"]) and time.monotonic() < end:
            time.sleep(0.1)
        return there

    @property
    def most(self) -> int:
        """The most advertisers that share a node."""
        pods = [pod["spec"].get("nodeName") for pod in self.api.list("/api/v1/pods")]
        return max(pods.count(node) for node in NODES)


PAUSE = {"name": "plugin", "image": "registry.k8s.io/pause:3.10"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    chart = device_plugin()
    made = render(published(chart.chart), chart.values, tmp_path, name=chart.name, namespace=chart.namespace)
    (plugin,) = (each for each in made if each["kind"] == "DaemonSet" and each["metadata"]["name"] == chart.name)
    with api_server(tmp_path, ("ServiceAccount", "TaintNodesByCondition")) as api:
        spec = plugin["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
        assert spec["priorityClassName"] == CRITICAL
        apply(api, [manifest("v1", "Namespace", name) for name in (NAMESPACE, OPERATOR_NAMESPACE)])
        apply(api, [manifest("scheduling.k8s.io/v1", "PriorityClass", LOW) | {"value": 1}])
        for name in NODES:
            labels = {HOST_LABEL: name, GPU_PRESENT_LABEL: "true"}
            api.call("POST", "/api/v1/nodes", manifest("v1", "Node", name) | {"metadata": {"name": name, "labels": labels}})
            status = {
                "capacity": (size := {"cpu": "8", "memory": "32Gi", "pods": "58"}),
                "allocatable": size,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}],
            }
            api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, "application/merge-patch+json")
        # The API server makes its own classes a moment after its start.
        end = time.monotonic() + _PATIENCE
        while CRITICAL not in {each["metadata"]["name"] for each in api.list("/apis/scheduling.k8s.io/v1/priorityclasses")}:
            assert time.monotonic() < end, f"no class {CRITICAL}"
            time.sleep(0.1)
        scheduler = [f"--kubeconfig={tmp_path}/kubeconfig", "--leader-elect=false", "--secure-port=0"]
        with running(tmp_path, "kube-scheduler", *scheduler):
            yield Cluster(api, spec)


@pytest.mark.parametrize("other", OTHER_ADVERTISERS)
def test_the_second_advertiser_waits_until_the_first_is_gone(cluster: Cluster, other: str) -> None:
    for first, second in ((NAMESPACE, other), (other, NAMESPACE)):
        old = cluster.start(first, "a")
        assert cluster.runs(old)
        new = cluster.start(second, "a")
        assert not cluster.runs(new), f"{second} shares the node with {first}"
        free = cluster.start(second, "b")
        assert cluster.runs(free), "a node without the first one gets the second one at once"
        assert cluster.most == 1
        cluster.stop(old)
        assert cluster.comes(new)
        assert cluster.most == 1
        cluster.stop(new)
        cluster.stop(free)


def test_a_plugin_that_preempts_the_other_replaces_it_and_its_next_pod_waits(cluster: Cluster) -> None:
    """OKE says nothing of its add-on's priority. With a lower one the scheduler ends its pod, which is still one at a time."""
    old = cluster.start("kube-system", "a", LOW)
    assert cluster.runs(old)
    new = cluster.start(NAMESPACE, "a")
    assert cluster.comes(new)
    again = cluster.start("kube-system", "a", LOW)
    assert not cluster.runs(again)
    assert cluster.most == 1
