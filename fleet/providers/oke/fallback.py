"""How OKE's Cluster Autoscaler add-on follows an order of pools.

The add-on takes every expander but price (docs.oracle.com, configuration arguments of Cluster Autoscaler). The autoscaler knows a
node pool by its OCID. It leaves a pool alone for a while whose node has the error "Out of host capacity", LimitExceeded or
QuotaExceeded (kubernetes/autoscaler, cloudprovider/oci/nodepools/oci_manager.go).
"""

from collections.abc import Mapping, Sequence

from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import AUTOSCALER, BY_PRIORITY, PRIORITIES, anchored, comes_back, priorities
from fleet.facts.remark import said
from fleet.providers.oke.cluster import OkePools
from fleet.settings.pool_order import pool_ranks

PROVISION_MINUTES = 25
"""A GPU node boots, joins and pulls in ten minutes and more. Oracle's own recommendation."""


def oke_priorities(cluster: OkePools, ids: Mapping[str, str]) -> str:
    """The ConfigMap's text. `ids` are the OCIDs of the node pools, by pool."""
    ranks = pool_ranks(cluster.pool_orders)
    return priorities(ranks, {pool: [anchored(ids[pool]) + "$"] for pool in ranks})


def oke_moves(name: str, cluster: OkePools, order: Sequence[str]) -> str:
    """When the autoscaler moves on to the next pool of an order and when it comes back, in words."""
    if AUTOSCALER in cluster.provided:
        return said("own_autoscaler_of_oke", by_priority=BY_PRIORITY, kube_system=KUBE_SYSTEM, priorities=PRIORITIES)
    return said("next_pool_of_oke", comes_back=comes_back())
