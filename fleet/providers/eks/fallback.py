"""Cluster Autoscaler on AWS: its chart, and how it follows an order of pools.

Auto Scaling reports a machine that EC2 refuses as a failed scaling activity. The autoscaler reads the activities each minute, and
leaves the node group alone for a while (cloudprovider/aws/auto_scaling_groups.go at 1.36.1). For that its role has
`autoscaling:DescribeScalingActivities`; without it the autoscaler would wait for its longest provision time.
"""

from collections.abc import Iterator, Mapping, Sequence

from fleet.charts import cluster_autoscaler as charts
from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.facts.remark import said
from fleet.facts.scheduling import SYSTEM_POOL
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.provider import NodeGroup
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes
from fleet.settings.pool_order import pool_ranks

_MINUTES = (1, 2)
"""How long after EC2's refusal the autoscaler moves on. Derived: Auto Scaling tries at once, the autoscaler reads each minute."""


def eks_charts(cluster: EksPools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """Cluster Autoscaler, which finds its node groups by the cluster's physical name; none if the cluster has it already."""
    if charts.AUTOSCALER in cluster.provided:
        return ()
    return (autoscaler(cluster, physical_name, by_priority=bool(cluster.pool_orders)),)


def autoscaler(cluster: EksPools, physical_name: str, *, by_priority: bool) -> Chart:
    """The chart of Cluster Autoscaler. `by_priority`: whether it prefers node groups by its ConfigMap."""
    name = physical_name if cluster.found is None else cluster.found.identity
    return charts.cluster_autoscaler(
        name, cluster.region, cluster.kubernetes_version, cluster.system_selector, by_priority=by_priority
    )


def eks_priorities(name: str, cluster: EksPools) -> str:
    """The ConfigMap's text for the cluster `cluster`. Empty if no runner class names several pools.

    Empty too if the cluster has its own autoscaler, whose ConfigMap the program does not own.
    """
    return _priorities(name, cluster) if cluster.pool_orders and charts.AUTOSCALER not in cluster.provided else ""


def _priorities(name: str, cluster: EksPools) -> str:
    """The text. The autoscaler knows a group by its Auto Scaling group, which EKS calls eks-<node group>-<UUID>.

    Pulumi calls a node group by its logical name and seven hexadecimal digits. A later generation has six more before them.
    """
    ranks, end = pool_ranks(cluster.pool_orders), "([0-9a-f]{6}-)?[0-9a-f]{7}-[0-9a-f]{8}-"
    zones = {pool: cluster.groups_of(cluster.pools[pool]) for pool in ranks}
    groups = {pool: [charts.anchored(_scaling_group(name, f"{pool}-{zone}")) + end for zone in zones[pool]] for pool in ranks}
    return charts.priorities(ranks, groups)


def _scaling_group(name: str, part: str) -> str:
    """How the names of the Auto Scaling groups of a part of the cluster `name` begin."""
    return f"eks-{name}-{part}-nodes-"


def eks_groups(name: str, cluster: EksPools, pool: str) -> Iterator[NodeGroup]:
    """The Auto Scaling groups of a pool, one for each zone, or of the system pool. The ends of their names are made up."""
    sizes: Mapping[str, tuple[tuple[str, ...], Nodes]]
    if isinstance(cluster, EksCluster) and pool == SYSTEM_POOL:
        sizes = {SYSTEM_POOL: (cluster.fixed_zones, cluster.system.nodes)}
    else:
        sizes = {f"{pool}-{zone}": ((zone,), nodes) for zone, nodes in cluster.groups_of(cluster.pools[pool]).items()}
    for part, (zones, nodes) in sizes.items():
        yield NodeGroup(f"{_scaling_group(name, part)}0000000-00000000-0000-0000-0000-000000000000", zones, nodes)


def eks_moves(name: str, cluster: EksPools, order: Sequence[str]) -> str:
    """When the autoscaler moves on to the next pool of an order and when it comes back, in words."""
    if charts.AUTOSCALER in cluster.provided:
        return (
            f"the cluster's own autoscaler chooses: run it with --expander={charts.BY_PRIORITY} and add to its ConfigMap "
            f"{KUBE_SYSTEM}/{charts.PRIORITIES}: {', '.join(_priorities(name, cluster).splitlines())}"
        )
    zones = [len(cluster.groups_of(cluster.pools[pool])) for pool in order[:-1]]
    least, most = (minutes * sum(zones) for minutes in _MINUTES)
    return said("next_pool", least=least, most=most, comes_back=charts.comes_back())
