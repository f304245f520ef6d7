"""Amazon Elastic Kubernetes Service."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from fleet.facts import versions
from fleet.facts.cloud_limits import SUFFIX, limit
from fleet.facts.remark import said
from fleet.facts.scheduling import EKS_PROFILE
from fleet.facts.yaml_text import scalar
from fleet.providers.eks import doctor
from fleet.providers.eks.bill import eks_bill, eks_needs, quota_remarks
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.eks.fallback import eks_charts, eks_groups, eks_moves, eks_priorities
from fleet.providers.eks.leftovers import AwsLeftovers
from fleet.providers.provider import Claim, Provider, Violation, conflicts, violation
from fleet.providers.starter import Starter, Values, Wanted
from fleet.providers.tags import AWS_TAGS
from fleet.settings.github import GitHub
from fleet.settings.pool import SystemMachines


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
