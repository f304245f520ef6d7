"""An EKS cluster that is ready for GPU pools, in a VPC of its own."""

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from gpu_ci.components.eks import EksGpuCluster

REGION = "us-west-2"
TAGS = {"stack": pulumi.get_stack(), "owner": "ci", "cost-center": "ci", "ttl": "permanent"}

cloud = aws.Provider("aws", region=REGION, default_tags={"tags": TAGS})
cluster = EksGpuCluster(
    "gpu",
    {
        "region": REGION,
        "zones": ["us-west-2a", "us-west-2b"],
        "kubernetes_version": "1.34",
        "endpoint": {"public_cidrs": pulumi.Config().require_object("publicCidrs")},
        "budget": {"monthly_usd": 500, "emails": ["ops@gpu-ci.dev"]},
        "tags": TAGS,
        "protect": True,
    },
    pulumi.ResourceOptions(providers=[cloud, eks.Provider("eks")]),
)

pulumi.export("clusterName", cluster.cluster_name)
pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
