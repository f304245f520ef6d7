"""CloudWatch's add-on on an EKS cluster: Container Insights and the metrics of the cluster's DCGM exporter."""

import json

from components.component import Component
from components.eks.iam import pod_identity
from components.eks.in_cluster import InCluster
from components.eks.parts import declare_addon
from fleet.charts.cloudwatch import AGENT, CLOUDWATCH, NAMESPACE, cloudwatch_values


class CloudWatch(Component[InCluster]):
    """The add-on `amazon-cloudwatch-observability`, whose agents have their own role instead of the nodes' rights."""

    def declare(self, name: str, here: InCluster) -> None:
        cluster_name = here.cluster.cluster_name
        _, before = pod_identity(name, cluster_name, NAMESPACE, AGENT, parent=self, policy="CloudWatchAgentServerPolicy")
        values = json.dumps(cloudwatch_values(here.settings.system_selector), sort_keys=True)
        version, opts = here.settings.kubernetes.cloudwatch, self._below(*before, *here.cluster.ready)
        # Other values could start a second exporter on each GPU node.
        declare_addon(f"{name}-addon", cluster_name, CLOUDWATCH, version, opts, values, on_update="OVERWRITE")
