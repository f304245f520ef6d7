"""Arguments for each packaged component, with the names that they have on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

GITOPS = {"repository": "https://git.example.com/fleet.git", "path": "clusters/own", "revision": "main"}
TOLERATION = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoExecute"}
SHARED = {"sharing": {"strategy": "time-slicing", "replicas": 4.0, "rename": True, "allowSeveral": False}, "cdi": False}

SPANS = {"cpu": {"request": "4", "limit": "4"}, "memory": {"request": "16Gi", "limit": "16Gi"}}
RUNNERS = {"githubUrl": "https://github.com/example", "maxRunners": 4.0, **SPANS}
POD_FIELDS: Mapping[str, Any] = {
    "env": {"HF_HUB_OFFLINE": "1"},
    "secretEnv": {"WANDB_API_KEY": {"secret": "wandb", "key": "api-key"}},
    "pullSecrets": ["ghcr"],
    "serviceAccount": "jobs",
    "template": {
        "containers": [
            {
                "name": "cache",
                "image": "registry.example.com/cache:1",
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
            }
        ]
    },
    "proxy": {"url": "http://proxy.example.com:3128", "secret": "proxy", "noProxy": ["example.net"]},
    "caBundle": {"configMap": "ca", "key": "all.crt"},
    "volumes": {"models": {"path": "/models", "claim": "models", "readOnly": True}},
}
"""What a class adds to its pods: each setting once."""
APP = {"appId": "123456", "installationId": "456789"}
EKS = {
    "region": "us-west-2",
    "zones": ["us-west-2a", "us-west-2b"],
    "kubernetesVersion": "1.34",
    "endpoint": {"publicCidrs": ["203.0.113.0/24"]},
}
OKE = {
    "region": "us-sanjose-1",
    "zones": ["abcd:US-SANJOSE-1-AD-1"],
    "compartmentId": "ocid1.compartment.oc1..exampleci",
    "kubernetesVersion": "1.34",
    "systemImageId": "ocid1.image.oc1.sjc.examplesystem",
    "endpoint": {"publicCidrs": ["203.0.113.0/24"]},
}
NODES = {
    "clusterName": "theirs",
    "clusterLabel": "gpu",  # without it, the name must be known
    "kubernetesVersion": "1.34",
    "nodeRoleArn": "arn:aws:iam::123456789012:role/nodes",
    "subnetIds": {"us-west-2a": "subnet-0123456789abcdef0"},
    "instanceTypes": ["g6.2xlarge"],
    "maxNodes": 4.0,
}
DOMAIN = "abcd:US-SANJOSE-1-AD-1"
MACHINES = {
    "region": "us-sanjose-1",
    "compartmentId": "ocid1.compartment.oc1..examplemachines",
    "shapes": ["VM.GPU.A10.1"],
    "capacityType": "on-demand",
    "role": "burst",
    "githubUrl": "https://github.com/example",
}
LAUNCHED = {
    **MACHINES,
    "clusterId": "ocid1.cluster.oc1.sjc.example",
    "subnetId": "ocid1.subnet.oc1.sjc.example",
    "securityGroupId": "ocid1.networksecuritygroup.oc1.sjc.example",
    "image": {"id": "ocid1.image.oc1.sjc.example", "driver": "580.159.03"},
}
PER_JOB = {
    **LAUNCHED,
    "kind": "vm-per-job",
    "places": [{"region": "us-sanjose-1", "availabilityDomains": [DOMAIN]}],
    "maxRunners": 4.0,
}
STANDING = {**LAUNCHED, "kind": "vm", "count": 2.0, "availabilityDomains": [DOMAIN]}
SCHEDULES = {
    "timeZone": "Europe/Berlin",
    "holidays": ["2026-12-25"],
    "windows": {"work": {"days": ["mon"], "start": "09:00", "end": "18:00", "nodes": 1.0}},
}
BUDGET = {"monthlyUsd": 500.0, "emails": ["ops@gpu-ci.dev"]}

ARGUMENTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "ArcRunnerSet": [
        RUNNERS,
        {
            **RUNNERS,
            "githubApp": APP,
            "githubPrivateKey": "the-key-of-the-app",
            "githubSecret": "own-app",
            "runnerScaleSetName": "gpu-l4",
            "labels": ["l4"],
            "runnerGroup": "GPUs",
            "minRunners": 1.0,
            "perNode": 2.0,
            "declareMinRunners": False,
            "gpus": 2.0,
            "gpuResource": "nvidia.com/gpu.shared",
            "shm": "4Gi",
            "mountsShm": False,
            "scratch": "40Gi",
            "image": "ghcr.io/actions/actions-runner:2.330.0",
            "nodeSelector": {"node.kubernetes.io/instance-type": "g6.xlarge"},
            "tolerations": [TOLERATION],
            "runtimeClass": "nvidia",
            "usdPerHour": "0.188-0.376",
            **POD_FIELDS,
            "containers": "job",
            "services": {"most": 1.0, "cpu": "500m", "memory": "1Gi"},
            "podSecurity": "restricted",
            "runnerNodeSelector": {"gpu-ci/pool": "cpu"},
            "runnerTolerations": [TOLERATION],
            "prepareTimeout": "20m",
            "jobDeadline": "7h",
            "listenerNodeSelector": {"kubernetes.io/os": "linux"},
            "priorityClass": "ci",
            "namespace": "gpu-runners",
            "createNamespace": False,
            "isolate": True,
            "closedNetworks": ["10.0.0.0/8"],
            "openNetworks": ["10.1.2.0/24"],
            "builders": ["builds"],
            "controllerNamespace": "arc",
            "controllerServiceAccount": "arc-gha-rs-controller",
        },
        {
            **RUNNERS,
            "nodeSelectors": [{"gpu-ci/pool": "t4-spot"}, {"gpu-ci/pool": "t4-ondemand"}],
            "keepFailed": {"time": "15m", "group": "gpu-ci-debug"},
            "fillNodes": True,
            "manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"a_key": "value"}}],
            "installChart": True,
            "gitops": GITOPS,
        },
    ],
    "DevicePluginStack": [
        {},
        {"tolerations": [TOLERATION], "access": [SHARED], "runtimeHandler": "nvidia", "nodeSelector": {"gpu": "t4"}},
        {"access": [{"sharing": {"strategy": "mig", "profile": "1g.10gb", "naming": "mixed"}}], "gitops": GITOPS},
    ],
    "EksGpuCluster": [
        EKS,
        {
            **EKS,
            "clusterName": "mine",
            "controlPlaneZones": ["us-west-2a", "us-west-2b"],
            "vpcCidr": "10.8.0.0/16",
            "natGateways": "per-zone",
            "admins": ["arn:aws:iam::123456789012:role/admins"],
            "viewers": ["arn:aws:iam::123456789012:role/viewers"],
            "upgradePolicy": "STANDARD",
            "logTypes": ["api", "audit", "authenticator"],
            "logRetentionDays": 365.0,
            "system": {"instanceTypes": ["m6i.large"], "nodes": {"min": 2.0, "max": 4.0}, "disk": "60Gi"},
            "installAutoscaler": False,
            "autoscaleByPriority": True,
            "budget": BUDGET,
            "quotas": {"L-DB2E81BA": 16.0},
            "tags": {"Team-Name": "ml"},
            "stackTag": "blue",
            "protect": True,
        },
        {
            **EKS,
            "vpcId": "vpc-0123456789abcdef0",
            "privateSubnetIds": {"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "subnet-0123456789abcdef1"},
        },
    ],
    "GpuNodeGroup": [
        NODES,
        {
            **NODES,
            "subnetIds": {"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "subnet-0123456789abcdef1"},
            "minNodes": 1.0,
            "capacityType": "spot",
            "role": "burst",
            "disk": "300Gi",
            "diskPerformance": {"throughput": 400.0},
            "idleDelay": "15m",
            "labels": {"team": "ml"},
            "cdi": True,
            "sharing": {"strategy": "time-slicing", "replicas": 4.0},
            "nodeConfig": {"kubelet": {"config": {"podPidsLimit": 4096.0}}},
            "poolName": "l4",
            "flavor": "l4-any",
            "stackTag": "blue",
            "tags": {"Team-Name": "ml"},
        },
        {
            **NODES,
            "instanceTypes": ["p4d.24xlarge"],
            "capacityType": "reserved",
            "reservation": {
                "id": "cr-0123456789abcdef0",
                "zone": "us-west-2a",
                "count": 4.0,
                "startDate": "2027-03-13",
                "endDate": "2027-03-20",
                "owner": "210987654321",
            },
            "efaInterfaces": 4.0,
            "placementGroup": {"name": "close"},
            "securityGroupId": "sg-0123456789abcdef0",
        },
        {
            **NODES,
            "amiId": "ami-0123456789abcdef0",
            "clusterEndpoint": "https://api.example.com",
            "clusterCertificateAuthority": "Y2VydGlmaWNhdGU=",
            "serviceCidr": "172.20.0.0/16",
        },
        {**NODES, "startupGate": True, "repairWait": "10m", "maxShare": 0.5},
        {**NODES, "warm": {"min": 0.0, "maxPrepared": 1.0, "state": "running", "reuseOnScaleIn": True}},
        {**NODES, "schedules": SCHEDULES},
    ],
    "GpuOperator": [
        {},
        {
            "installDriver": True,
            "installToolkit": True,
            "devicePlugin": True,
            "driver": {"version": "580.65.06", "repository": "registry.example.com/nvidia", "pullSecrets": ["registry"]},
            "containerd": {"config": "/etc/containerd/config.toml", "socket": "/run/containerd/containerd.sock"},
            "serviceMonitor": True,
            "counters": True,
            "dcgmEngine": "localhost:5555",
            "cdi": True,
            "migStrategy": "single",
            "tolerations": [TOLERATION],
            "access": [SHARED],
            "controllerNodeSelector": {"gpu-ci/system": "true"},
        },
        {"driverRoot": "/run/nvidia/driver", "gitops": GITOPS},
    ],
    "OciGpuRunner": [
        PER_JOB,
        {**PER_JOB, "minRunners": 1.0, "lifetime": "12h"},
        {
            **STANDING,
            "metricsUrl": "http://10.0.255.226:30000/api/v1/write",
            "metricsSecurityGroupId": "ocid1.networksecuritygroup.oc1.us-sanjose-1.examplepush",
            "networkCompartmentIds": ["ocid1.compartment.oc1..examplenetwork"],
            "homeRegion": "us-ashburn-1",
            "machineSetName": "own-set",
            "disk": "500Gi",
            "toolkit": "1.18.1-1",
            "nvkind": False,
            "launcherImage": "ghcr.io/example/launcher:1.0",
            "githubApp": APP,
            "githubPrivateKey": "the-key-of-the-app",
            "githubSecret": "own-app",
            "runnerScaleSetName": "gpu-a10",
            "labels": ["a10"],
            "runnerGroup": "GPUs",
            "listenerNodeSelector": {"kubernetes.io/os": "linux"},
            "launcherNodeSelector": {"kubernetes.io/os": "linux"},
            "priorityClass": "ci",
            "namespace": "gpu-runners",
            "createNamespace": False,
            "isolate": True,
            "closedNetworks": ["10.0.0.0/8"],
            "controllerNamespace": "arc",
            "controllerServiceAccount": "arc-gha-rs-controller",
            "tags": {"team": "ml"},
            "stackTag": "blue",
        },
        {
            **MACHINES,
            "kind": "vm-per-job",
            "launcher": "cncf",
            "places": [{"region": "us-sanjose-1", "availabilityDomains": [DOMAIN], "subnet": "ocid1.subnet.oc1.sjc.example"}],
            "maxRunners": 4.0,
            "manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"a_key": "value"}}],
            "installChart": True,
            "gitops": GITOPS,
        },
    ],
    "OkeGpuCluster": [
        OKE,
        {
            **OKE,
            "clusterName": "mine",
            "vcnCidr": "10.8.0.0/16",
            "system": {"ocpus": 2.0, "memory": "16Gi", "nodes": 2.0, "disk": "100Gi"},
            "gpuPlugin": True,
            "gpuPluginVersion": "v0.18.1",
            "gpuPluginTolerations": [TOLERATION],
            "machineSecurityGroup": True,
            "tenancyId": "ocid1.tenancy.oc1..example",
            "homeRegion": "us-sanjose-1",
            "budget": BUDGET,
            "budgetCompartmentId": "ocid1.compartment.oc1..exampleall",
            "quotas": ["set compute-core quota standard-e5-core-count to 8 in compartment ci"],
            "tags": {"team": "ml"},
            "stackTag": "blue",
            "protect": True,
        },
        {
            **OKE,
            "vcnId": "ocid1.vcn.oc1.sjc.example",
            "endpointSubnetId": "ocid1.subnet.oc1.sjc.exampleendpoint",
            "nodeSubnetId": "ocid1.subnet.oc1.sjc.examplenodes",
        },
    ],
}
"""Each component's arguments: first the smallest set that works. Together they have every argument."""

WRONG: Mapping[str, Sequence[tuple[Mapping[str, Any], str, str]]] = {
    "ArcRunnerSet": [
        ({"maxRunners": "many"}, "maxRunners", "whole number"),
        ({"maxRunners": 2.5}, "maxRunners", "whole number"),
        ({"cpu": {"request": "4"}}, "cpu.limit", "add it"),
        ({"githubUrl": "git@github.com:example"}, "githubUrl", "https://"),
        ({"closedNetworks": ["10.0.0.0/33"]}, "closedNetworks[0]", "CIDR"),
        ({"nodeSelector": {"gpu": "t4"}, "nodeSelectors": [{"gpu": "l4"}]}, "nodeSelectors", "remove one of the two"),
        ({"nodeSelectors": [{}]}, "nodeSelectors[0]", "at least 1"),
        ({"githubSecret": "own", "secretEnv": {"A": {"secret": "own", "key": "a"}}}, "githubSecret", "private key"),
        (
            {"githubSecret": "own", "template": {"volumes": [{"name": "a", "secret": {"secretName": "own"}}]}},
            "githubSecret",
            "private",
        ),
        ({"env": {"A": "ghp_0123456789abcdefghij"}}, "env.A", "secretEnv"),
        ({"containers": "docker"}, "containers", "job"),
        ({"services": {"most": 1}}, "services", "containers: job"),
        ({"keepFailed": {"time": "15m", "group": "system:masters"}}, "keepFailed.group", "reserves"),
    ],
    "DevicePluginStack": [
        (
            {"access": [{"sharing": {"strategy": "time-slicing", "replicas": "many"}}]},
            "access[0].sharing.replicas",
            "whole number",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, "tolerations[0].key", "add it"),
        ({"tolerations": {"key": "gpu"}}, "tolerations", "must be a list"),
        ({"runtime": "nvidia"}, "runtime", "unknown argument"),
        ({"nodeSelector": {}}, "nodeSelector", "at least 1"),
    ],
    "EksGpuCluster": [
        ({"zones": ["us-west-2a"]}, "zones", "two"),
        ({"quotas": {"L-DB2E81BA": "many"}}, "quotas.L-DB2E81BA", "whole number"),
        ({"system": {"nodes": {"min": 2.0}}}, "system.nodes.max", "add it"),
    ],
    "GpuNodeGroup": [
        ({"maxNodes": 2.5}, "maxNodes", "whole number"),
        ({"subnetIds": {"us-west-2a": "10.0.0.0/24"}}, "subnetIds.us-west-2a", "subnet"),
        ({"subnetIds": {}}, "subnetIds", "add a subnet"),
        ({"nodeRoleArn": "nodes"}, "nodeRoleArn", "arn:aws:iam::"),
        ({"capacityType": "cheap"}, "capacityType", "spot"),
        ({"nodeConfig": {"kubelet": {"config": {"maxPods": 20.0}}}}, "nodeConfig.kubelet.config.maxPods", "remove it"),
        (
            {"amiId": "ami-0123456789abcdef0", "clusterEndpoint": "https://api.example.com"},
            "clusterCertificateAuthority",
            "add it",
        ),
        ({"serviceCidr": "172.20.0.0/16"}, "serviceCidr", "add amiId"),
        ({"amiId": "gpu"}, "amiId", "ami-"),
        ({"repairWait": "90s"}, "repairWait", "whole minutes"),
        ({"warm": {"maxPrepared": 1.0, "state": "hibernated"}}, "warm.state", "stopped or running"),
    ],
    "OciGpuRunner": [
        ({"kind": "container"}, "kind", "vm-per-job"),
        ({"count": 2.0}, "count", "only a set of kind vm"),
        ({"subnetId": "ocid1.subnet.oc1.iad.example"}, "subnetId", "us-sanjose-1"),
        ({"metricsUrl": "http://10.0.255.226:30000/api/v1/write"}, "metricsSecurityGroupId", "both or neither"),
        ({"metricsUrl": "10.0.255.226:30000"}, "metricsUrl", "not the URL"),
        ({"places": [{"region": "us-sanjose-1"}]}, "places[0].availabilityDomains", "add it"),
        ({"githubApp": APP}, "githubPrivateKey", "belong together"),
    ],
    "OkeGpuCluster": [
        ({"compartmentId": "ci"}, "compartmentId", "OCID"),
        ({"budget": {"monthlyUsd": 1.5, "emails": []}}, "budget.monthlyUsd", "whole number"),
    ],
    "GpuOperator": [
        ({"migStrategy": "all"}, "migStrategy", "none"),
        ({"driver": "580"}, "driver", "not a mapping"),
        ({"installDriver": "yes"}, "installDriver", "true or false"),
        ({"gitops": {"path": "own"}}, "gitops.repository", "add it"),
    ],
}
"""Arguments that a component refuses, the path in its error, and words of the rule."""
