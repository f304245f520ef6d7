"""Kubernetes' objects: nodes become pools, hook templates the pods of jobs, and the others are kept whole."""

import json
from typing import Any

import pytest

from tests.audit.reading import seen, unread

TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


def node(
    name: str, type_: str = "g4dn.xlarge", zone: str = "us-east-1a", taints: tuple[Any, ...] = (TAINT,), **labels: str
) -> dict[str, Any]:
    plain = {"node.kubernetes.io/instance-type": type_, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": plain | {"topology.kubernetes.io/region": "us-east-1"} | labels},
        "spec": {"taints": list(taints), "providerID": f"aws:///{name}"},
        "status": {"allocatable": {"cpu": "3920m", "nvidia.com/gpu": "1"}},
    }


def exported(*items: dict) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}})


def test_nodes_that_are_alike_are_one_pool(tmp_path):
    passing = (TAINT, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"})
    nodes = [
        node("a"),
        node("b", zone="us-east-1b", taints=passing),
        node("c", "g5.xlarge"),
        node("d", taints=()),
        node("e", team="x"),
    ]
    pools = seen(tmp_path, nodes_json=exported(*nodes)).pools
    assert [(one.name, one.types, one.nodes, len(one.taints)) for one in pools] == [
        ("a", ("g4dn.xlarge",), 2, 1),
        ("c", ("g5.xlarge",), 1, 1),
        ("d", ("g4dn.xlarge",), 1, 0),
        ("e", ("g4dn.xlarge",), 1, 1),
    ]
    first = pools[0]
    assert (first.scaler, first.minimum, first.maximum, first.from_zero) == ("none", 2, 2, False)
    assert (first.zones, first.region) == (("us-east-1a", "us-east-1b"), "us-east-1")
    assert first.allocatable == {"cpu": "3920m", "nvidia.com/gpu": "1"}
    assert "kubernetes.io/hostname" not in first.labels


@pytest.mark.parametrize(
    ("label", "value", "capacity"),
    [("eks.amazonaws.com/capacityType", "ON_DEMAND", "on-demand"), ("eks.amazonaws.com/capacityType", "SPOT", "spot"),
     ("karpenter.sh/capacity-type", "reserved", "reserved"), ("team", "x", "on-demand")],
)  # fmt: skip
def test_a_node_says_how_it_was_bought(tmp_path, label, value, capacity):
    labels: dict[str, Any] = {label: value}
    (pool,) = seen(tmp_path, node_json=exported(node("a", **labels))).pools
    assert pool.capacities == (capacity,)


def test_nodes_of_a_declared_pool_are_counted_there(tmp_path):
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": {"template": {"spec": {}}}}
    label: dict[str, Any] = {"karpenter.sh/nodepool": "gpu"}
    nodes = [node(name, **label) for name in "ab"]
    (found,) = seen(tmp_path, all_json=exported(*nodes, pool)).pools
    assert (found.name, found.scaler, found.nodes) == ("gpu", "karpenter", 2)


@pytest.mark.parametrize(
    ("version", "kind", "kept"),
    [
        ("v1", "ResourceQuota", True),
        ("v1", "LimitRange", True),
        ("v1", "Pod", True),
        ("apps/v1", "DaemonSet", True),
        ("batch/v1", "Job", True),
        ("scheduling.k8s.io/v1", "PriorityClass", True),
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", True),
        ("kueue.x-k8s.io/v1beta2", "Topology", True),
        ("resource.k8s.io/v1", "ResourceClaimTemplate", True),
        ("acme.io/v1", "Job", False),
        ("v1", "Secret", False),
    ],
)
def test_objects_that_rules_read_are_kept_whole(tmp_path, version, kind, kept):
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{any: [1, {{thing: 2}}]}}\n"
    found = seen(tmp_path, a=text, node_json=exported(node("a")))
    assert [keys.text("metadata", "name") for keys in found.of_kind(kind)] == ["a"] * kept
    assert unread(found) == []


def test_yaml_of_kubectl_is_a_list_too(tmp_path):
    pods = "".join(f"- {{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}\n" for name in "ab")
    text = f"apiVersion: v1\nkind: PodList\nitems:\n{pods}"
    found = seen(tmp_path, pods=text)
    assert [(keys.text("metadata", "name"), keys.place.rpartition(":")[2]) for keys in found.of_kind("Pod")] == [
        ("a", "4"),
        ("b", "5"),
    ]


RUNNER = """\
githubConfigUrl: https://github.com/acme
runnerScaleSetName: gpu
containerMode: {type: kubernetes}
template:
  spec:
    containers:
    - name: runner
      image: ghcr.io/actions/actions-runner:2.338.1
      env: [{name: ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE, value: %s}]
      volumeMounts: [{name: work, mountPath: /home}, {name: hook, mountPath: %s}]
    volumes: [{name: hook, configMap: {name: hooks%s}}]
"""
HOOKS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: hooks}
data:
  job.yaml: |
    metadata: {labels: {a: b}}
    spec: {containers: [{name: $job, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("path", "mount", "more", "found"),
    [
        ("/etc/hook/job.yaml", "/etc/hook", "", True),
        ("/etc/hook/content", "/etc/hook", ", items: [{key: job.yaml, path: content}]", True),
        ("/etc/hook/other.yaml", "/etc/hook", "", False),
        ("/opt/job.yaml", "/etc/hook", "", False),
    ],
)
def test_a_hook_template_is_the_pod_of_a_job(tmp_path, path, mount, more, found):
    (one,) = seen(tmp_path, runner=RUNNER % (path, mount, more), hooks=HOOKS).classes
    assert one.hook_template == path
    assert one.job == ({"containers": [{"name": "$job", "resources": {"limits": {"nvidia.com/gpu": 1}}}]} if found else None)


def test_a_runner_without_hooks_has_no_template(tmp_path):
    text = (RUNNER % ("x", "/etc", "")).replace("ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE", "OTHER")
    (one,) = seen(tmp_path, runner=text, hooks=HOOKS).classes
    assert (one.hook_template, one.job) == ("", None)
