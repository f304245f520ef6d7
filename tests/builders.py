"""Valid settings as plain data, and a reader of stack files for tests that need no loader."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from fleet.loading.config import load
from fleet.providers import fleet as settings
from fleet.settings.github import PRIVATE_KEY
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from tests import yaml12

ROOT = Path(settings.__file__).parents[2]
GUARD = {"pulumi:disable-default-providers": ["*"]}
"""What every stack file has besides the project's own keys."""


def pool(**changes: Any) -> dict[str, Any]:
    """A pool of g4dn.2xlarge; `changes` replace keys."""
    return {"instanceTypes": ["g4dn.2xlarge"], "capacity": "on-demand", "role": "burst", "nodes": {"max": 2}} | changes


def runner(**changes: Any) -> dict[str, Any]:
    """A runner of one GPU, 4 CPU and 16Gi in the pool t4, or in `pools`; `changes` replace keys."""
    size = {"cpu": {"request": 4, "limit": 4}, "memory": {"request": "16Gi", "limit": "16Gi"}}
    return ({} if "pools" in changes else {"pool": "t4"}) | size | {"scale": {"max": 2}} | changes


NODE_CONFIG: dict[str, Any] = {
    "kubelet": {
        "config": {
            "podPidsLimit": 4096,
            "cpuManagerPolicy": "static",
            "topologyManagerPolicy": "best-effort",
            "topologyManagerScope": "pod",
            "serializeImagePulls": False,
            "maxParallelImagePulls": 8,
            "registryPullQPS": 0,
            "registryBurst": 50,
            "imageGCHighThresholdPercent": 90,
            "imageGCLowThresholdPercent": 85,
            "containerLogMaxSize": "50Mi",
            "containerLogMaxFiles": 3,
            "shutdownGracePeriod": "5m",
            "shutdownGracePeriodCriticalPods": "30s",
        }
    },
    "containerd": {
        "config": '[plugins."io.containerd.cri.v1.images"]\nmax_concurrent_downloads = 10\n',
        "baseRuntimeSpec": {"process": {"rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}]}},
    },
    "instance": {"localStorage": {"strategy": "RAID0", "mountPath": "/mnt/disks/", "disabledMounts": ["PodLogs"]}},
    "featureGates": {"FastImagePull": True},
}
"""Every setting that a pool may give to nodeadm."""


def cluster(**changes: Any) -> dict[str, Any]:
    """An EKS cluster in us-west-2 with the pool t4 and the runner set gpu-t4; `changes` replace keys."""
    return {
        "provider": "eks",
        "region": "us-west-2",
        "zones": ["us-west-2a", "us-west-2b"],
        "kubernetesVersion": "1.34",
        "endpoint": {"publicCidrs": ["203.0.113.0/24"]},
        "pools": {"t4": pool()},
        "runners": {"gpu-t4": runner()},
    } | changes


def build_caches(**changes: Any) -> dict[str, Any]:
    """The build cache example-ccache of the repository example/app; `changes` replace keys of the bucket."""
    bucket = {"repositories": ["example/app"], "writeWorkflows": [".github/workflows/build.yml"], "size": "200Gi"} | changes
    return {"account": "111122223333", "oidcProvider": "existing", "buckets": {"example-ccache": bucket}}


def existing_eks(**changes: Any) -> dict[str, Any]:
    """The EKS cluster platform, which exists already, with the pool t4 and the runner set gpu-t4.

    `changes` replace keys, of `existing` or of the cluster.
    """
    existing = {
        "name": "platform",
        "nodeRoleArn": "arn:aws:iam::111122223333:role/platform-nodes",
        "subnets": {"us-west-2a": "subnet-0aaaaaaaaaaaaaaa1", "us-west-2b": "subnet-0bbbbbbbbbbbbbbb2"},
        "installed": [],
    }
    facts = {key: changes.pop(key) for key in (*existing, "controller", "systemSelector") if key in changes}
    kept = {key: value for key, value in cluster().items() if key not in ("zones", "endpoint")}
    return kept | {"existing": existing | facts} | changes


def existing_context(*, installed: Sequence[str] = ("device-plugin", "metrics-server"), **changes: Any) -> dict[str, Any]:
    """The cluster of context admin@lab with two described nodes in the pool t4; `changes` replace keys of the pool."""
    described = {
        "instanceTypes": ["g4dn.2xlarge"],
        "image": "al2023-nvidia",
        "role": "burst",
        "nodes": {"max": 2},
        "selector": {"nvidia.com/gpu.product": "Tesla-T4"},
        "taints": [{"key": "nvidia.com/gpu"}],
    }
    return {
        "provider": "kubernetes",
        "existing": {"context": "admin@lab", "installed": list(installed)},
        "enablement": "device-plugin",
        "pools": {"t4": described | changes},
        "runners": {"gpu-t4": runner()},
    }


SAN_JOSE = "abcd:US-SANJOSE-1-AD-1"
ASHBURN = "abcd:US-ASHBURN-AD-2"
HERE, THERE = "us-sanjose-1", "us-ashburn-1"
"""The one availability domain of us-sanjose-1, with an example of a tenancy's prefix."""


def oke_pool(**changes: Any) -> dict[str, Any]:
    """A pool of VM.GPU.A10.1; `changes` replace keys."""
    return pool(instanceTypes=["VM.GPU.A10.1"]) | changes


ACCEPTED = {"acceptUnenforcedNetwork": "only our own code runs in these jobs"}
"""The reason that a runner set of pods must give on OKE."""


def oke_runner(**changes: Any) -> dict[str, Any]:
    """The same runner in the pool a10 of an OKE cluster; `changes` replace keys."""
    return runner(**(({} if "pools" in changes else {"pool": "a10"}) | ACCEPTED | changes))


def vm(**changes: Any) -> dict[str, Any]:
    """One standing machine of VM.GPU.A10.1; `changes` replace keys."""
    return {
        "kind": "vm",
        "count": 1,
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "availabilityDomains": [SAN_JOSE],
        "image": {"id": "ocid1.image.oc1..examplevm", "driver": "580.159.03"},
    } | changes


def vm_per_job(**changes: Any) -> dict[str, Any]:
    """Up to two machines of VM.GPU.A10.1, one per job; `changes` replace keys."""
    return {
        "kind": "vm-per-job",
        "shapes": ["VM.GPU.A10.1"],
        "capacity": "on-demand",
        "role": "burst",
        "image": {"id": "ocid1.image.oc1..examplevm", "driver": "580.159.03"},
        "places": [{"region": "us-sanjose-1", "availabilityDomains": [SAN_JOSE]}],
        "scale": {"max": 2},
    } | changes


def place(region: str = HERE, *domains: str) -> dict[str, Any]:
    """A place of machines: the cluster's own region, or another with its own network and image."""
    if region == HERE:
        return {"region": HERE, "availabilityDomains": list(domains) or [SAN_JOSE]}
    ids = {"subnet": "subnet", "securityGroup": "networksecuritygroup", "image": "image"}
    own = {key: f"ocid1.{kind}.oc1.iad.example" for key, kind in ids.items()}
    return {"region": region, "availabilityDomains": list(domains) or [ASHBURN]} | own


def oke_cluster(**changes: Any) -> dict[str, Any]:
    """An OKE cluster in us-sanjose-1 with the pool a10 and the runner set oci-a10; `changes` replace keys."""
    return {
        "provider": "oke",
        "region": "us-sanjose-1",
        "zones": [SAN_JOSE],
        "compartment": "ocid1.compartment.oc1..example",
        "kubernetesVersion": "1.34",
        "endpoint": {"publicCidrs": ["203.0.113.0/24"]},
        "nodeImages": {
            "system": {"id": "ocid1.image.oc1..examplesystem"},
            "oke-gpu": {"id": "ocid1.image.oc1..examplegpu", "driver": "580.159.03"},
            "ubuntu": {"id": "ocid1.image.oc1..exampleubuntu"},
        },
        "pools": {"a10": oke_pool()},
        "runners": {"oci-a10": oke_runner()},
    } | changes


def gitops(**changes: Any) -> dict[str, Any]:
    """A Git repository that ArgoCD reads; `changes` replace keys."""
    return {"repository": "https://github.com/example/homelab", "path": "clusters/home"} | changes


SEALED = f"AgB{'x' * 709}"
"""At least as long as the output of kubeseal."""


def host(number: int) -> dict[str, Any]:
    """One of your own machines, at an address that is reserved for documentation."""
    return {"address": f"192.0.2.{number}"}


def own_machine(**changes: Any) -> dict[str, Any]:
    """A machine of `machines`: 48 threads and an RTX 3090; `changes` replace keys."""
    return {"gpu": "RTX 3090", "cpus": 48, "memory": "128Gi", "disk": "1862Gi"} | changes


def talos_pool(**changes: Any) -> dict[str, Any]:
    """A pool of the one machine gpu-0, which has two RTX 3090; `changes` replace keys."""
    return {"instanceTypes": ["rig"], "role": "burst", "nodes": {"hosts": {"gpu-0": host(20)}}} | changes


def talos_cluster(**changes: Any) -> dict[str, Any]:
    """A Talos cluster of one control-plane host, with the pool gpu and the runner set gpu-3090; `changes` replace keys."""
    return {
        "provider": "talos",
        "kubernetesVersion": "1.35",
        "endpoint": "https://192.0.2.10:6443",
        "controlPlane": {"hosts": {"control-0": host(11)}},
        "gitops": gitops(),
        "machines": {"rig": own_machine(gpus=2, usdPerHour=0.33), "single": own_machine(usdPerHour=0.24)},
        "pools": {"gpu": talos_pool()},
        "runners": {"gpu-3090": runner(pool="gpu")},
    } | changes


def config(**changes: Any) -> dict[str, Any]:
    """A stack's config by key without namespace, with the one cluster usw2; `changes` replace keys."""
    github = {"url": "https://github.com/example", "appId": "123456", "installationId": "12345678"}
    return {"github": github, "clusters": {"usw2": cluster()}} | changes


def pool_of(**changes: Any) -> Pool:
    """The same pool as a model."""
    return TypeAdapter(Pool).validate_json(json.dumps(pool(**changes)))


def runner_of(gpus: int = 1, cpu: object = 4, memory: str = "16Gi", **changes: Any) -> PodRunner:
    """A runner as a model, with limits equal to its requests."""
    size = {"cpu": {"request": cpu, "limit": cpu}, "memory": {"request": memory, "limit": memory}}
    return TypeAdapter(PodRunner).validate_json(json.dumps(runner(gpus=gpus, **size, **changes)))


def read_stack(path: Path) -> dict[str, Any]:
    """The config of a stack file under our namespace, read as YAML 1.2, by key without namespace and without secrets."""
    return stack_in(path.read_text(encoding="utf-8"))


WITH_PODS = (
    (
        "examplesystem}\n",
        "examplesystem}\n        oke-gpu: {id: ocid1.image.oc1.us-sanjose-1.examplegpu, driver: 570.195.03}\n"
        "      addonVersions: {ClusterAutoscaler: v1.34.3}\n      health: {}\n      pools:\n        a10:\n"
        "          {instanceTypes: [VM.GPU.A10.1], capacity: on-demand, role: burst, nodes: {max: 4}}\n",
    ),
    (
        "        # No job runs in a pod here",
        "        oci-a10:\n          pool: a10\n          acceptUnenforcedNetwork: "
        "Only members of the organization start jobs here, and no dynamic group matches the nodes.\n          gpus: 1\n"
        "          cpu: {request: 8, limit: 24}\n          memory: {request: 64Gi, limit: 192Gi}\n          scale: {max: 4}\n"
        "          scratch: 100Gi\n"
        "        # No job runs in a pod here",
    ),
)
"""Texts of prod's stack file, and what gives its OKE cluster a GPU pool and a class in pods."""


def with_pods(text: str) -> str:
    """Prod's stack file with pools in both clouds, as the release 0.1.0 had them."""
    for before, after in WITH_PODS:
        assert before in text
        text = text.replace(before, after)
    return text


def prod_with_pods() -> str:
    """The same of the checkout's file."""
    return with_pods((ROOT / "Pulumi.prod.yaml").read_text(encoding="utf-8"))


def stack_in(text: str) -> dict[str, Any]:
    """What `read_stack` gives, from the text of a stack file."""
    held: dict[str, Any] = json.loads(_config_of(text))
    ours = {key.partition(":")[2]: value for key, value in held.items() if key.startswith(f"{settings.NAMESPACE}:")}
    return {key: value for key, value in ours.items() if not key.startswith(PRIVATE_KEY)}


@cache
def _config_of(text: str) -> str:
    """The config of a stack file as JSON, so that each caller gets its own copy of a file that is parsed once."""
    return json.dumps(yaml12.read(text)["config"])


def reference(path: str) -> Path:
    """A file of the published source data that some tests compare with; skips the test where there is no copy of it.

    Charts come from GPU_CI_CHARTS, which `gpu-ci charts --keep` fills, and everything from GPU_CI_REFERENCE.
    """
    charts, everything = (os.environ.get(variable) for variable in ("GPU_CI_CHARTS", "GPU_CI_REFERENCE"))
    if charts and (Path(charts) / path).exists():
        return Path(charts) / path
    if not everything:
        pytest.skip(f"{path.partition('/')[0]} is not in GPU_CI_CHARTS, and GPU_CI_REFERENCE is not set: nothing to compare with")
    return Path(everything) / path


def staging() -> settings.Fleet:
    """The fleet of the staging stack."""
    return load(read_stack(ROOT / "Pulumi.staging.yaml"))


def reserved() -> settings.Fleet:
    """The fleet of the example with reserved capacity: a reserved p4d.24xlarge, A10G on demand, queues of two teams."""
    return load(read_stack(ROOT / "examples" / "Pulumi.reserved.yaml"))
