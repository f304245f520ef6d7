"""Settings of an EKS cluster."""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, ValidationInfo

from fleet.charts.cloudwatch import CLOUDWATCH
from fleet.facts import eks_images, versions
from fleet.facts.errors import instead
from fleet.facts.hardware import machines, quota_code
from fleet.facts.lifecycle import Use, of_node_image
from fleet.facts.remark import below, costs, said, todo
from fleet.facts.scheduling import EKS_PROFILE
from fleet.facts.xid import OTHER_WAIT
from fleet.facts.zones import zones_of
from fleet.providers.eks.ami import GpuAmi, require_image, require_pool_image
from fleet.providers.eks.caches import EBS_DRIVER, EksCache, gp3_class
from fleet.providers.eks.capacity import machine_remarks, refused_zone, reserved, support_remarks, supported, window
from fleet.providers.eks.ecr import EcrRegistry, cold_start_nat
from fleet.providers.eks.groups import zone_groups
from fleet.providers.eks.node_options import SPREAD_PER_ZONE
from fleet.providers.eks.nodes import AmiName, EksPool, warm_remarks
from fleet.providers.eks.runners import EksPodRunner
from fleet.settings import compatibility
from fleet.settings.budget import PoolBudget
from fleet.settings.build_caches import BuildCaches
from fleet.settings.caches import Volumes
from fleet.settings.cluster import Cluster, ReplaceNodes
from fleet.settings.enablement import Enablement
from fleet.settings.endpoint import Endpoint
from fleet.settings.existing import NODE_AGENT
from fleet.settings.health import Health
from fleet.settings.model import Cidr, DnsLabel, Model, Nodes, QuotedText
from fleet.settings.pool import Capacity, SystemPool, require_in_zones, require_own_labels
from fleet.settings.refusals import Form, limited, matching, problem, refusal, refuse, refuse_if, refuses, require_once
from fleet.settings.runner import SetName

_REGION = re.compile(r"(af|ap|ca|eu|il|me|mx|sa|us)-(north|south|east|west|central|(north|south)(east|west))-[1-9]")
"""Regions of the partition `aws`: the program's IAM policies are of that partition."""
_NODES, _GROUPS = 450, 30
"""Default quotas: nodes per managed node group, and groups per cluster (docs.aws.amazon.com, EKS service quotas). AWS raises
both on request."""
VpcId = Annotated[str, matching("vpc_id", r"vpc-[0-9a-f]{8,17}")]
SubnetId = Annotated[str, matching("subnet_id", r"subnet-[0-9a-f]{8,17}")]
UpgradePolicy = Literal["STANDARD", "EXTENDED"]
"""Values of `upgradePolicy.supportType` (EKS API)."""
LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
LogRetention = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""Days that CloudWatch Logs accepts (API, PutRetentionPolicy)."""
Principal = Annotated[str, matching("principal", r"arn:aws:iam::[0-9]{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+")]


def control_plane_logs(cluster_name: str) -> str:
    """The log group in CloudWatch of a control plane (EKS user guide, control-plane-logs). `cluster_name` is that in EKS."""
    return f"/aws/eks/{cluster_name}/cluster"


def _minor(version: str) -> None:
    if version not in versions.KUBERNETES:
        raise problem("kubernetes_version", f"{_NO_IMAGE}; use one of: {', '.join(versions.KUBERNETES)}")


_NO_IMAGE = "no node image is known for this version"
_MINORS = Form("EKS version", f"{_NO_IMAGE}; use one of these, in quotes", values=lambda: versions.KUBERNETES)
EksVersion = Annotated[QuotedText, refuses(_minor), _MINORS]
"""A Kubernetes minor whose add-ons and node image are known."""


def _quota(code: str) -> None:
    codes = sorted({quota_code(machine, way) or "" for machine in machines("aws") for way in get_args(Capacity)} - {""})
    refuse_if("quota_code", code not in codes, codes=", ".join(codes))


QuotaCode = Annotated[str, refuses(_quota)]


class Network(Model):
    """The cluster's VPC: a new one, or existing private subnets. Nodes have private addresses either way."""

    cidr: Annotated[Cidr, limited("aws:ec2/vpc:Vpc", "cidrBlock")] | None = None
    """Address range of a new VPC, from /16 to /22, with a public and a private subnet per zone. Default: 10.0.0.0/16. Not allowed
    with `vpcId`. A live cluster keeps it: another range is another VPC, and EKS moves no control plane there.
    Example: `10.64.0.0/16`"""
    nat_gateways: Literal["one", "per-zone"] | None = None
    """NAT gateways of a new VPC. `one` is the default and cheaper. `per-zone` survives the loss of a zone and avoids traffic
    between zones."""
    vpc_id: VpcId | None = None
    """ID of an existing VPC. It needs `privateSubnets` too. Default: a new VPC. Example: `vpc-0a1b2c3d4e5f60718`"""
    private_subnets: dict[str, SubnetId] = Field(default_factory=dict)
    """Existing private subnets by zone. Each needs its own route out: a NAT gateway or VPC endpoints. Example: `{us-west-2a:
    subnet-0a1b2c3d4e5f60718}`"""

    @refusal
    def _network_rules(self) -> None:
        """Refuse settings that mix a new VPC with an existing one, and values that EC2 refuses."""
        if bool(self.private_subnets) != (self.vpc_id is not None):
            raise problem("given_network", at=("vpcId",) if self.vpc_id is None else ("privateSubnets",))
        if self.vpc_id is None:
            # Below /22 there is no room for a public and a private subnet in each of several zones.
            if ":" in self.new_cidr or not 16 <= int(self.new_cidr.partition("/")[2]) <= 22:
                raise problem("vpc_cidr", at=("cidr",), value=self.new_cidr)
            return
        require_once("repeated_subnet", self.private_subnets.values(), at=("privateSubnets",))
        refuse_if("given_network__new", self.cidr or self.nat_gateways, at=("cidr",) if self.cidr else ("natGateways",))

    @property
    def new_cidr(self) -> str:
        """Address range of a new VPC."""
        return self.cidr or "10.0.0.0/16"

    def nat_count(self, zones: int) -> int:
        """Number of NAT gateways that the program creates."""
        if self.vpc_id is not None:
            return 0
        return zones if self.nat_gateways == "per-zone" else 1


class EksPools(Cluster):
    """The pools of an EKS cluster as managed node groups, and what they need: a region, zones, a Kubernetes version."""

    provider: Literal["eks"]
    """Amazon Elastic Kubernetes Service (EKS)."""
    kubernetes_version: EksVersion
    account_quotas: dict[QuotaCode, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """vCPUs that the account may use in the region, by the code of the EC2 quota. `declareQuotas` requests only quotas that are
    given here (docs/operate.md). Unit: vCPUs. Example: `{L-DB2E81BA: 64}`"""
    enablement: Enablement = "device-plugin"
    amis: dict[AmiName, GpuAmi] = Field(default_factory=dict)
    """Node images that EC2 Image Builder makes, by name. Pools name them in `ami` (docs/eks-nodes.md)."""
    caches: dict[DnsLabel, EksCache] = Field(default_factory=dict)
    pools: dict[DnsLabel, EksPool] = Field(default_factory=dict)
    replace_nodes: ReplaceNodes = "wait"
    """What an edit that needs other nodes does with the old node groups: `wait` keeps them, without new pods, until they are
    empty; `evict` deletes them at once, and their jobs end (docs/replacing-nodes.md). Example: `evict`"""
    build_caches: BuildCaches | None = None
    """S3 buckets with the compiled objects of CI jobs (docs/build-caches.md)."""
    runners: dict[SetName, EksPodRunner]
    pool_budgets: dict[DnsLabel, PoolBudget] = Field(default_factory=dict)
    """Budgets of pools by name, beside `budget`, with alarms by email. They stop nothing (docs/costs.md). Default: none."""

    @property
    def budgets_of_pools(self) -> Mapping[str, PoolBudget]:
        """As in the base class: the nodes of its pools have tags that an AWS budget can count."""
        return self.pool_budgets

    @refusal
    def _pool_budget_rules(self) -> None:
        """Refuse a budget of a pool that the cluster does not have, or with one pool twice."""
        for name, budget in self.pool_budgets.items():
            require_once("budget_pool__twice", budget.pools, at=("poolBudgets", name, "pools"))
            for index, pool in enumerate(budget.pools):
                if pool not in self.pools:
                    fix = instead(pool, self.pools, f"name some of: {', '.join(self.pools) or 'none, so remove the budget'}")
                    raise problem("budget_pool", at=("poolBudgets", name, "pools", str(index)), fix=fix)

    def disk_parts(self, gib: int) -> Mapping[str, float]:
        """As in the base class: a gp3 volume."""
        return {"gp3-gb": gib}

    def node_disk(self, pool: Any) -> Mapping[str, float]:
        """As in the base class, with what a faster disk costs extra."""
        return {**super().node_disk(pool), **pool.root_disk.extra}

    @property
    def account(self) -> str | None:
        """The AWS account in which `pulumi up` may run, if a setting names it."""
        return self.build_caches.account if self.build_caches is not None else None

    @property
    def accounts(self) -> frozenset[str]:
        """As in the base class."""
        return frozenset((self.account,)) if self.account is not None else frozenset()

    @refusal
    def _role_rules(self) -> None:
        """Refuse a role of another account for jobs."""
        for name, runner in self.runners.items():
            if runner.role and self.accounts and runner.role.split(":")[4] not in self.accounts:
                raise problem("role_elsewhere", at=("runners", name, "role"), accounts=", ".join(sorted(self.accounts)))

    SETS_TAINTS: ClassVar[bool] = True
    ZONES_AT: ClassVar[tuple[str, ...]] = ("zones",)
    """The path of the setting that has the zones."""

    @property
    @abstractmethod
    def node_zones(self) -> tuple[str, ...]:
        """Zones of the nodes."""

    def _zone_settings(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The settings that have zones: path and zones."""
        yield self.ZONES_AT, self.node_zones

    @property
    def group_suffix(self) -> int:
        """Characters of "-<zone>", which the names of a pool's node groups have."""
        return 1 + max(map(len, self.node_zones))

    def zones_of(self, pool: EksPool) -> tuple[str, ...]:
        """The zones of a pool's nodes. A reservation has machines in one zone."""
        return (pool.reservation.zone,) if pool.reservation is not None else pool.zones or self.node_zones

    def groups_of(self, pool: EksPool) -> dict[str, Nodes]:
        """The sizes of a pool's node groups by zone."""
        return zone_groups(self.zones_of(pool), pool.nodes)

    def zones_with_nodes(self, pool: EksPool) -> tuple[str, ...]:
        """As in the base class: the zones of its node groups."""
        return tuple(self.groups_of(pool))

    def waiting_machines(self, pool: EksPool) -> str:
        """As in the base class: those of its warm pool."""
        zones = self.groups_of(pool)
        machines = pool.warm.machines(zones) if pool.warm is not None else {}
        return pool.warm.state if pool.warm is not None and all(machines.get(zone) for zone in zones) else ""

    def _image(self, pool: str) -> tuple[str | None, str | None, str | None]:
        """The id of the image of your own that a pool runs, the release of AWS' image that it runs or was built from, and its
        container toolkit. The id is None for AWS' image, the others if no settings and no source name them.
        """
        settings = self.pools[pool]
        ami = self.amis[settings.ami_entry] if settings.ami_entry else None
        if ami is not None and ami.built is not None:
            return ami.built.id, ami.built.release, ami.toolkit
        return (settings.ami_id, None, None) if settings.ami_id else (None, self.kubernetes.ami_release, self.kubernetes.toolkit)

    def image_id(self, pool: str) -> str | None:
        """The id of the image of your own that a pool runs. None if it runs AWS' image."""
        return self._image(pool)[0]

    def image_driver(self, pool: str) -> str | None:
        """Driver version of AWS' AL2023 image, or of the release that its own image was built from. None if not known."""
        image, release, _ = self._image(pool)
        if image is None:
            return self.kubernetes.driver if self.pools[pool].image == "al2023-nvidia" else None
        return eks_images.driver_of(release) if release else None

    @property
    def kubernetes(self) -> versions.KubernetesVersion:
        """Pinned versions for its Kubernetes minor."""
        return versions.KUBERNETES[self.kubernetes_version]

    @property
    def node_repair(self) -> str:
        """As in the base class: EKS' own repair, with the wait that the program sets."""
        wait, silent = (self.health or Health()).repair_wait // 60, OTHER_WAIT // 60
        if not self.engine_on_nodes:
            return f"EKS replaces silent nodes after {silent} minutes, and repairs no GPU without the add-on {NODE_AGENT}"
        return f"EKS repairs GPU errors after {wait} minutes, and silent nodes after {silent}"

    @property
    def watched(self) -> str:
        """An AWS budget counts by tag, and all resources of a stack have the same tag."""
        return "the stack's EKS clusters"

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        """AWS has quotas per region of an account."""
        return (self.region,)

    def holdings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """As in the base class, and the buckets of build caches."""
        yield from super().holdings()
        for bucket in self.build_caches.buckets if self.build_caches is not None else ():
            yield ("buildCaches", "buckets", bucket), f"bucket {bucket}"

    def _remarks(self) -> Iterator[str]:
        """Problems that validation cannot reject: `pulumi up` would fail, or a version is unknown."""
        yield from super()._remarks()
        yield from self._cluster_remarks()
        groups = {name: self.groups_of(pool) for name, pool in self.pools.items()}
        for name, sizes in groups.items():
            if max(size.max for size in sizes.values()) > _NODES:
                yield todo(said("nodes_per_group", name=name, most=_NODES))
        created = self.found is None
        if (count := created + sum(map(len, groups.values()))) > _GROUPS:
            remark_end = "and one of the system pool" if created else "without those that the cluster has already"
            yield todo(said("node_groups", count=count, of_whom=remark_end, most=_GROUPS))
        for name, pool in self.pools.items():
            yield from (below(f"pool {name}", remark) for remark in machine_remarks(pool, self.region))
        for name, sizes in groups.items():
            yield from (below(f"pool {name}: warm", remark) for remark in warm_remarks(self.pools[name], sizes))
        if self.build_caches is not None and self.own_cidr is None:
            yield said("s3_endpoint", region=self.region)
        yield from self._tied_to_a_zone(groups)
        yield from self._ami_remarks()
        for name, pool in self.gpu_pools.items():
            image = self.image_id(name) or self.kubernetes.ami_release
            if self.image_driver(name) is None:
                yield f"pool {name}: {compatibility.undeterminable(pool.machines, f'run nvidia-smi on a node of {image} first')}"
            if pool.cdi and self._image(name)[2] is None:
                yield said("cdi_toolkit", name=name, image=image)

    def remarks_on(self, day: date) -> Iterator[str]:
        """Starts and ends of reservations."""
        yield from super().remarks_on(day)
        for name, pool in self.pools.items():
            yield from (below(f"pool {name}", remark, name) for remark in window(pool, day))

    def uses(self) -> Iterator[Use]:
        """The node images of its pools, and reservations with an end."""
        releases = dict.fromkeys(self._image(name)[1] for name in self.pools)
        newer = "gpu-ci freshen, or ami of the pools (docs/ami.md)"
        yield from (Use(of_node_image(release), newer) for release in releases if release)
        for name, pool in self.pools.items():
            yield from reserved(name, pool)

    def _ami_remarks(self) -> Iterator[str]:
        """Images that are not built yet, and images whose driver only their test shows."""
        for name, ami in self.amis.items():
            if ami.built is None:
                users = [pool for pool, settings in self.pools.items() if settings.ami_entry == name]
                who = f"pool {users[0]} runs" if len(users) == 1 else f"pools {' and '.join(users)} run"
                running = f"; until then {who} AWS' image {self.kubernetes.ami_release}" if users else ""
                yield todo(f"ami {name}: not built; run its pipeline and write built (docs/ami.md#build){running}")
            if ami.driver(self.kubernetes_version) is None:
                yield todo(said("ami_driver", name=name, release=ami.base(self.kubernetes_version)))

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about the cluster itself."""
        yield from ()

    def _tied_to_a_zone(self, groups: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Limits of disks. A pool starts no node in a zone where it has no node group. `groups` are the pools' zones."""
        disks = [name for name, cache in self.caches.items() if not cache.shared]
        yield from (said("ebs_zone", name=name) for name in disks)
        everywhere = dict.fromkeys(zone for sizes in groups.values() for zone in sizes)
        for name, held in groups.items():
            if disks and (missing := [zone for zone in everywhere if zone not in held]):
                yield said("volume_elsewhere", name=name, missing=" and ".join(missing), disks=" or ".join(disks))

    @refusal
    def _eks_rules(self) -> None:
        """Refuse a region that is not AWS's, and zones of another region."""
        refuse("region", region=not _REGION.fullmatch(self.region))
        for at, zones in self._zone_settings():
            for zone in zones:
                refuse_if("zone", not re.fullmatch(re.escape(self.region) + "[a-z]", zone), at=at, value=zone, region=self.region)

    @refusal
    def _eks_ami_rules(self) -> None:
        """Refuse images and pools that do not fit each other, and copies in a region that is not AWS' or has the image anyway."""
        for name, ami in self.amis.items():
            require_image(ami, self.kubernetes_version, at=("amis", name))
            for index, region in enumerate(ami.regions):
                refuse("amis", name, "regions", str(index), ami_region=region == self.region or not _REGION.fullmatch(region))
        for name, pool in self.pools.items():
            if pool.ami_entry is not None:
                require_pool_image(name, pool, pool.ami_entry, self.amis, self.kubernetes_version)

    @refusal
    def _eks_pool_rules(self) -> None:
        """Refuse an enablement that does not fit the pools, types of another cloud, zones outside of the cluster, and labels of
        domains that EKS reserves.
        """
        images = ", ".join(f"{minor} has {row.driver or 'an unknown one'}" for minor, row in versions.KUBERNETES.items())
        fix = f"the driver is in the node image of kubernetesVersion: {images}; use one that fits, or remove the pool"
        self._require_enablement(fix=fix)
        zones_at = ".".join(self.ZONES_AT)
        for name, pool in self.pools.items():
            at, reservation = ("pools", name), pool.reservation
            if reservation is not None and reservation.owner is not None and reservation.owner == self.account:
                raise problem("reservation_owner", at=(*at, "reservation", "owner"))
            if reservation is not None and reservation.zone not in self.node_zones:
                raise problem("reservation_zone", at=(*at, "reservation", "zone"), zones_at=zones_at)
            require_in_zones("pool_zone", pool.zones, self.node_zones, at=(*at, "zones"), zones_at=zones_at)
            for machine in pool.machines:
                refuse_if("foreign_type", machine.cloud != "aws", at=(*at, "instanceTypes"), value=machine.name)
            require_own_labels("reserved_label", EKS_PROFILE, pool.labels, at=at)
            most = SPREAD_PER_ZONE * len(self.zones_of(pool))
            if pool.placement_group is not None and pool.placement_group.strategy == "spread" and pool.nodes.max > most:
                raise problem("spread_size", at=(*at, "nodes", "max"), per_zone=SPREAD_PER_ZONE, most=most)


def _known_zones(zones: tuple[str, ...], read: ValidationInfo) -> tuple[str, ...]:
    region = read.data.get("region")
    refuse_if("zones", not zones and region is not None and not zones_of(region), value=region)
    return zones


class EksCluster(EksPools):
    """An EKS cluster that the program creates: control plane, system pool, GPU pools as managed node groups."""

    zones: Annotated[tuple[str, ...], AfterValidator(_known_zones)] = Field(default=(), validate_default=True)
    """Availability Zones of the nodes. Default: those of the region in `fleet/facts/data/zones.csv`. You can add and remove zones
    at any time. The first has the only NAT gateway, unless `controlPlaneZones` is written, and pools give it one node more if
    their numbers do not divide."""
    control_plane_zones: tuple[str, ...] = ()
    """Zones of the control plane and of the system pool. Default: `zones`. They can never change after the creation, so write
    them down before you change `zones`. The first has the only NAT gateway. Source: EKS user guide, network-reqs. Example:
    `[us-west-2a, us-west-2b]`"""
    endpoint: Endpoint
    """Who can reach the Kubernetes API: public networks, or only the VPC."""
    network: Network = Network()
    """The VPC: a new one, or existing private subnets. Default: a new VPC 10.0.0.0/16 with one NAT gateway."""
    admins: tuple[Principal, ...] = ()
    """IAM roles and users with cluster-admin through access entries. Do not list the role that you deploy with: EKS makes the
    creator an admin and rejects a second entry. Example: `["arn:aws:iam::111122223333:role/platform"]`"""
    viewers: tuple[Principal, ...] = ()
    """IAM roles and users that read everything in the cluster through access entries, Secrets included, and change nothing: the
    preview role of bootstrap, because a preview reads the Secrets of Helm (docs/operate.md). Example:
    `["arn:aws:iam::111122223333:role/gpu-ci-acme-preview"]`"""
    upgrade_policy: UpgradePolicy | None = None
    """What AWS does when standard support of the Kubernetes minor ends. `EXTENDED`: the control plane stays, at the price of
    extended support. `STANDARD`: AWS upgrades it to the next minor by itself. EKS changes the policy only while the minor is in
    standard support. Default: EKS' own, which is EXTENDED for new and existing clusters. Source: EKS user guide,
    view-upgrade-policy. Example: `STANDARD`"""
    log_types: tuple[LogType, ...] = ("api", "audit", "authenticator")
    """Logs of the control plane that EKS sends to CloudWatch. CloudWatch charges for them. Source: EKS user guide,
    control-plane-logs. Example: `[api, audit, authenticator, scheduler]`"""
    log_retention_days: LogRetention = 90
    """Time that CloudWatch keeps the logs of the control plane. Unit: days. Source: CloudWatch Logs API, PutRetentionPolicy.
    Example: `365`"""
    system: SystemPool = SystemPool()
    """The pool of CPU nodes that runs controllers, listeners and CoreDNS. Mark: first."""
    registry: EcrRegistry | None = None
    """ECR for the runner image, caches of public registries and copies of images (docs/images.md)."""

    @property
    def account(self) -> str | None:
        """As in the base class, or the account of the registry."""
        return self.registry.account if self.registry is not None else super().account

    def holdings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """As in the base class, and the prefix of the registry, because ECR has each cache rule once."""
        yield from super().holdings()
        if self.registry is not None:
            prefix = f"prefix {self.registry.prefix} of account {self.registry.account} in {self.region}"
            yield ("registry", "prefix"), prefix

    @property
    def node_zones(self) -> tuple[str, ...]:
        """As in the base class: those of the cluster, or else all that the table has of its region."""
        return self.zones or zones_of(self.region)

    @property
    def fixed_zones(self) -> tuple[str, ...]:
        """Zones of the control plane and of the system pool. They are fixed at creation."""
        return self.control_plane_zones or self.node_zones

    @property
    def network_zones(self) -> tuple[str, ...]:
        """Zones that need subnets. The fixed ones come first, so that the one NAT gateway never moves to another zone."""
        return tuple(dict.fromkeys((*self.fixed_zones, *self.node_zones)))

    def _zone_settings(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """As in the base class, and those of the control plane."""
        yield from super()._zone_settings()
        yield ("controlPlaneZones",), self.control_plane_zones

    @property
    def own_cidr(self) -> str | None:
        """Range of a new VPC."""
        return self.network.new_cidr if self.network.vpc_id is None else None

    @property
    def private_sources(self) -> tuple[str, ...]:
        """Networks that reach a private endpoint on port 443. By default EKS allows only the nodes."""
        return self.endpoint.private_sources(self.own_cidr)

    HAS_CLOUDWATCH: ClassVar[bool] = True

    @property
    def drivers(self) -> tuple[str, ...]:
        """Add-ons that its caches and the volume of Prometheus need, each once."""
        needed = {cache.driver for cache in self.caches.values()}
        return tuple(sorted(needed | {EBS_DRIVER} if self.makes_class else needed))

    def disk_class(self, tags: Mapping[str, str]) -> Volumes:
        """As in the base class: gp3."""
        return gp3_class(tags)

    @property
    def addon_versions(self) -> dict[str, str]:
        """The version of each add-on that the program installs."""
        addons = self.kubernetes.addons | {name: self.kubernetes.drivers[name] for name in self.drivers}
        if self.monitoring is not None and self.monitoring.cloudwatch:
            addons[CLOUDWATCH] = self.kubernetes.cloudwatch
        return addons

    @property
    def provided(self) -> frozenset[str]:
        """The add-ons of its minor."""
        return frozenset(self.kubernetes.addons)

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about Prometheus' volume, the registry, the control plane's zones and the endpoint."""
        if self.makes_class and len(self.fixed_zones) > self.system.nodes.min:
            yield todo(said("prometheus_zone", zones=len(self.fixed_zones)))
        yield from self._registry_remarks()
        key = "controlPlaneZones" if self.control_plane_zones else "zones"
        yield from (below(key, remark) for remark in refused_zone(self.region))
        if self.endpoint.private and not self.private_sources:
            yield todo("endpoint: only the nodes can reach the private endpoint; list your networks in privateCidrs")

    def _registry_remarks(self) -> Iterator[str]:
        """What the registry saves at a cold start, what it needs of an existing network, and images that it has elsewhere."""
        if self.registry is None:
            return
        mirror = self.registry.mirror(self.region)
        for name, ami in self.amis.items():
            for image in ami.pre_pull:
                if (target := mirror.through(image)) != image:
                    yield todo(said("pre_pull_name", name=name, image=image.partition("@")[0], target=target.partition("@")[0]))
        if self.network.vpc_id is not None:
            yield costs(said("ecr_layers", vpc=self.network.vpc_id))
        elif self.registry.runner_image is not None:
            yield costs(cold_start_nat(self.registry.runner_image, self.region))
        if self.registry.pull_through or self.registry.copies:
            yield costs("registry: the size of cached images and copies is not known, so the bill lacks their storage")

    def uses(self) -> Iterator[Use]:
        """As in the base class, and the support of its Kubernetes minor."""
        yield from supported(self.kubernetes_version, self.region, self.upgrade_policy)
        yield from super().uses()

    def remarks_on(self, day: date) -> Iterator[str]:
        """The end of support for its Kubernetes minor, the cost of the control plane after that, and reservations."""
        yield from support_remarks(self.kubernetes_version, self.region, day, self.upgrade_policy)
        yield from super().remarks_on(day)

    @refusal
    def _own_rules(self) -> None:
        """Refuse settings that EKS refuses: a single zone, a zone without a subnet, subnets of other zones."""
        for at, zones in self._zone_settings():
            refuse(*at, zone_letter=self.network.vpc_id is None and any(zone[-1] > "g" for zone in zones))
            require_once("repeated_zone", zones, at=at)
        if len(self.fixed_zones) < 2:
            key = "controlPlaneZones" if self.control_plane_zones else "zones"
            raise problem("zones__control_plane", at=(key,))
        if self.registry is not None:
            self.registry.require_region(self.region)
            if self.build_caches is not None and self.build_caches.account != self.registry.account:
                raise problem("two_accounts", at=("registry", "account"), other=self.build_caches.account)
        require_once("repeated_admin", self.admins, at=("admins",))
        require_once("repeated_viewer", self.viewers, at=("viewers",))
        for index, principal in enumerate(self.viewers):
            refuse_if("admin_and_viewer", principal in self.admins, at=("viewers", str(index)), value=principal)
        subnets = self.network.private_subnets
        if self.network.vpc_id is not None and set(subnets) != set(self.network_zones):
            raise problem("subnet_zones", at=("network", "privateSubnets"), value=sorted(subnets))
