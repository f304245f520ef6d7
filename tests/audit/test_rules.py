"""Each rule of `audit` with other names and numbers than its incident, and what looks alike and is right."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.facts.tables import beside
from gpu_ci.audit import finding
from gpu_ci.audit.finding import Finding
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings

DAY = date(2026, 11, 1)
MESSAGES = beside(finding.__file__, "messages.toml")
TYPE, CAPACITY, ZONE = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
OF_RESERVED: dict[str, Any] = {CAPACITY: ["reserved"]}
OF_SPOT: dict[str, Any] = {CAPACITY: ["spot"]}
ON_DEMAND: dict[str, Any] = {CAPACITY: ["on-demand"]}
ONE_ZONE: dict[str, Any] = {ZONE: ["us-east-1a"]}
TOLERATES: dict[str, Any] = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def pool(
    name: str, *types: str, weight: int = 0, labels: object = None, policy: str = "WhenEmpty", **more: Any
) -> dict[str, Any]:
    requirements = [{"key": TYPE, "operator": "In", "values": list(types)}]
    requirements += [{"key": key, "operator": "In", "values": value} for key, value in more.items() if isinstance(value, list)]
    of_node = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"},
        "requirements": requirements,
        "taints": more.get("taints", ()) or [{"key": "nvidia.com/gpu", "value": "yes", "effect": "NoSchedule"}],
        **({"startupTaints": [{"key": more["waits"], "effect": "NoSchedule"}]} if "waits" in more else {}),
    }
    spec = {"disruption": {"consolidationPolicy": policy}, "template": {"metadata": {"labels": labels or {}}, "spec": of_node}}
    spec |= ({"weight": weight} if weight else {}) | ({"limits": more["limits"]} if "limits" in more else {})
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def node_class(**spec: Any) -> dict[str, Any]:
    spec = {"amiSelectorTerms": [{"alias": "al2023@latest"}]} | spec
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "class"}, "spec": spec}


def release(chart: str, version: str, values: object, name: str = "r", space: str = "ns") -> dict[str, Any]:
    inner = {"chart": {"spec": {"chart": chart, "version": version}}, "values": values}
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": meta, "spec": inner}


def runners(name: str, gpus: int = 0, version: str = "0.15.1", cpu: int = 2, memory: str = "8Gi", **more: Any) -> dict[str, Any]:
    """A set; `pod` are keys of its pod, `env` variables of its runner, other keys are values of the chart."""
    size = {"requests": {"cpu": cpu, "memory": memory}} | ({"limits": {"nvidia.com/gpu": gpus}} if gpus else {})
    env = [{"name": key, "value": value} for key, value in (more.pop("env", None) or {}).items()]
    of_pod = {**TOLERATES, **(more.pop("pod", None) or {})}
    of_pod["containers"] = [{"name": "runner", "resources": size, **({"env": env} if env else {})}]
    values = {"githubConfigUrl": "https://github.com/zeta", "template": {"spec": of_pod}, **more}
    return release("gha-runner-scale-set", version, values, name)


def reserved(*rows: tuple[str, int, str, str]) -> dict[str, Any]:
    keys = ("CapacityReservationId", "TotalInstanceCount", "State", "EndDate")
    return {"CapacityReservations": [dict(zip(keys, row, strict=True)) for row in rows]}


def daemon(name: str, terms: object = None, tolerates: bool = True, **container: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": name, "image": f"zeta/{name}:1", **container}]}
    spec |= {"tolerations": [{"operator": "Exists"}]} if tolerates else {}
    if terms:
        of_node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
        spec["affinity"] = {"nodeAffinity": of_node}
    body = {"selector": {}, "template": {"spec": spec}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": body}


def thing(kind: str, api: str, spec: object, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "thing", **metadata}, "spec": spec}


def group(kind: str = "nodeGroups", **fields: Any) -> dict[str, Any]:
    fields = {"name": "green", "instanceType": "g6.xlarge", "minSize": 0, "maxSize": 3} | fields
    return {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "c", "region": "eu-west-1"},
        kind: [fields],
    }


def said(folder: Path, *objects: object) -> list[Finding]:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return findings(audit(folder), DAY)


ENDS = "2027-06-30T00:00:00Z"
NAMING = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
RESERVED = pool("x", "p4d.24xlarge", **OF_RESERVED)
NODE: dict[str, Any] = thing("Node", "v1", {}, labels={"zeta/kind": "v"})
NODE["status"] = {"allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "4", "pods": "110"}}
FLAVOR = thing("ResourceFlavor", "kueue.x-k8s.io/v1beta1", {"nodeLabels": {"zeta/kind": "v"}})
GIVEN = {"zeta/kind": "v"}
SHARES: dict[str, Any] = {"volumeMounts": [{"name": "m", "mountPath": "/m", "mountPropagation": "Bidirectional"}]}
BOUNDED: dict[str, Any] = {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}}
TYPES: dict[str, Any] = {"key": TYPE, "operator": "In", "values": ["p4d.24xlarge"]}
EFA = thing(
    "Job",
    "batch/v1",
    {"template": {"spec": {**TOLERATES, "containers": [{"name": "c", "resources": {"limits": {"vpc.amazonaws.com/efa": 4}}}]}}},
)
INTERFACE = node_class(networkInterfaces=[{"interfaceType": "efa-only"}])
LIVE: dict[str, Any] = {
    "apiVersion": "actions.github.com/v1alpha1",
    "kind": "AutoscalingRunnerSet",
    "metadata": {"name": "blue", "uid": "1"},
}
LIVE["spec"] = {"githubConfigUrl": "https://github.com/zeta", "runnerScaleSetLabels": ["a"]}
HOOKS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "hooks"},
    "data": {"job.yaml": "spec: {containers: [{name: $job}]}"},
}
HOOKED: dict[str, Any] = {"ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE": "/h/job.yaml"}
KUBERNETES = {"type": "kubernetes"}
OPERATOR: dict[str, Any] = {"toolkit": {"version": "v1.19.0"}}
POLICY: dict[str, Any] = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p", "uid": "2"}}
POLICY["spec"] = {"toolkit": {"version": "v1.18.1"}}
SERVER = "https://git.zeta.example/ml"


def quota(**hard: str) -> dict[str, Any]:
    return thing("ResourceQuota", "v1", {"hard": {key.replace("_", "."): value for key, value in hard.items()}}, namespace="ns")


def queue(count: int, **more: Any) -> dict[str, Any]:
    flavors = [{"name": "thing", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": count}]}]
    return thing("ClusterQueue", "kueue.x-k8s.io/v1beta1", {"resourceGroups": [{"flavors": flavors}], **more})


def image(day: str, name: str = "ami-1") -> dict[str, Any]:
    return {"Images": [{"ImageId": name, "DeprecationTime": f"{day}T00:00:00.000Z"}]}


def template(name: str, env: dict[str, str], job_gpus: int = 0) -> dict[str, Any]:
    """A set of the kubernetes mode, whose hook template is in HOOKS."""
    made = runners(name, containerMode=KUBERNETES, env=env)
    spec = made["spec"]["values"]["template"]["spec"]
    spec["containers"][0]["volumeMounts"] = [{"name": "h", "mountPath": "/h"}]
    spec["volumes"] = [{"name": "h", "configMap": {"name": "hooks"}}]
    return made


ONE_SPOT = pool("first", "g6.xlarge", weight=9, **OF_SPOT)
TWO = pool("second", "g6.2xlarge", weight=1)
P5 = pool("p5", "p5.48xlarge", **ONE_ZONE)
CASES = {
    "a reservation that ends tomorrow": ("reservation.ends", [RESERVED, NAMING, reserved(("cr-1", 4, "active", "2026-11-02"))]),
    "a reservation that failed": ("reservation.ended", [RESERVED, NAMING, reserved(("cr-1", 4, "failed", ENDS))]),
    "a reservation of another region": ("reservation.missing", [RESERVED, NAMING, reserved(("cr-2", 4, "active", ENDS))]),
    "a reservation without an answer": ("reservation.open", [RESERVED, NAMING]),
    "more GPUs than reserved": (
        "reservation.above",
        [RESERVED, NAMING, reserved(("cr-1", 1, "active", ENDS)), runners("s", 4, maxRunners=3)],
    ),
    "an old Karpenter image": ("known-defect.affected", [RESERVED, NAMING, daemon("k", image="ecr/karpenter/controller:1.11.3")]),
    "0.14.0 and a server": ("known-defect.affected", [runners("s", version="0.14.0", githubConfigUrl=SERVER)]),
    "labels on a server": ("known-defect.affected", [runners("s", githubConfigUrl=SERVER, scaleSetLabels=["a"])]),
    "an older set": (
        "arc-versions.differ",
        [release("gha-runner-scale-set-controller", "0.15.1", {}), runners("s", version="0.15.0")],
    ),
    "a label taken away": ("labels.changed", [LIVE, runners("blue")]),
    "an operator of another toolkit": ("operator.restarts", [POLICY, release("gpu-operator", "v26.3.0", OPERATOR)]),
    "a whole node of 4": ("shared.whole", [pool("x", "g6.12xlarge"), runners("small", 1), runners("large", 4)]),
    "one type for a class": ("types.one", [pool("x", "g5.2xlarge"), runners("s", 1)]),
    "a spot pool and its fallback": ("types.weight", [ONE_SPOT, TWO, runners("s", 1)]),
    "affinity without a template": ("job-pod.shapeless", [runners("s", 1, containerMode={"type": "kubernetes-novolume"})]),
    "a job bound to its runner": ("job-pod.bound", [HOOKS, template("s", HOOKED)]),
    "default consolidation": ("disruption.moves", [pool("x", "g6.xlarge", "g5.xlarge", policy=""), runners("s", 1)]),
    "no runner at all": ("max-runners.zero", [runners("s", maxRunners=0)]),
    "half of a node": ("max-runners.low", [NODE, runners("s", 1, maxRunners=2)]),
    "pods above a quota": ("quota.full", [quota(pods="3"), runners("s", maxRunners=4)]),
    "no maximum and a quota": ("quota.open", [quota(requests_cpu="8"), runners("s")]),
    "vCPUs above a quota": (
        "cloud-limit.low",
        [pool("x", "g6.4xlarge", limits={"nvidia.com/gpu": 5}), {"Quotas": [{"QuotaCode": "L-DB2E81BA", "Value": 64.0}]}],
    ),
    "a queue above its nodes": ("queue.above", [NODE, FLAVOR, queue(5)]),
    "a queue above its minimum": (
        "queue.absent",
        [pool("x", "g6.xlarge", labels=GIVEN, limits={"nvidia.com/gpu": 9}), FLAVOR, queue(9)],
    ),
    "a label of no tag": ("from-zero.hidden", [group(labels={"zeta/a": "b"})]),
    "a taint of a managed group": (
        "from-zero.managed",
        [group("managedNodeGroups", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])],
    ),
    "an untagged GPU": ("from-zero.gpus", [group()]),
    "an unlabelled GPU": ("accelerator.missing", [group(minSize=1)]),
    "an image without an end": ("image.fixed", [pool("x", "g6.xlarge"), node_class(amiSelectorTerms=[{"id": "ami-1"}])]),
    "an old image": (
        "image.ended",
        [pool("x", "g6.xlarge"), node_class(amiSelectorTerms=[{"id": "ami-1"}]), image("2026-10-30")],
    ),
    "a driver by apt": ("boot.builds", [group(preBootstrapCommands=["apt-get install -y linux-headers-generic"])]),
    "repair switched off": ("repair.none", [group("managedNodeGroups", nodeRepairConfig={"enabled": False})]),
    "a plugin without toleration": (
        "daemonset.untolerated",
        [pool("x", "g6.xlarge"), daemon("nvidia-device-plugin", tolerates=False)],
    ),
    "a plugin by a label": (
        "daemonset.unlabelled",
        [pool("x", "g6.xlarge"), daemon("gpu-driver", [{"key": "zeta/gpu", "operator": "Exists"}])],
    ),
    "a plugin by types": ("daemonset.unlisted", [pool("x", "p4d.24xlarge", "p5.48xlarge"), daemon("dcgm", [TYPES])]),
    "a mount for 1 and 4 GPUs": (
        "daemonset.limit",
        [pool("x", "g6.xlarge"), pool("y", "g6.12xlarge"), daemon("fuse", **SHARES, **BOUNDED)],
    ),
    "EFA in all zones": ("efa.conditions", [pool("p5", "p5.48xlarge"), INTERFACE, EFA]),
    "a token": ("credential.token", [runners("s", githubConfigSecret={"github_token": "x"})]),
}
"""What is named, by its case of messages.toml."""
MISSES = {
    "a reservation that ends next summer": (
        "reservation",
        [RESERVED, NAMING, reserved(("cr-1", 4, "active", ENDS)), runners("s", 8, maxRunners=4)],
    ),
    "Karpenter 1.10 without reservations": (
        "known-defect",
        [pool("x", "g6.xlarge"), daemon("k", image="ecr/karpenter/controller:1.10.0")],
    ),
    "a fixed Karpenter": ("known-defect", [RESERVED, NAMING, daemon("k", image="ecr/karpenter/controller:v1.12.0")]),
    "0.14.0 on github.com": ("known-defect", [runners("s", version="0.14.0", scaleSetLabels=["a"])]),
    "0.14.0 on ghe.com": ("known-defect", [runners("s", version="0.14.0", githubConfigUrl="https://zeta.ghe.com/a")]),
    "0.14.2 on demand": (
        "known-defect",
        [pool("x", "g6.xlarge", **ON_DEMAND), runners("s", 1, version="0.14.2")],
    ),
    "one of two controllers": (
        "arc-versions",
        [
            *(release("gha-runner-scale-set-controller", one, {}, one) for one in ("0.15.0", "0.15.1")),
            runners("s", version="0.15.0"),
        ],
    ),
    "the same labels": ("labels", [LIVE, runners("blue", scaleSetLabels=["a"])]),
    "an operator that waits": (
        "operator",
        [POLICY, release("gpu-operator", "v26.3.0", {**OPERATOR, "daemonsets": {"updateStrategy": "OnDelete"}})],
    ),
    "the running toolkit": ("operator", [POLICY, release("gpu-operator", "v26.3.0", {"toolkit": {"version": "v1.18.1"}})]),
    "small jobs alone": ("shared", [pool("x", "g6.12xlarge"), runners("a", 1), runners("b", 2)]),
    "two types": ("types", [pool("x", "g5.2xlarge", "g6.2xlarge"), runners("s", 1)]),
    "one type of a reservation": ("types", [RESERVED, NAMING, runners("s", 8)]),
    "two pools of one weight": ("types", [pool("a", "g6.xlarge", "g5.xlarge"), pool("b", "g6.2xlarge"), runners("s", 1)]),
    "a job that the scheduler places": (
        "job-pod",
        [HOOKS, template("s", {**HOOKED, "ACTIONS_RUNNER_USE_KUBE_SCHEDULER": "true"})],
    ),
    "a runner without a shape": ("job-pod", [runners("s", containerMode=KUBERNETES, pod={"tolerations": []})]),
    "runners on empty nodes only": ("disruption", [pool("x", "g6.xlarge", "g5.xlarge"), runners("s", 1)]),
    "one runner": ("max-runners", [runners("s", maxRunners=1)]),
    "a node that is full": ("max-runners", [NODE, runners("s", 2, maxRunners=2)]),
    "a pool that grows": ("max-runners", [pool("x", "g6.12xlarge"), runners("s", 1, maxRunners=1)]),
    "a quota that holds all": ("quota", [quota(requests_cpu="8", pods="4"), runners("s", maxRunners=4)]),
    "a quota of another namespace": (
        "quota",
        [quota(pods="1"), release("gha-runner-scale-set", "0.15.1", {"githubConfigUrl": "https://github.com/z"}, "s", "other")],
    ),
    "a quota that is enough": (
        "cloud-limit",
        [pool("x", "g6.4xlarge", limits={"nvidia.com/gpu": 4}), {"Quotas": [{"QuotaCode": "L-DB2E81BA", "Value": 64.0}]}],
    ),
    "a quota of other machines": (
        "cloud-limit",
        [pool("x", "g6.4xlarge", limits={"nvidia.com/gpu": 9}), {"Quotas": [{"QuotaCode": "L-417A185B", "Value": 8.0}]}],
    ),
    "a queue of its nodes": ("queue", [NODE, FLAVOR, queue(4)]),
    "a queue with a check": (
        "queue",
        [pool("x", "g6.xlarge", labels=GIVEN, limits={"nvidia.com/gpu": 9}), FLAVOR, queue(9, admissionChecks=["a"])],
    ),
    "a group with a node": ("from-zero", [group(minSize=1, labels={"zeta/a": "b"})]),
    "labels that are tags": ("from-zero", [group(instanceType="m6i.large", labels={"zeta/a": "b"}, propagateASGTags=True)]),
    "a group of fixed size": ("accelerator", [group(minSize=3)]),
    "a group without GPUs": ("accelerator", [group(instanceType="m6i.large")]),
    "an image by alias": ("image", [pool("x", "g6.xlarge"), node_class()]),
    "an image of next year": (
        "image",
        [pool("x", "g6.xlarge"), node_class(amiSelectorTerms=[{"id": "ami-1"}]), image("2027-10-30")],
    ),
    "a pinned package": ("boot", [group(preBootstrapCommands=["apt-get install -y linux-headers-aws=6.8.0-1021"])]),
    "repair switched on": ("repair", [group("managedNodeGroups", nodeRepairConfig={"enabled": True})]),
    "repair not in the files": ("repair", [pool("x", "p5.48xlarge")]),
    "a log agent without toleration": ("daemonset", [pool("x", "g6.xlarge"), daemon("fluent-bit", tolerates=False)]),
    "a plugin by a label of Kubernetes": (
        "daemonset",
        [pool("x", "g6.xlarge"), daemon("gpu-driver", [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}])],
    ),
    "a plugin of CPU machines": ("daemonset", [pool("x", "g6.xlarge"), daemon("cpu", [{**TYPES, "values": ["m6i.large"]}])]),
    "a volume driver": (
        "daemonset",
        [pool("x", "g6.xlarge"), pool("y", "g6.12xlarge"), daemon("ebs-csi-node", **SHARES, **BOUNDED)],
    ),
    "a mount on one size": ("daemonset", [pool("y", "g6.12xlarge"), daemon("fuse", **SHARES, **BOUNDED)]),
    "EFA in one zone": ("efa", [P5, INTERFACE, EFA]),
    "no pod for EFA": ("efa", [pool("p5", "p5.48xlarge"), node_class()]),
    "a GitHub App": ("credential", [runners("s", githubConfigSecret={"github_app_id": "1"})]),
    "CPU runners beside GPU pools": ("no-pool", [pool("x", "g6.xlarge"), runners("s", pod={"tolerations": []})]),
}
"""What looks alike and is right: the rule says nothing."""


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_under_other_names(name: str, tmp_path: Path):
    case, objects = CASES[name]
    rule, _, which = case.partition(".")
    found = said(tmp_path, *objects)
    row = MESSAGES[rule][which]
    # The words before the first fact, or between the first two.
    fixed = max(re.split(r"\{.*?\}", row["text"]), key=len)
    named = [one for one in found if one.rule == rule and fixed in one.message]
    assert [one.level for one in named[:1]] == [row["level"]], "\n".join(f"{one.rule}: {one.message}" for one in found)


@pytest.mark.parametrize("name", MISSES)
def test_what_looks_alike_is_not_named(name: str, tmp_path: Path):
    rule, objects = MISSES[name]
    assert [one.message for one in said(tmp_path, *objects) if one.rule == rule] == []
