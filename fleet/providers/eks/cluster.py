"""Settings of an EKS cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from fleet.facts import versions
from fleet.facts.hardware import machines, quota_code
from fleet.facts.scheduling import EKS_PROFILE
from fleet.providers.eks.caches import EksCache
from fleet.providers.eks.support import remark
from fleet.settings import compatibility
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import Enablement
from fleet.settings.endpoint import Endpoint
from fleet.settings.model import Cidr, DnsLabel, Model, matching, problem, require_once
from fleet.settings.pool import Capacity, Pool, SystemPool, require_in_zones, require_own_labels
from fleet.settings.runner import PodRunner, SetName

_REGION = re.compile(r"(af|ap|ca|eu|il|me|mx|sa|us)-(north|south|east|west|central|(north|south)(east|west))-[1-9]")
"""Regions of the partition `aws`: the program's IAM policies are of that partition."""
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
_NODES = 450
"""Default quota of nodes in a managed node group (docs.aws.amazon.com, EKS service quotas); AWS raises it when asked."""
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}")


Principal = Annotated[
    str,
    matching(
        "principal",
        "not an IAM principal; write arn:aws:iam::<account>:role/<name> (no assumed-role session)",
        r"arn:aws:iam::[0-9]{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+",
    ),
]


def _quota(code: str) -> str:
    ways = get_args(Capacity)
    known = sorted({quota_code(machine, way) or "" for machine in machines("aws") if machine.gpus for way in ways} - {""})
    if code not in known:
        raise problem("quota_code", f"no quota of EC2's that a pool takes; use one of: {', '.join(known)}")
    return code


class Network(Model):
    """The cluster's VPC: a new one, or existing private subnets. Nodes have private addresses either way."""

    cidr: Cidr | None = None
    """Address range of a new VPC, which has one public and one private subnet per zone. Default: 10.0.0.0/16."""
    nat_gateways: Literal["one", "per-zone"] | None = None
    """`one` is the default and cheaper. `per-zone` survives the loss of a zone and avoids traffic between zones."""
    vpc_id: str | None = None
    private_subnets: dict[str, str] = Field(default_factory=dict)
    """Existing subnets by zone. Each needs its own route out: a NAT gateway or VPC endpoints."""

    @model_validator(mode="after")
    def _network_rules(self) -> Self:
        """Refuse settings that mix a new VPC with an existing one, and values that EC2 refuses."""
        if bool(self.private_subnets) != (self.vpc_id is not None):
            raise problem("given_network", "an existing network needs both vpcId and privateSubnets; give both or neither")
        if self.vpc_id is None:
            # Below /22 there is no room for a public and a private subnet in each of several zones.
            if ":" in self.new_cidr or not 16 <= int(self.new_cidr.partition("/")[2]) <= 22:
                raise problem(
                    "vpc_cidr",
                    "a new VPC is an IPv4 network from /16 to /22; write for example 10.0.0.0/16",
                    at=("cidr",),
                    value=self.new_cidr,
                )
            return self
        if self.cidr or self.nat_gateways:
            raise problem("given_network", "cidr and natGateways belong to a new VPC; remove them, or remove vpcId")
        if not _VPC.fullmatch(self.vpc_id):
            raise problem("vpc_id", "not a VPC id; write vpc-… as AWS shows it", at=("vpcId",))
        for zone, subnet in self.private_subnets.items():
            if not SUBNET.fullmatch(subnet):
                raise problem("subnet_id", "not a subnet id; write subnet-…", at=("privateSubnets", zone))
        return self

    @property
    def new_cidr(self) -> str:
        """Address range of a new VPC."""
        return self.cidr or "10.0.0.0/16"

    def nat_count(self, zones: int) -> int:
        """Number of NAT gateways that the program creates."""
        if self.vpc_id is not None:
            return 0
        return zones if self.nat_gateways == "per-zone" else 1


class EksPool(Pool):
    """A GPU pool of EC2 types, as a managed node group."""

    image: Literal["al2023-nvidia", "bottlerocket-nvidia"] = "al2023-nvidia"
    """Kind of node image. Default: AWS' AL2023, which has NVIDIA's driver and container toolkit."""
    zones: tuple[str, ...] = ()
    """Zones of the pool. Default: all zones of the cluster. Use one zone if jobs mount disks, because the autoscaler considers
    only one zone of an empty pool (cloudprovider/aws/README.md, volumes of single zones)."""

    @model_validator(mode="after")
    def _eks_rules(self) -> Self:
        """Refuse a reservation that EC2 cannot use for the pool, and a zone given twice."""
        if self.reservation is not None and len(self.instance_types) > 1:
            raise problem(
                "reservation_type",
                "a capacity reservation is of one instance type; write one, and a pool for each other",
                at=("instanceTypes",),
            )
        if self.reservation is not None and not _RESERVATION.fullmatch(self.reservation.id):
            raise problem(
                "reservation_id", "not a capacity reservation's id; write cr-… as AWS shows it", at=("reservation", "id")
            )
        if self.reservation is not None and self.zones:
            raise problem(
                "reserved_zones", "the nodes of a reserved pool stand in the reservation's zone; remove zones", at=("zones",)
            )
        require_once("repeated_zone", "a zone is given twice; remove one", self.zones, at=("zones",))
        return self


class EksPools(Cluster):
    """The GPU pools of an EKS cluster as managed node groups, and what they need: a region, zones, a Kubernetes version."""

    provider: Literal["eks"]
    account_quotas: dict[Annotated[str, AfterValidator(_quota)], Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """vCPUs by quota code, for quotas of the account that are larger than the fleet needs: AWS refuses to lower a quota."""
    enablement: Enablement = "device-plugin"
    pools: dict[DnsLabel, EksPool] = Field(default_factory=dict)
    runners: dict[SetName, PodRunner]

    ZONES_AT: ClassVar[tuple[str, ...]] = ("zones",)
    """The path of the setting that has the zones."""

    @property
    def node_zones(self) -> tuple[str, ...]:
        """The zones that have a subnet for nodes."""
        raise NotImplementedError

    def image_driver(self, pool: str) -> str | None:
        """Driver version of AWS' AL2023 image for the cluster's Kubernetes minor. None if no source names it."""
        return self.kubernetes.driver if self.pools[pool].image == "al2023-nvidia" else None

    @property
    def kubernetes(self) -> versions.KubernetesVersion:
        """Pinned versions for its Kubernetes minor."""
        return versions.KUBERNETES[self.kubernetes_version]

    @property
    def watched(self) -> str:
        """An AWS budget counts by tag, and all resources of a stack have the same tag."""
        return "the stack's EKS clusters"

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        """AWS has quotas per region of an account."""
        return (self.region,)

    def _remarks(self) -> Iterator[str]:
        """Problems that validation cannot reject: `pulumi up` would fail, or a version is unknown."""
        yield from super()._remarks()
        yield from self._cluster_remarks()
        for name, pool in self.pools.items():
            if pool.nodes.max > _NODES:
                yield f"pool {name}: EKS gives a group {_NODES} nodes until its quota is raised; ask for more, or lower nodes.max"
        yield from self._tied_to_a_zone()
        for name, pool in self.pools.items():
            if self.image_driver(name) is None:
                fix = f"run nvidia-smi on a node of {self.kubernetes.ami_release} first"
                yield f"pool {name}: {compatibility.undeterminable(pool.machines, fix)}"
            if pool.cdi and self.kubernetes.toolkit is None:
                yield (
                    f"pool {name}: cdi is undeterminable: no source names the container toolkit of node image "
                    f"{self.kubernetes.ami_release}; read `nvidia-ctk --version` on a node and compare with docs/cdi.md"
                )

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about the cluster itself."""
        yield from ()

    def _tied_to_a_zone(self) -> Iterator[str]:
        """Limits of disks. Cluster Autoscaler assumes that an empty node group is in its first zone only (aws_manager.go)."""
        disks = [name for name, cache in self.caches.items() if not cache.shared]
        for name in disks:
            yield f"cache {name}: an EBS volume is of one zone and of one node at a time, and so are its jobs; storage efs is not"
        for name, pool in self.pools.items():
            if disks and pool.nodes.min == 0 and pool.reservation is None and len(pool.zones) != 1:
                yield (
                    f"pool {name}: empty and over several zones it may get no node for a job that mounts {' or '.join(disks)}; "
                    "give it the one zone of those volumes in zones"
                )

    @model_validator(mode="after")
    def _eks_rules(self) -> Self:
        """Refuse a region that is not AWS's, zones of another region, a zone given twice, and an unknown version."""
        if not _REGION.fullmatch(self.region):
            raise problem("region", "not a commercial AWS region; write for example us-west-2", at=("region",))
        for zone in self.node_zones:
            if not re.fullmatch(re.escape(self.region) + "[a-z]", zone):
                raise problem(
                    "zone", f"not a zone of {self.region}; write for example {self.region}a", at=self.ZONES_AT, value=zone
                )
        if self.kubernetes_version not in versions.KUBERNETES:
            known = ", ".join(versions.KUBERNETES)
            raise problem(
                "kubernetes_version", f"no node image is known for this version; use one of: {known}", at=("kubernetesVersion",)
            )
        if self.account_quotas and not self.declare_quotas:
            raise problem(
                "account_quotas",
                "quotas are declared with declareQuotas alone; set it to true, or remove accountQuotas",
                at=("accountQuotas",),
            )
        return self

    @model_validator(mode="after")
    def _eks_enablement(self) -> Self:
        """Refuse pools and an enablement that do not fit each other."""
        images = ", ".join(f"{minor} has {row.driver or 'an unknown one'}" for minor, row in versions.KUBERNETES.items())
        fix = f"the driver is in the node image of kubernetesVersion: {images}; use one that fits, or remove the pool"
        self._require_enablement(fix=fix)
        return self

    @model_validator(mode="after")
    def _eks_pool_rules(self) -> Self:
        """Refuse types of another cloud, zones outside of the cluster, and labels of domains that EKS reserves."""
        for name, pool in self.pools.items():
            if pool.reservation is not None and pool.reservation.zone not in self.node_zones:
                raise problem(
                    "reservation_zone",
                    f"the reservation's zone is none of the cluster's; add it to {'.'.join(self.ZONES_AT)}",
                    at=("pools", name, "reservation", "zone"),
                )
            require_in_zones(
                "pool_zone",
                f"the zone is none of the cluster's; use one of {'.'.join(self.ZONES_AT)}",
                pool.zones,
                self.node_zones,
                at=("pools", name, "zones"),
            )
            for machine in pool.machines:
                if machine.cloud != "aws":
                    raise problem(
                        "foreign_type",
                        "not an EC2 instance type; give this cluster EC2 types",
                        at=("pools", name, "instanceTypes"),
                        value=machine.name,
                    )
            require_own_labels("reserved_label", "EKS or kubelet refuses", EKS_PROFILE, pool.labels, at=("pools", name))
        return self


class EksCluster(EksPools):
    """An EKS cluster that the program creates: control plane, system pool, GPU pools as managed node groups."""

    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    endpoint: Endpoint
    network: Network = Network()
    admins: tuple[Principal, ...] = ()
    """IAM principals with cluster-admin through access entries. Do not list the principal that you deploy with: EKS makes the
    creator an admin and rejects a second entry."""
    log_types: tuple[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"], ...] = (
        "api",
        "audit",
        "authenticator",
    )
    system: SystemPool = SystemPool()
    caches: dict[DnsLabel, EksCache] = Field(default_factory=dict)

    @property
    def node_zones(self) -> tuple[str, ...]:
        """As in the base class: those of the cluster."""
        return self.zones

    @property
    def own_cidr(self) -> str | None:
        """Range of a new VPC."""
        return self.network.new_cidr if self.network.vpc_id is None else None

    @property
    def private_sources(self) -> tuple[str, ...]:
        """Networks that reach a private endpoint on port 443. By default EKS allows only the nodes."""
        return self.endpoint.private_sources(self.own_cidr)

    @property
    def drivers(self) -> tuple[str, ...]:
        """Add-ons that its caches need, each once."""
        return tuple(sorted({cache.driver for cache in self.caches.values()}))

    @property
    def provided(self) -> frozenset[str]:
        """The add-ons of its minor."""
        return frozenset(self.kubernetes.addons)

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about the endpoint."""
        for cidr in self.endpoint.reserved_cidrs:
            yield f"endpoint.publicCidrs: {cidr} is reserved, EKS refuses it; set your own networks before pulumi up"
        if self.endpoint.private and not self.private_sources:
            yield "endpoint: nothing but the nodes reaches the private endpoint; name your networks in privateCidrs"

    def remarks_on(self, day: date) -> Iterator[str]:
        """The end of support for its Kubernetes minor, and the cost of the control plane after that."""
        yield remark(self.kubernetes_version, self.region, day)

    @model_validator(mode="after")
    def _own_rules(self) -> Self:
        """Refuse settings that EKS refuses: a single zone, a zone without a subnet, subnets of other zones."""
        if len(set(self.zones)) < 2:
            raise problem("zones", "an EKS control plane needs two different zones at least; add one", at=("zones",))
        if self.network.vpc_id is None and any(zone[-1] > "g" for zone in self.zones):
            raise problem("zone_letter", "a new VPC has subnets for zones a to g; use those", at=("zones",))
        require_once("repeated_admin", "a principal is given twice; remove one", self.admins, at=("admins",))
        require_once("repeated_zone", "a zone is given twice; remove one", self.zones, at=("zones",))
        if self.network.vpc_id is not None and set(self.network.private_subnets) != set(self.zones):
            raise problem(
                "subnet_zones",
                "privateSubnets names one subnet for each of the cluster's zones; give the same zones",
                at=("network", "privateSubnets"),
                value=sorted(self.network.private_subnets),
            )
        return self
