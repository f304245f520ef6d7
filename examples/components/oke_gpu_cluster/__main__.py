"""An OKE cluster that is ready for GPU pools, in a VCN of its own."""

import pulumi
import pulumi_oci as oci

from gpu_ci.components.oci import OkeGpuCluster

REGION = "us-sanjose-1"
TAGS = {"stack": pulumi.get_stack(), "owner": "ci", "cost-center": "ci", "ttl": "permanent"}

config = pulumi.Config()
cluster = OkeGpuCluster(
    "gpu",
    {
        "region": REGION,
        "zones": [config.require("availabilityDomain")],
        "compartment_id": config.require("compartmentId"),
        "kubernetes_version": "1.34",
        "system_image_id": config.require("systemImageId"),
        "gpu_plugin_version": "v0.18.1",
        "endpoint": {"public_cidrs": config.require_object("publicCidrs")},
        "tags": TAGS,
        "protect": True,
    },
    pulumi.ResourceOptions(providers=[oci.Provider("oci", region=REGION)]),
)

pulumi.export("clusterId", cluster.cluster_id)
