"""One resource of each kind that every rule passes; tests break one thing at a time."""

from __future__ import annotations

from typing import Any

from tests.policies.harness import changed

POD = "kubernetes:core/v1:Pod"
JOB = "kubernetes:batch/v1:Job"
CRON_JOB = "kubernetes:batch/v1:CronJob"
POD_TEMPLATE = "kubernetes:core/v1:PodTemplate"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
RELEASE = "kubernetes:helm.sh/v3:Release"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OKE_POOL = "oci:ContainerEngine/nodePool:NodePool"
KARPENTER_POOL = "kubernetes:karpenter.sh/v1:NodePool"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
EC2_INSTANCE = "aws:ec2/instance:Instance"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
OCI_INSTANCE = "oci:Core/instance:Instance"
OCI_CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
LEGACY = "areLegacyImdsEndpointsDisabled"

GPU = "nvidia.com/gpu"

GPU_POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "nodeSelector": {"gpu-ci/pool": "t4-spot"},
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    "initContainers": [{"name": "warm", "image": "example.com/warm:1", "resources": {"requests": {"cpu": "1"}}}],
    "containers": [
        {
            "name": "runner",
            "image": "example.com/runner:1",
            "env": [{"name": "CI", "value": "true"}],
            "resources": {
                "requests": {"cpu": 4, "memory": "16Gi", GPU: 1},
                "limits": {"cpu": 8, "memory": "32Gi", GPU: "1"},
            },
        }
    ],
}
UNLIMITED = changed(GPU_POD, "containers", 0, "resources", {"limits": {"memory": "1Gi"}})
CPU_POD: dict[str, Any] = {
    "nodeSelector": {"gpu-ci/pool": "system", "kubernetes.io/arch": "amd64"},
    "containers": [{"name": "listener", "image": "example.com/listener:1", "resources": {"limits": {"cpu": 1}}}],
}
LAUNCHER_POD: dict[str, Any] = {
    "serviceAccountName": "launcher",
    "nodeSelector": {"gpu-ci/pool": "system"},
    "containers": [
        {
            "name": "runner",
            "image": "example.com/launcher:1",
            "command": ["python3", "/etc/gpu-ci/launcher.py"],
            "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "launcher", "mountPath": "/etc/gpu-ci"}],
        }
    ],
    "volumes": [{"name": "launcher", "configMap": {"name": "launcher"}}],
}
"""A runner pod that boots a GPU machine elsewhere and waits for it on a CPU node."""


DEVICE_PLUGIN: dict[str, Any] = {
    "tolerations": [{"key": GPU, "operator": "Exists"}],
    "initContainers": [{"name": "nvidia-device-plugin-init"}],
    "containers": [{"name": "nvidia-device-plugin-ctr", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}],
}


def template(spec: dict[str, Any]) -> dict[str, Any]:
    """Properties of the kinds whose pod spec is at spec.template.spec."""
    return {"metadata": {"name": "gpu"}, "spec": {"template": {"metadata": {"labels": {"app": "gpu"}}, "spec": spec}}}


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    """Properties of a Pod."""
    return {"metadata": {"name": "gpu"}, "spec": spec}


def release(spec: dict[str, Any]) -> dict[str, Any]:
    """Properties of a Helm release of the scale-set chart."""
    return {
        "name": "gpu-t4",
        "chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set",
        "version": "0.14.2",
        "values": {"githubConfigUrl": "https://github.com/example", "minRunners": 0, "template": {"spec": spec}},
    }


NODE_GROUP_PROPS: dict[str, Any] = {
    "clusterName": "usw2",
    "amiType": "AL2023_x86_64_NVIDIA",
    "capacityType": "SPOT",
    "instanceTypes": ["g4dn.2xlarge", "g4dn.4xlarge"],
    "labels": {"gpu-ci/pool": "t4-spot", "gpu-ci/role": "burst", GPU: "true"},
    "launchTemplate": {"id": "lt-1", "version": "1"},
    "scalingConfig": {"minSize": 0, "maxSize": 5, "desiredSize": 0},
    "taints": [{"key": GPU, "value": "true", "effect": "NO_SCHEDULE"}],
}
SYSTEM_GROUP_PROPS: dict[str, Any] = {
    "clusterName": "usw2",
    "amiType": "AL2023_x86_64_STANDARD",
    "instanceTypes": ["m6i.large"],
    "labels": {"gpu-ci/pool": "system", "gpu-ci/role": "system"},
    "launchTemplate": {"id": "lt-2", "version": "1"},
}
RESERVED_GROUP_PROPS: dict[str, Any] = changed(
    changed(NODE_GROUP_PROPS, "capacityType", "ON_DEMAND"), "labels", "gpu-ci/capacity", "reserved"
)
OKE_POOL_PROPS: dict[str, Any] = {
    "nodeShape": "VM.GPU3.1",
    "initialNodeLabels": [{"key": "gpu-ci/pool", "value": "v100"}, {"key": "gpu-ci/role", "value": "burst"}],
    "nodeMetadata": {"user_data": "IyEvYmluL2Jhc2g=", LEGACY: "true"},
    "nodeConfigDetails": {
        "size": 1,
        "placementConfigs": [
            {"availabilityDomain": "AD-1", "preemptibleNodeConfig": {"preemptionAction": {"type": "TERMINATE"}}},
            {"availabilityDomain": "AD-2", "preemptibleNodeConfig": {"preemptionAction": {"type": "TERMINATE"}}},
        ],
    },
}
A10_POOL_PROPS: dict[str, Any] = OKE_POOL_PROPS | {
    "nodeShape": "VM.GPU.A10.1",
    "nodeConfigDetails": {"size": 0, "placementConfigs": [{"availabilityDomain": "AD-1"}]},
}
OKE_RESERVED_PROPS: dict[str, Any] = changed(
    OKE_POOL_PROPS,
    "nodeConfigDetails",
    "placementConfigs",
    [{"availabilityDomain": "AD-1", "capacityReservationId": "ocid1.capacityreservation.oc1..example"}],
)
KARPENTER_POOL_PROPS: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "limits": {GPU: 16},
        "template": {
            "metadata": {"labels": {"gpu-ci/pool": "t4", "gpu-ci/role": "burst"}},
            "spec": {
                "taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}],
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.xlarge"]},
                ],
            },
        },
    },
}
METADATA_OPTIONS: dict[str, Any] = {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
OCI_OPTIONS: dict[str, Any] = {LEGACY: True}
STANDING_PROPS: dict[str, Any] = {
    "displayName": "a10-standing",
    "instanceDetails": {
        "instanceType": "compute",
        "launchDetails": {
            "shape": "VM.GPU.A10.1",
            "createVnicDetails": {"assignPublicIp": False},
            "instanceOptions": OCI_OPTIONS,
            "metadata": {"user_data": "IyEvYmluL2Jhc2g="},
        },
    },
}

GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    (POD, pod(GPU_POD)),
    (POD, pod(CPU_POD)),
    (JOB, template(GPU_POD)),
    ("kubernetes:apps/v1:DaemonSet", template(DEVICE_PLUGIN)),
    (CRON_JOB, {"spec": {"jobTemplate": {"spec": {"template": {"spec": GPU_POD}}}}}),
    (POD_TEMPLATE, {"template": {"spec": GPU_POD}}),
    ("kubernetes:apps/v1:DeploymentPatch", template(GPU_POD)),
    ("kubernetes:core/v1:PodList", {"items": [pod(CPU_POD), pod(GPU_POD)]}),
    (RUNNER_SET, template(GPU_POD)),
    (RELEASE, release(GPU_POD)),
    (RELEASE, release(LAUNCHER_POD)),
    (NODE_GROUP, NODE_GROUP_PROPS),
    (NODE_GROUP, SYSTEM_GROUP_PROPS),
    (NODE_GROUP, RESERVED_GROUP_PROPS),
    (OKE_POOL, OKE_POOL_PROPS),
    (OKE_POOL, A10_POOL_PROPS),
    (OKE_POOL, OKE_RESERVED_PROPS),
    (OKE_POOL, {"nodeShape": "VM.Standard.E5.Flex", "nodeMetadata": {LEGACY: "true"}}),
    (KARPENTER_POOL, KARPENTER_POOL_PROPS),
    (LAUNCH_TEMPLATE, {"namePrefix": "gpu", "metadataOptions": METADATA_OPTIONS}),
    (EC2_INSTANCE, {"instanceType": "g5.xlarge", "metadataOptions": METADATA_OPTIONS}),
    (NODE_CLASS, {"spec": {"role": "node", "metadataOptions": METADATA_OPTIONS}}),
    (NODE_CLASS, {"spec": {"role": "node"}}),
    (OCI_INSTANCE, {"shape": "VM.GPU.A10.1", "instanceOptions": OCI_OPTIONS}),
    (OCI_CONFIGURATION, STANDING_PROPS),
    (OCI_CONFIGURATION, {"instanceDetails": {"options": [{"launchDetails": {"instanceOptions": OCI_OPTIONS}}]}}),
)

BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    (POD, pod(UNLIMITED)),
    (POD, pod(changed(UNLIMITED, "tolerations", []) | {"runtimeClassName": "nvidia"})),
    (POD, pod(changed(GPU_POD, "containers", 0, "resources", "limits", GPU, 0))),
    (JOB, template(changed(GPU_POD, "containers", 0, "resources", "requests", GPU, 2))),
    (CRON_JOB, {"spec": {"jobTemplate": {"spec": {"template": {"spec": UNLIMITED}}}}}),
    ("kubernetes:core/v1:PodList", {"items": [pod(CPU_POD), pod(UNLIMITED)]}),
    (RUNNER_SET, template(UNLIMITED)),
    (RELEASE, release(UNLIMITED) | {"valueYamlFiles": ["a", "b"]}),
    (RELEASE, release(changed(LAUNCHER_POD, "nodeSelector", "gpu-ci/pool", "a10"))),
    (NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", [])),
    (NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "effect", "PREFER_NO_SCHEDULE")),
    (NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "effect", "NoSchedule")),
    (NODE_GROUP, changed(changed(NODE_GROUP_PROPS, "capacityType", "ON_DEMAND"), "launchTemplate", {})),
    (NODE_GROUP, {"instanceTypes": ["p9.48xlarge"]}),
    (NODE_GROUP, changed(RESERVED_GROUP_PROPS, "labels", "gpu-ci/capacity", "on-demand")),
    (OKE_POOL, changed(OKE_POOL_PROPS, "nodeConfigDetails", "placementConfigs", 1, "preemptibleNodeConfig", {})),
    (OKE_POOL, changed(OKE_RESERVED_PROPS, "nodeConfigDetails", "placementConfigs", 0, "capacityReservationId", "")),
    (OKE_POOL, changed(A10_POOL_PROPS, "nodeMetadata", LEGACY, "false")),
    (KARPENTER_POOL, changed(KARPENTER_POOL_PROPS, "spec", "template", "spec", "taints", 0, "effect", "NO_SCHEDULE")),
    (
        KARPENTER_POOL,
        changed(KARPENTER_POOL_PROPS, "spec", "template", "spec", "requirements", 1, "values", ["spot", "on-demand"]),
    ),
    (
        KARPENTER_POOL,
        changed(KARPENTER_POOL_PROPS, "spec", "template", "spec", "requirements", 1, "values", ["on-demand"]),
    ),
    (LAUNCH_TEMPLATE, {"namePrefix": "gpu"}),
    (LAUNCH_TEMPLATE, {"metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2}}),
    (EC2_INSTANCE, {"metadataOptions": {"httpTokens": "required"}}),
    (NODE_CLASS, {"spec": {"metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2}}}),
    (OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}),
    (OCI_CONFIGURATION, {"instanceDetails": {"options": [{"launchDetails": {}}], "launchDetails": {}}}),
    (OCI_CONFIGURATION, changed(STANDING_PROPS, "instanceDetails", "launchDetails", "instanceOptions", LEGACY, False)),
)
