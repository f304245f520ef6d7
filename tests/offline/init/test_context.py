"""`init --from-context` reads a cluster that exists already, by GET requests only, and the stack that it writes plans clean."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.yaml_text import read_yaml
from gpu_ci.cli import app
from tests.offline.init.conftest import Project

CONTEXT = "arn:aws:eks:us-west-2:123456789012:cluster/platform"
TOKEN = "token-that-nobody-may-see"  # noqa: S105 - that is the point
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(name: str, kind: str, *, gpus: int = 0, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A node of EKS in us-west-2a; `more` has taints, osImage and providerID."""
    places = {"topology.kubernetes.io/region": "us-west-2", "topology.kubernetes.io/zone": f"us-west-2{name[-1]}"}
    return {
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind} | places | (labels or {})},
        "spec": {"providerID": more.get("provider", "aws:///us-west-2a/i-0aaa"), "taints": more.get("taints", [])},
        "status": {
            "capacity": {"cpu": "8"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
            "nodeInfo": {"osImage": more.get("system", "Amazon Linux 2023.9.20260914"), "kubeletVersion": "v1.36.1-eks"},
        },
    }


def workload(name: str, namespace: str = "kube-system", account: str = "", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"serviceAccountName": account}}},
    }


SYSTEM = node("ip-1-a", "m6i.large", labels={"alpha.eksctl.io/cluster-name": "platform"})
SPOT_T4 = {"eks.amazonaws.com/nodegroup": "t4", "eks.amazonaws.com/capacityType": "SPOT"}
ARC = workload(
    "arc-gha-rs-controller", "arc-systems", "arc-gha-rs-controller", **{"app.kubernetes.io/part-of": "gha-rs-controller"}
)


class Server:
    """An API server on loopback that refuses every request but a GET, and remembers all."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.held: dict[str, Any] = {"/version": {"major": "1", "minor": "36+", "gitVersion": "v1.36.1-eks-1"}}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Print nothing."""

            def answer(self) -> None:
                path = self.path.partition("?")[0]
                outer.requests.append((self.command, path))
                allowed = self.command == "GET" and path in outer.held
                body = outer.held[path] if allowed else {"kind": "Status", "reason": "Forbidden", "message": "cannot"}
                text = json.dumps(body).encode()
                self.send_response(200 if allowed else 403)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = answer  # noqa: N815 - http.server's names

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def has(self, *nodes: Any, deployments: tuple[Any, ...] = (), daemonsets: tuple[Any, ...] = ()) -> None:
        lists = {"/api/v1/nodes": nodes, "/apis/apps/v1/deployments": deployments, "/apis/apps/v1/daemonsets": daemonsets}
        self.held |= {path: {"metadata": {"resourceVersion": "1"}, "items": list(items)} for path, items in lists.items()}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()
    threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True).start()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{found.server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in (CONTEXT, "admin@lab", "on")],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield found
    found.server.shutdown()
    found.server.server_close()
    assert {verb for verb, _ in found.requests} <= {"GET"}, "the cluster is only read"


Init = Callable[..., Any]


@pytest.fixture
def init(project: Project, server: Server) -> Init:
    def run(*words: str, context: str = CONTEXT, judged: bool = False) -> Any:
        project.judged = judged
        done = CliRunner().invoke(
            app, ["init", "acme", "--from-context", context, "--organization", "acme", "--jobs", "tests", *words]
        )
        assert TOKEN not in done.output
        return done

    return run


def cluster_of(project: Project) -> Any:
    """The one cluster of the stack file that was written, after its plan had no violation if it was judged."""
    (new,) = project.made
    assert [verdict.message for verdict in new.plan.verdicts if verdict.kind == "violation"] == []
    assert new.plan.passes()
    document: Any = read_yaml(project.root / "Pulumi.acme.yaml").value
    return next(iter(document["config"]["gpu-ci:clusters"].items()))


def test_gpu_nodes_are_described_as_they_are(init: Init, project: Project, server: Server):
    t4 = node("ip-2-a", "g4dn.2xlarge", gpus=1, labels=SPOT_T4, taints=[GPU_TAINT])
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    more = node("ip-3-b", "g4dn.2xlarge", gpus=1, labels=SPOT_T4, taints=[GPU_TAINT, passing])
    big = node("ip-4-a", "g5.12xlarge", gpus=4, labels={"karpenter.sh/nodepool": "a10g"}, system="Ubuntu 24.04.3 LTS")
    server.has(SYSTEM, t4, more, big, deployments=(workload("metrics-server"),), daemonsets=(workload("nvidia-device-plugin"),))
    done = init(judged=True)
    assert done.exit_code == 0, done.output
    name, cluster = cluster_of(project)
    assert name == "platform"
    assert cluster["provider"] == "kubernetes"
    assert cluster["existing"] == {"context": CONTEXT, "installed": ["device-plugin", "metrics-server"]}
    assert cluster["enablement"] == "device-plugin"
    assert cluster["pools"] == {
        "t4": {
            "instanceTypes": ["g4dn.2xlarge"],
            "capacity": "spot",
            "image": "al2023-nvidia",
            "role": "burst",
            "nodes": {"min": 2, "max": 2},
            "selector": {"eks.amazonaws.com/nodegroup": "t4", "node.kubernetes.io/instance-type": "g4dn.2xlarge"},
            "taints": [GPU_TAINT],
            "usdPerHour": 0.752,
        },
        "a10g": {
            "instanceTypes": ["g5.12xlarge"],
            "capacity": "on-demand",
            "image": "al2023-nvidia",
            "role": "burst",
            "nodes": {"min": 1, "max": 1},
            "selector": {"karpenter.sh/nodepool": "a10g", "node.kubernetes.io/instance-type": "g5.12xlarge"},
            "usdPerHour": 5.672,
        },
    }
    assert {name: runner["scale"]["max"] for name, runner in cluster["runners"].items()} == {"gpu-t4": 2, "gpu-a10g": 4}
    assert sorted(server.requests) == [
        ("GET", "/api/v1/nodes"),
        ("GET", "/apis/apps/v1/daemonsets"),
        ("GET", "/apis/apps/v1/deployments"),
        ("GET", "/version"),
    ]


def test_names_that_yaml_reads_as_another_type_stay_text(init: Init, project: Project, server: Server):
    controller = workload("arc", "off", "true", **{"app.kubernetes.io/part-of": "gha-rs-controller"})
    taint = {"key": "yes", "value": "0x1f", "effect": "NoSchedule"}
    server.has(
        SYSTEM,
        node("ip-2-a", "g4dn.2xlarge", gpus=1, labels={"karpenter.sh/nodepool": "off"}, taints=[taint]),
        deployments=(controller,),
    )
    done = init(context="on")
    assert done.exit_code == 0, done.output
    name, cluster = cluster_of(project)
    assert (name, cluster["existing"]["context"]) == ("on", "on")
    assert cluster["existing"]["controller"] == {"namespace": "off", "serviceAccount": "true"}
    assert cluster["pools"]["t4"]["selector"]["karpenter.sh/nodepool"] == "off"
    assert cluster["pools"]["t4"]["taints"] == [taint]


def test_the_operator_and_an_arc_controller_are_not_installed_again(init: Init, project: Project, server: Server):
    gpu = node("worker-a", "g5.2xlarge", gpus=1, provider="", system="Ubuntu 24.04.3 LTS")
    of_operator = (workload("nvidia-device-plugin-daemonset", "gpu-operator"), workload("nvidia-dcgm-exporter", "gpu-operator"))
    server.has(gpu, deployments=(ARC, workload("gpu-operator", "gpu-operator")), daemonsets=of_operator)
    assert init(context="admin@lab", judged=True).exit_code == 0
    name, cluster = cluster_of(project)
    assert name == "lab"
    assert cluster["enablement"] == "gpu-operator"
    assert cluster["existing"] == {
        "context": "admin@lab",
        "installed": ["arc-controller", "gpu-operator"],
        "controller": {"namespace": "arc-systems", "serviceAccount": "arc-gha-rs-controller"},
    }
    assert cluster["pools"]["a10g"]["selector"] == {"node.kubernetes.io/instance-type": "g5.2xlarge"}
    assert cluster["pools"]["a10g"]["image"] == "ubuntu"


def test_nodes_of_bottlerocket_have_a_device_plugin(init: Init, project: Project, server: Server):
    server.has(node("ip-4-a", "g6.2xlarge", gpus=1, system="Bottlerocket OS 1.60 (aws-k8s-1.36-nvidia)"))
    assert init().exit_code == 0
    _, cluster = cluster_of(project)
    assert cluster["existing"]["installed"] == ["device-plugin"]
    assert "# The closest kind: Bottlerocket OS 1.60" in project.files["Pulumi.acme.yaml"]


def test_training_gets_all_gpus_of_a_node(init: Init, project: Project, server: Server):
    server.has(node("ip-4-a", "g5.12xlarge", gpus=4))
    assert init("--jobs", "tests,training").exit_code == 0
    _, cluster = cluster_of(project)
    assert {name: runner.get("gpus", 1) for name, runner in cluster["runners"].items()} == {"gpu-a10g": 1, "gpu-a10g-training": 4}


def test_a_cluster_of_eks_without_gpus_gets_pools(init: Init, project: Project, server: Server):
    autoscaler = workload("cluster-autoscaler-aws-cluster-autoscaler")
    server.has(SYSTEM, node("ip-5-c", "m6i.large"), deployments=(autoscaler, workload("metrics-server")))
    done = init("--gpu", "T4")
    assert done.exit_code == 0, done.output
    name, cluster = cluster_of(project)
    assert (name, cluster["provider"], cluster["region"], cluster["kubernetesVersion"]) == ("usw2", "eks", "us-west-2", "1.36")
    assert cluster["existing"]["name"] == "platform"
    assert cluster["existing"]["installed"] == ["cluster-autoscaler", "metrics-server"]
    assert list(cluster["existing"]["subnets"]) == ["us-west-2a", "us-west-2c"]
    assert set(cluster["pools"]) == {"t4-spot", "t4-ondemand"}


def test_a_cluster_in_one_zone_may_have_spot_pools_in_one_zone(init: Init, project: Project, server: Server):
    server.has(SYSTEM)
    assert init("--gpu", "T4", judged=True).exit_code == 0
    _, cluster = cluster_of(project)
    assert list(cluster["existing"]["subnets"]) == ["us-west-2a"]
    assert "minZones = 1" in project.files["policies/stacks.toml"].partition("[acme]")[2]


def test_a_cluster_of_oke_without_gpus_gets_pools(init: Init, project: Project, server: Server):
    server.held["/version"] = {"major": "1", "minor": "34"}
    oke = node("10.0.1.2", "VM.Standard.E5.Flex", provider="ocid1.instance.oc1.iad.aaaa")
    oke["metadata"]["labels"]["topology.kubernetes.io/region"] = "us-ashburn-1"
    server.has(oke)
    done = init("--gpu", "A10", context="admin@lab", judged=True)
    assert done.exit_code == 0, done.output
    name, cluster = cluster_of(project)
    assert (name, cluster["provider"], cluster["kubernetesVersion"]) == ("iad", "oke", "1.34")
    assert cluster["existing"]["context"] == "admin@lab"


@pytest.mark.parametrize(
    ("nodes", "words", "message"),
    [
        (
            (node("a", "x9.huge", gpus=8),),
            (),
            "--from-context: node a has GPUs and instance type 'x9.huge', which fleet/facts/data/",
        ),
        ((SYSTEM,), ("--provider", "existing-context"), "--provider existing-context: it reads the GPU nodes of a cluster; give"),
        ((SYSTEM,), ("--provider", "eks"), "--from-context: provider eks is for new clusters; leave one of the two out"),
        ((node("a", "n1", provider="gce://x/y"),), (), "--from-context: the cluster has no GPU nodes, and new ones are"),
        ((node("a", "g5.2xlarge", gpus=1),), ("--jobs", "training"), "--jobs: training needs a node with several GPUs"),
        ((node("a", "g5.2xlarge", gpus=1),), ("--budget", "5/hour"), "--budget: provider existing-context buys no machines"),
        (
            (node("a", "g5.2xlarge", gpus=1),),
            ("--gpu", "T4"),
            "--gpu: with provider existing-context init reads the GPUs of your machines or nodes; remove --gpu",
        ),
    ],
)
def test_what_cannot_be_used_is_one_error_line(
    nodes: tuple[Any, ...], words: tuple[str, ...], message: str, init: Init, project: Project, server: Server
):
    server.has(*nodes)
    before = project.files
    done = init(*words)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line != "… planning the fleet"]
    assert line.startswith(f"error: {message}")
    assert project.files == before


def test_a_context_that_cannot_be_read_is_one_error_line(init: Init, server: Server):
    done = init(context="elsewhere")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --from-context: the kubeconfig has no context 'elsewhere'; give one of: ")
    server.held.pop("/version")
    done = init()
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --from-context: get the version: 403 Forbidden: cannot")
    assert done.stderr.count("\n") == 1
