"""Values of Cluster Autoscaler on AWS."""

from __future__ import annotations

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, published, resources
from fleet.facts import versions
from fleet.facts.scheduling import SYSTEM_POOL, pool_selector

AUTOSCALER = "cluster-autoscaler"
_POD = Pod(AUTOSCALER, 100, 600)


def cluster_autoscaler(cluster: str, region: str, kubernetes: str) -> Chart:
    """Cluster Autoscaler of the cluster's own minor, on the system pool, with rights by Pod Identity."""
    return published(
        "cluster-autoscaler",
        AUTOSCALER,
        KUBE_SYSTEM,
        {
            "fullnameOverride": AUTOSCALER,
            # Without both the chart renders no Deployment and says nothing.
            "autoDiscovery": {"clusterName": cluster},
            "awsRegion": region,
            "image": {"tag": versions.KUBERNETES[kubernetes].cluster_autoscaler},
            "rbac": {"serviceAccount": {"name": AUTOSCALER}},
            "extraArgs": {
                "expander": "least-waste",
                "skip-nodes-with-system-pods": False,
                # A GPU node boots, joins and pulls in five to ten minutes.
                "max-node-provision-time": "20m",
                # Ten minutes by default, for all pools: a pool's own shorter idleDelay would mean nothing.
                "scale-down-delay-after-add": "1m",
            },
            "nodeSelector": pool_selector(SYSTEM_POOL),
            "resources": resources(_POD),
        },
        [_POD],
    )
