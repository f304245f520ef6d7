"""Values of Cluster Autoscaler on AWS."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, resources
from fleet.facts import versions
from fleet.facts.scheduling import POOL_LABEL, SYSTEM_SELECTOR

AUTOSCALER = "cluster-autoscaler"
_POD = Pod(AUTOSCALER, 100, 600)


def cluster_autoscaler(cluster: str, region: str, kubernetes: str, selector: Mapping[str, str] = SYSTEM_SELECTOR) -> Chart:
    """Cluster Autoscaler for the cluster's Kubernetes minor, on the nodes of `selector`.

    It gets its AWS permissions by Pod Identity.
    """
    return Chart(
        "cluster-autoscaler",
        AUTOSCALER,
        KUBE_SYSTEM,
        {
            "fullnameOverride": AUTOSCALER,
            # Without these two values the chart renders no Deployment and reports no error.
            "autoDiscovery": {"clusterName": cluster},
            "awsRegion": region,
            "image": {"tag": versions.KUBERNETES[kubernetes].cluster_autoscaler},
            "rbac": {"serviceAccount": {"name": AUTOSCALER}},
            "extraArgs": {
                # The groups of one pool waste the same, and among equals the expander chooses at random.
                "expander": "least-waste",
                # A scale-up of several nodes spreads over the zones of a pool: groups with the same pool label are similar.
                # By default the autoscaler compares nearly all labels, and an empty group has others than one with nodes
                # (cloudprovider/aws/aws_manager.go, buildNodeFromTemplate).
                "balance-similar-node-groups": True,
                "balancing-label": POOL_LABEL,
                "skip-nodes-with-system-pods": False,
                # A GPU node needs five to ten minutes to boot, join the cluster and pull images.
                "max-node-provision-time": "20m",
                # The default is ten minutes for all pools. A pool's shorter idleDelay would then have no effect.
                "scale-down-delay-after-add": "1m",
            },
            "nodeSelector": dict(selector),
            "resources": resources(_POD),
        },
        (_POD,),
        "infrastructure/controllers/cluster-autoscaler",
    )
