"""Runners that are an OCI machine each. Their launchers run on an OKE cluster that exists already, which has ARC's controller."""

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci

from gpu_ci.components.oci import OciGpuRunner

config = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
runners = OciGpuRunner(
    "gpu-a10",
    {
        "kind": "vm-per-job",
        "region": "us-sanjose-1",
        "compartment_id": config.require("compartmentId"),
        "cluster_id": config.require("clusterId"),
        "subnet_id": config.require("subnetId"),
        "security_group_id": config.require("securityGroupId"),
        "shapes": ["VM.GPU.A10.1"],
        "capacity_type": "on-demand",
        "role": "burst",
        "image": {"id": config.require("imageId"), "driver": "580.159.03"},
        "places": [{"region": "us-sanjose-1", "availability_domains": [config.require("availabilityDomain")]}],
        "max_runners": 4,
        "github_url": "https://github.com/example",
        "runner_group": "GPUs",
        "tags": {"stack": pulumi.get_stack(), "owner": "ci", "cost-center": "ci", "ttl": "permanent"},
    },
    pulumi.ResourceOptions(providers=[cluster, oci.Provider("oci", region="us-sanjose-1")]),
)

pulumi.export("runsOn", runners.runs_on)
