"""A GPU pool in two zones of an EKS cluster that exists already. The cluster has an access entry for the role of the nodes."""

import pulumi
import pulumi_aws as aws

from gpu_ci.components.eks import GpuNodeGroup

TAGS = {"stack": pulumi.get_stack(), "owner": "ci", "cost-center": "ci", "ttl": "permanent"}

config = pulumi.Config()
cloud = aws.Provider("aws", region="us-west-2", default_tags={"tags": TAGS})
pool = GpuNodeGroup(
    "l4",
    {
        "cluster_name": config.require("clusterName"),
        "kubernetes_version": "1.34",
        "node_role_arn": config.require("nodeRoleArn"),
        "subnet_ids": config.require_object("subnetIds"),  # by zone
        "instance_types": ["g6.2xlarge"],
        "role": "release",  # on-demand machines, whose jobs nothing interrupts
        "max_nodes": 4,
        "tags": TAGS,
    },
    pulumi.ResourceOptions(providers=[cloud]),
)

pulumi.export("nodeGroupNames", pool.node_group_names)
pulumi.export("nodeLabels", pool.node_labels)
