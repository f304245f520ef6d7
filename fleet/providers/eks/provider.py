"""Amazon Elastic Kubernetes Service, and how Cluster Autoscaler follows an order of pools there.

Auto Scaling reports a machine that EC2 refuses as a failed scaling activity. The autoscaler reads the activities each minute, and
leaves the node group alone for a while (cloudprovider/aws/auto_scaling_groups.go at 1.36.1). For that its role has
`autoscaling:DescribeScalingActivities`; without it the autoscaler would wait for its longest provision time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleet.charts import cluster_autoscaler as charts
from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.facts import versions
from fleet.facts.cloud_limits import SUFFIX, limit
from fleet.facts.remark import said
from fleet.facts.scheduling import EKS_PROFILE, SYSTEM_POOL
from fleet.facts.yaml_text import scalar
from fleet.providers.eks import doctor
from fleet.providers.eks.bill import eks_bill, eks_needs, quota_remarks
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.eks.leftovers import AwsLeftovers
from fleet.providers.provider import Claim, NodeGroup, Provider, Starter, Values, Violation, Wanted, conflicts, violation
from fleet.providers.tags import AWS_TAGS
from fleet.settings.github import GitHub
from fleet.settings.model import Nodes
from fleet.settings.pool import SystemMachines
from fleet.settings.pool_order import pool_ranks


class EksStarter(Starter):
    """EKS, and an EKS cluster that exists already."""

    templates = Path(__file__).parent / "templates"
    answers = ("eks", "existing-eks")
    where = "on EKS"
    node_ids = ("aws",)

    def cluster_name(self, region: str) -> str:
        """As in the base class: usw2 for us-west-2."""
        area, side, number = region.split("-")
        return f"{area}{side[0]}{number}"

    def values(self, wanted: Wanted) -> Values:
        """As in the base class."""
        zones = wanted.zones or wanted.known_zones
        return {
            "version": wanted.version or max(versions.KUBERNETES, key=versions.minor),
            "subnets": [f"{scalar(zone)}: subnet-0aaaaaaaaaaaaaaa{number}" for number, zone in enumerate(zones, 1)],
        }


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
    version, selector = cluster.kubernetes_version, cluster.system_selector
    return charts.cluster_autoscaler(name, cluster.region, version, selector, by_priority=by_priority)


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


class Eks(Provider[EksPools]):
    """EKS: managed node groups in several zones, and Cluster Autoscaler as a chart."""

    settings, existing = EksCluster, ExistingEksCluster
    cloud = "aws"
    starter = EksStarter()
    profile = EKS_PROFILE
    tags = AWS_TAGS
    packages = ("pulumi-aws", "pulumi-eks")
    bounded = True
    boots = "ec2"
    orders = True
    # EKS user guide, managed node groups: Spot. The API has no setting for it.
    mixed_spot = (
        "EKS may drain a node before EC2's notice, while a job runs, and has no switch for that "
        "(docs/capacity.md#capacity-rebalancing)"
    )
    # A password goes through a pipe: every user of the machine can read the arguments of a process.
    push = (Path(__file__).parent / "push.txt").read_text(encoding="ascii")

    bill = staticmethod(eks_bill)

    needs = staticmethod(eks_needs)
    """As in the base class: AWS has quotas per account and region."""

    quota_remarks = staticmethod(quota_remarks)

    charts = staticmethod(eks_charts)
    """Cluster Autoscaler, which finds its node groups by the physical name; none if the cluster has it already."""

    def system_machines(self, cluster: EksPools) -> SystemMachines | None:
        """As in the base class."""
        if not isinstance(cluster, EksCluster):
            return None
        return cluster.system.machines, cluster.system.disk, cluster.system.nodes

    node_groups = staticmethod(eks_groups)
    """As in the base class: Auto Scaling groups."""

    moves = staticmethod(eks_moves)

    priorities = staticmethod(eks_priorities)

    def rules(self, clusters: Mapping[str, EksPools], github: GitHub) -> Iterator[Violation]:
        """Build caches trust tokens of github.com, and an account has one OIDC provider for them."""
        caching = [(name, caches) for name, cluster in clusters.items() if (caches := cluster.build_caches) is not None]
        for scope in dict.fromkeys(scope for name, _ in caching for scope in clusters[name].scopes):
            if github.every[scope].host != "github.com":
                yield violation("cache_issuer", (*github.at(scope), "url"))
        for name, caches in caching:
            names = [*dict.fromkeys(github.every[scope].owner.partition("/")[2] for scope in clusters[name].scopes)]
            for bucket, cache in caches.buckets.items():
                for index, repository in enumerate(cache.repositories):
                    writer = re.split("[/@]", repository)[0].lower()
                    if writer not in (*names, *map(str.lower, caches.owners)):
                        at = ("clusters", name, "buildCaches", "buckets", bucket, "repositories", str(index))
                        yield violation("cache_owner", at, repository, names=" or ".join(names), writer=writer)
        creating = ((name, caches.account) for name, caches in caching if caches.oidc_provider == "create")
        claims = (Claim(account, name, ("clusters", name, "buildCaches", "oidcProvider")) for name, account in creating)
        yield from (violation("oidc_provider_twice", claim.at, first=first, key=claim.key) for claim, first in conflicts(claims))

    def name_faults(self, cluster: EksPools, name: str) -> Iterator[Violation]:
        """The role that deletes old images is named after cluster and image."""
        most = limit("aws:iam/role:Role", "name").most or 0
        for ami in cluster.amis:
            # Pulumi adds eight characters.
            if (length := len(f"{name}-{ami}-ami-retirement-role") + SUFFIX) > most:
                together = most - length + len(name) + len(ami)
                yield violation("ami_length", ("clusters", name, "amis", ami), ami, length=length, most=most, together=together)

    def physical_name_fault(self, cluster: EksPools, physical_name: str) -> str:
        """As in the base class, for a cluster that the program creates."""
        most = limit("eks:index:Cluster", "name").most or 0
        if cluster.found is not None or len(physical_name) <= most:
            return ""
        return said("long_cluster_name", name=physical_name, length=len(physical_name), most=most)

    findings = staticmethod(doctor.findings)

    freshness = staticmethod(doctor.freshness)

    leftovers = AwsLeftovers
