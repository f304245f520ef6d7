"""Pools that the rules of taints, spot and scale pass; tests break one thing at a time."""

from __future__ import annotations

from typing import Any

from tests.policies.cases import Member
from tests.policies.harness import changed
from tests.policies.suite import SCALE_SET

GPU = "nvidia.com/gpu"
EKS = "aws:eks/nodeGroup:NodeGroup"
OKE = "oci:ContainerEngine/nodePool:NodePool"
KARPENTER = "kubernetes:karpenter.sh/v1:NodePool"
ASG = "aws:autoscaling/group:Group"
FLEET = "aws:ec2/fleet:Fleet"
TALOS = "gpu-ci:index:TalosGpuNode"
OKE_CLUSTER = "oci:ContainerEngine/cluster:Cluster"
RELEASE = "kubernetes:helm.sh/v3:Release"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
RUNNER_SET_PATCH = f"{RUNNER_SET}Patch"

TAINT = {"key": GPU, "value": "true", "effect": "NO_SCHEDULE"}
K8S_TAINT = TAINT | {"effect": "NoSchedule"}
PREEMPTIBLE = {"preemptionAction": {"type": "TERMINATE"}}
MOST = "gpu-ci/max-nodes"

LEAVING = {"key": "gpu-ci/leaving", "value": "true", "effect": "NO_SCHEDULE"}
"""The taint of a group of an earlier generation."""
SPOT: dict[str, Any] = {
    "clusterName": "usw2",
    "amiType": "AL2023_x86_64_NVIDIA",
    "capacityType": "SPOT",
    "instanceTypes": ["g4dn.xlarge", "g4dn.2xlarge"],
    "labels": {"gpu-ci/pool": "t4", "gpu-ci/role": "burst"},
    "scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 0},
    "subnetIds": ["subnet-a", "subnet-b"],
    "taints": [TAINT],
}
"""A group of T4 on spot."""
RELEASES: dict[str, Any] = SPOT | {
    "capacityType": "ON_DEMAND",
    "labels": {"gpu-ci/pool": "t4-release", "gpu-ci/role": "release"},
    "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
}
"""The same GPU on demand."""
RESERVED: dict[str, Any] = RELEASES | {
    "labels": {"gpu-ci/pool": "t4-reserved", "gpu-ci/role": "release", "gpu-ci/capacity": "reserved"},
    "scalingConfig": {"minSize": 2, "maxSize": 2, "desiredSize": 2},
}
SYSTEM: dict[str, Any] = {
    "clusterName": "usw2",
    "instanceTypes": ["m6i.large"],
    "labels": {"gpu-ci/pool": "system", "gpu-ci/role": "system"},
    "scalingConfig": {"minSize": 2, "maxSize": 4, "desiredSize": 2},
}
V100: dict[str, Any] = {
    "clusterId": "ocid1.cluster.oc1..example",
    "nodeShape": "VM.GPU3.1",
    "freeformTags": {MOST: "4"},
    "initialNodeLabels": [{"key": "gpu-ci/pool", "value": "v100"}, {"key": "gpu-ci/role", "value": "burst"}],
    "nodeConfigDetails": {
        "size": 0,
        "placementConfigs": [
            {"availabilityDomain": "AD-1", "preemptibleNodeConfig": PREEMPTIBLE},
            {"availabilityDomain": "AD-2", "preemptibleNodeConfig": PREEMPTIBLE},
        ],
    },
}
"""An OKE pool of V100, preemptible."""
V100_RELEASES: dict[str, Any] = V100 | {
    "freeformTags": {MOST: "1"},
    "initialNodeLabels": [{"key": "gpu-ci/pool", "value": "v100-release"}, {"key": "gpu-ci/role", "value": "release"}],
    "nodeConfigDetails": {"size": 0, "placementConfigs": [{"availabilityDomain": "AD-1"}]},
}
OKE_SYSTEM: dict[str, Any] = {
    "clusterId": "ocid1.cluster.oc1..example",
    "nodeShape": "VM.Standard.E5.Flex",
    "initialNodeLabels": [{"key": "gpu-ci/pool", "value": "system"}],
    "nodeConfigDetails": {"size": 2, "placementConfigs": [{"availabilityDomain": "AD-1"}]},
}
HOST: dict[str, Any] = {
    "clusterName": "home",
    "hostname": "gpu-worker-00",
    "address": "192.0.2.20",
    "instanceType": "rig",
    "gpu": "RTX 3090",
    "gpus": 2.0,
    "nodeLabels": {"gpu-ci/pool": "gpu", "gpu-ci/role": "burst"},
    "nodeTaints": {GPU: "true:NoSchedule"},
}
"""A Talos machine with two RTX 3090."""
CAPACITY = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}
TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge", "g5.2xlarge"]}
NODE_POOL: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {
        "disruption": {"consolidateAfter": "5m"},
        "limits": {GPU: 4},
        "template": {
            "metadata": {"labels": {"gpu-ci/pool": "a10g", "gpu-ci/role": "burst"}},
            "spec": {"taints": [K8S_TAINT], "requirements": [CAPACITY, TYPES]},
        },
    },
}
"""A Karpenter NodePool of A10G, on spot while there is some."""
REQUIREMENTS = ("spec", "template", "spec", "requirements")
GROUP: dict[str, Any] = {
    "minSize": 0,
    "maxSize": 4,
    "desiredCapacity": 0,
    "vpcZoneIdentifiers": ["subnet-a", "subnet-b"],
    "mixedInstancesPolicy": {
        "instancesDistribution": {"onDemandPercentageAboveBaseCapacity": 0},
        "launchTemplate": {"overrides": [{"instanceType": "g5.xlarge"}, {"instanceType": "g5.2xlarge"}]},
    },
}
"""An Auto Scaling group of A10G on spot."""
OVERRIDES = ("mixedInstancesPolicy", "launchTemplate", "overrides")

RUNNER: dict[str, Any] = {
    "nodeSelector": {"gpu-ci/pool": "t4"},
    "containers": [{"name": "runner", "resources": {"limits": {GPU: 1}}}],
}
"""A runner pod that takes a GPU."""
SHAPES = ("values", "template", "metadata", "annotations", "gpu-ci/machine-shapes")


def scale_set(spec: dict[str, Any], annotations: dict[str, str] | None = None, **values: Any) -> dict[str, Any]:
    """A release of the scale-set chart."""
    template = {"spec": spec} | ({"metadata": {"annotations": annotations}} if annotations else {})
    return {"chart": SCALE_SET, "version": "0.14.2", "values": {"minRunners": 0, "maxRunners": 4, "template": template} | values}


LAUNCHER = scale_set(
    {"nodeSelector": {"gpu-ci/pool": "system"}, "containers": [{"name": "runner"}]},
    {"gpu-ci/machine-shapes": "VM.GPU.A10.1", "gpu-ci/machine-capacity": "on-demand"},
)
"""Runners that boot an OCI machine for each job."""


def runner_set(spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """ARC's custom resource."""
    return {"spec": {"minRunners": 0, "maxRunners": 4, "template": {"spec": spec}} | fields}


def oke_cluster(name: str = "iad") -> Member:
    """An OKE cluster, on which pools depend."""
    return Member(OKE_CLUSTER, name, {"name": f"gpu-ci-{name}"})


def oke(name: str, props: dict[str, Any], cluster: str = "iad") -> Member:
    """An OKE pool of a cluster of the stack."""
    return Member(OKE, name, props, depends_on=(cluster,))


def karpenter(name: str, props: dict[str, Any], cluster: str = "usw2") -> Member:
    """A Karpenter pool inside a cluster."""
    return Member(KARPENTER, name, props, provider={"clusterIdentifier": cluster})


def with_values(index: int, *values: str) -> dict[str, Any]:
    """The Karpenter pool with other values of a requirement."""
    found: dict[str, Any] = changed(NODE_POOL, *REQUIREMENTS, index, "values", list(values))
    return found
