"""CloudWatch's add-on on an EKS cluster: Container Insights and the metrics of the cluster's DCGM exporter."""

import json

import pulumi_aws as aws

from components.component import Component
from components.eks.iam import pod_identity
from components.eks.in_cluster import InCluster
from fleet.charts.cloudwatch import AGENT, CLOUDWATCH, NAMESPACE, cloudwatch_values


class CloudWatch(Component[InCluster]):
    """The add-on `amazon-cloudwatch-observability`, whose agents have their own role instead of the nodes' rights."""

    def declare(self, name: str, here: InCluster) -> None:
        cluster_name = here.cluster.cluster_name
        _, before = pod_identity(name, cluster_name, NAMESPACE, AGENT, parent=self, policy="CloudWatchAgentServerPolicy")
        aws.eks.Addon(
            f"{name}-addon",
            cluster_name=cluster_name,
            addon_name=CLOUDWATCH,
            addon_version=here.settings.kubernetes.cloudwatch,
            configuration_values=json.dumps(cloudwatch_values(here.settings.system_selector), sort_keys=True),
            resolve_conflicts_on_create="OVERWRITE",
            # Another value could start a second exporter on each GPU node.
            resolve_conflicts_on_update="OVERWRITE",
            opts=self._below(*before, *here.cluster.ready),
        )
