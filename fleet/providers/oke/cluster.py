"""Settings of an OKE cluster on Oracle Cloud."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts import versions
from fleet.facts.lifecycle import Use, of_oke
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.offer import allocatable
from fleet.facts.remark import below, said, todo
from fleet.facts.scheduling import OKE_NO_PLUGIN_LABEL, SYSTEM_POOL
from fleet.providers.oke import ocid
from fleet.providers.oke.addons import AUTOSCALER_ADDON, PLUGIN_ADDON, AddonVersions
from fleet.providers.oke.caches import Attachment, OkeCache, block_class
from fleet.providers.oke.network import OF_MOUNT_TARGET, OkeNetwork, node_subnet, of_node
from fleet.providers.oke.nodes import NodeImageId, OkePool, OkeSystemPool
from fleet.providers.oke.ocir import OcirRegistry
from fleet.providers.oke.runners import AnyRunner, OkePodRunner
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner, require_own_network
from fleet.settings import compatibility
from fleet.settings.budget import Budget
from fleet.settings.caches import Volumes
from fleet.settings.cluster import Cluster, ReplaceNodes
from fleet.settings.enablement import GPU_PLUGIN_ADDON
from fleet.settings.endpoint import Endpoint
from fleet.settings.model import DnsLabel
from fleet.settings.pool import IdleDelay, require_in_zones, unused_disks
from fleet.settings.refusals import problem, refusal, refuse, refuse_if
from fleet.settings.runner import SetName


def _minor_of(version: str) -> str:
    """The Kubernetes minor in an add-on's version: "1.34" of "v1.34.3"."""
    return ".".join(version.removeprefix("v").split(".")[:2])


class OciBudget(Budget):
    """A budget over a compartment and those below it."""

    compartment: ocid.CompartmentId | None = None
    """OCID of the compartment that the budget watches, with those below it. Default: the cluster's. If machines are in
    another one, name a compartment above both. Mark: first."""


class OkePools(Cluster):
    """The GPU pools of an OKE cluster as managed node pools, and what they need: domains, a compartment, images, a version."""

    provider: Literal["oke"]
    """Oracle Kubernetes Engine (OKE)."""
    region: ocid.Region
    """OCI region of the cluster, by its full name."""
    zones: Annotated[tuple[ocid.AvailabilityDomain, ...], Field(min_length=1)]
    """Availability domains. Caches of files are mounted from the first. Their prefix belongs to your tenancy: `oci iam
    availability-domain list` shows them."""
    compartment: ocid.CompartmentId
    """OCID of the compartment of the cluster, its nodes and its network."""
    tenancy: ocid.TenancyId | None = None
    """OCID of the tenancy. Required with `budget`, `declareQuotas` and `registry`. Mark: first."""
    compartment_path: ocid.CompartmentPath | None = None
    """Names from the tenancy's root down to the compartment, with colons between them. Quotas refer to a compartment by this
    path. Required with `declareQuotas`. Mark: first."""
    home_region: ocid.Region | None = None
    """Home region of the tenancy, if it is another one. OCI accepts policies only there."""
    budget: OciBudget | None = None
    """A monthly budget over a compartment, with alarms by email. It stops nothing. Default: none. Mark: first."""
    node_images: dict[DnsLabel, NodeImageId]
    """Node images by kind: `oke-gpu` or another image of a pool, and `system` for the image without GPU driver of a system
    pool."""
    enablement: Literal["device-plugin", "gpu-operator", "gpu-plugin-addon"] = "gpu-plugin-addon"
    addon_versions: AddonVersions = Field(default_factory=dict)
    """Versions of OKE's add-ons. Oracle updates an add-on without a version by itself. Source: docs.oracle.com, updating a
    cluster add-on. Mark: first."""
    idle_delay: IdleDelay = 600
    """Time that a node stays unneeded before the autoscaler removes it, from 1m to 24h. OKE has one delay for all pools."""
    pools: dict[DnsLabel, OkePool] = Field(default_factory=dict)
    replace_nodes: ReplaceNodes = "wait"
    """What an edit that needs other nodes does with the old node pools: `wait` keeps them, without new pods, until they are
    empty; `evict` deletes them at once, and their jobs end (docs/replacing-nodes.md). Example: `evict`"""

    IMAGES: ClassVar[tuple[str, ...]] = ()
    """Kinds of node images that the cluster needs besides those of its pools."""

    def disk_parts(self, gib: int) -> Mapping[str, float]:
        """As in the base class."""
        return {"oci-volume-gb": gib}

    @property
    def gpu_node_labels(self) -> Mapping[str, str]:
        """As in the base class. It is stated both ways: what OKE does without the label has changed over time."""
        return {OKE_NO_PLUGIN_LABEL: "false" if self.enablement == GPU_PLUGIN_ADDON else "true"}

    def idle_delay_of(self, pool: str) -> int:
        """As in the base class: the autoscaler has one for all pools."""
        return self.idle_delay

    @property
    def kubernetes(self) -> str:
        """The Kubernetes version as OKE writes it."""
        return versions.OKE_KUBERNETES[self.kubernetes_version].version

    @property
    def machines_in(self) -> str:
        """OCID of the compartment of machines that run jobs."""
        return self.compartment

    @property
    def in_tenancy(self) -> bool:
        """Whether it declares a budget or quotas, which belong to the tenancy."""
        return self.budget is not None or self.declare_quotas

    @property
    def boots_oracle_image(self) -> bool:
        """Whether a pool boots Oracle's GPU image."""
        return any(pool.image == "oke-gpu" for pool in self.pools.values())

    def image_driver(self, pool: str) -> str | None:
        """The driver version that `nodeImages` names for the pool's image."""
        return self.node_images[self.pools[pool].image].driver

    def uses(self) -> Iterator[Use]:
        """Oracle's support of its Kubernetes minor."""
        if (life := of_oke(self.kubernetes_version)) is not None:
            yield Use(life, "raise kubernetesVersion by one minor (docs/upgrades.md)")

    @property
    def watched(self) -> str:
        """An OCI budget counts one compartment."""
        return f"compartment {(self.budget and self.budget.compartment) or self.compartment}"

    @property
    def quota_scopes(self) -> tuple[str, ...]:
        """OCI has quotas per compartment."""
        return tuple(dict.fromkeys((self.compartment, self.machines_in)))

    @property
    def quota_paths(self) -> dict[str, str]:
        """The known paths of the cluster's compartments, by OCID."""
        return {self.compartment: self.compartment_path} if self.compartment_path else {}

    def images(self) -> Iterator[tuple[str, str]]:
        """(region, OCID) of each image of nodes and machines."""
        yield from ((self.region, image.id) for image in self.node_images.values())
        for _, runner in self.machine_runners():
            for place in runner.places_in(self.region):
                image = place.image or (runner.image.id if runner.image is not None else None)
                if image is not None:
                    yield place.region, image

    def shapes(self) -> Iterator[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
        """(name, region, availability domains, shapes) of each group of machines. A domain needs one of the shapes."""
        for name, pool in self.pools.items():
            zones = (pool.reservation.zone,) if pool.reservation is not None else pool.zones or self.zones
            yield f"pool {name}", self.region, zones, pool.instance_types
        for name, runner in self.machine_runners():
            for place in runner.places_in(self.region):
                yield f"runner set {name}", place.region, place.availability_domains, runner.shapes

    def machine_runners(self) -> Iterator[tuple[str, MachineRunner]]:
        """Runner sets whose runners are machines, in the order of the config."""
        yield from ((name, runner) for name, runner in self.runners.items() if isinstance(runner, MachineRunner))

    def regions_of(self, runner: MachineRunner) -> tuple[str, ...]:
        """Regions of a set's machines, in the order in which the launcher tries them."""
        return tuple(dict.fromkeys(place.region for place in runner.places_in(self.region)))

    def _remarks(self) -> Iterator[str]:
        """Warnings about valid settings: facts without a source, and limits of OCI."""
        yield from super()._remarks()
        yield from self._cluster_remarks()
        yield from self._unsourced()
        if self.enablement != GPU_PLUGIN_ADDON and self.boots_oracle_image:
            yield said("oracle_image", enablement=self.enablement, addon=GPU_PLUGIN_ADDON)
        yield from self._network_remarks()
        for name, pool in self.pools.items():
            if pool.local_storage is None:
                yield from (below(f"pool {name}", remark) for remark in unused_disks(pool, "localStorage"))
        yield from self._unenforced()

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about the control plane."""
        yield from ()

    def _network_remarks(self) -> Iterator[str]:
        """Warnings about addresses, machines and caches."""
        yield from ()

    def _unenforced(self) -> Iterator[str]:
        """Remarks on pods that no NetworkPolicy restricts.

        Source: docs.oracle.com, installing Calico and setting up network policies.
        """
        reached = "the VCN, other namespaces and the nodes"
        for name, runner in self.runners.items():
            if isinstance(runner, OkePodRunner):
                yield said("unenforced_jobs", name=name, reached=reached, why=runner.accept_unenforced_network)
        if self.team_namespaces:
            yield said("unenforced_pods", namespaces=", ".join(self.team_namespaces), reached=reached)

    def _unsourced(self) -> Iterator[str]:
        """Remarks on facts that no source names for the Kubernetes version and node images: the plan cannot judge these."""
        row = versions.OKE_KUBERNETES[self.kubernetes_version]
        if row.gpu_image is None and self.boots_oracle_image:
            yield said("oke_gpu_image", version=row.version)
        for name, pool in self.pools.items():
            if NODE_IMAGES[pool.image].driver and self.image_driver(name) is None:
                fix = f"run nvidia-smi on a node, then write nodeImages.{pool.image}.driver"
                yield f"pool {name}: {compatibility.undeterminable(pool.machines, fix)}"

    def tenancies(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Prefixes of availability domains. Pools and standing machines use only domains of the cluster."""
        yield from ((("zones", str(index)), ocid.prefix(domain)) for index, domain in enumerate(self.zones))
        for name, runner in self.machine_runners():
            for number, place in enumerate(runner.places if isinstance(runner, VmPerJobRunner) else ()):
                for index, domain in enumerate(place.availability_domains):
                    yield ("runners", name, "places", str(number), "availabilityDomains", str(index)), ocid.prefix(domain)

    def _here(self) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """(path, OCID) of each resource that must be in the cluster's region."""
        yield from ((("nodeImages", kind, "id"), image.id) for kind, image in self.node_images.items())
        for name, pool in self.pools.items():
            yield ("pools", name, "reservation", "id"), pool.reservation.id if pool.reservation else None

    @refusal
    def _oke_rules(self) -> None:
        """Refuse availability domains, images and other OCIDs of another region, an unknown version, and missing images."""
        ocid.require_domains("oke_zone", self.zones, self.region, at=("zones",))
        if self.kubernetes_version not in versions.OKE_KUBERNETES:
            raise problem("oke_version", at=("kubernetesVersion",), minors=", ".join(versions.OKE_KUBERNETES))
        for name in (*self.IMAGES, *(pool.image for pool in self.pools.values())):
            if name not in self.node_images:
                raise problem("node_image_id", at=("nodeImages",), value=sorted(self.node_images), name=name)
        for kind, image in self.node_images.items():
            if image.driver is not None and not (kind in NODE_IMAGES and NODE_IMAGES[kind].driver):
                raise problem("node_image_driver", at=("nodeImages", kind, "driver"), kind=kind)
        for at, identifier in self._here():
            ocid.require_region(identifier, self.region, at=at)
        for name, pool in self.pools.items():
            require_in_zones("pool_zone__domain", pool.zones, self.zones, at=("pools", name, "zones"))
            if pool.reservation is not None and pool.reservation.zone not in self.zones:
                raise problem("oke_reservation_zone", at=("pools", name, "reservation", "zone"))

    @refusal
    def _oke_governance(self) -> None:
        """Refuse budgets and quotas without tenancy or paths, and versions of add-ons that are not installed."""
        refuse("tenancy", tenancy=self.tenancy is None and self.in_tenancy)
        if self.declare_quotas and set(self.quota_paths) != set(self.quota_scopes):
            key = "compartmentPath" if self.compartment_path is None else "machineCompartmentPath"
            raise problem("quota_path", at=(key,), key=key)
        installed = {AUTOSCALER_ADDON: bool(self.pools), PLUGIN_ADDON: self.enablement == GPU_PLUGIN_ADDON}
        for name in self.addon_versions:
            refuse_if("addon_absent", not installed[name], at=("addonVersions", name), name=name)
        self._require_autoscaler(self.addon_versions.get(AUTOSCALER_ADDON))

    def _require_autoscaler(self, version: str | None) -> None:
        """Refuse an autoscaler that is older than Oracle's for the cluster's minor, or newer than the cluster.

        Oracle's may be of an older minor than the cluster (docs.oracle.com, compatibility matrix).
        """
        of_oracle, newest = versions.OKE_KUBERNETES[self.kubernetes_version].autoscaler, self.kubernetes_version
        oldest = _minor_of(of_oracle) if of_oracle else newest
        if version is None or versions.minor(oldest) <= versions.minor(_minor_of(version)) <= versions.minor(newest):
            return
        minors = " to ".join(dict.fromkeys((oldest, newest)))
        write = of_oracle or "one that `oci ce addon-option list` shows for it"
        raise problem("addon_minor", at=("addonVersions", AUTOSCALER_ADDON), newest=newest, minors=minors, write=write)

    @refusal
    def _oke_enablement(self) -> None:
        """Refuse pools and an enablement that do not fit each other."""
        self._require_enablement(driver_at=lambda _, pool: ("nodeImages", pool.image, "driver"))


class OkeCluster(OkePools):
    """An OKE cluster that the program creates: control plane, system pool, GPU pools, and OCI machines as runners."""

    DEFAULT_CLASS: ClassVar[bool] = True
    """`oci-bv`, block volumes (docs.oracle.com, provisioning PVCs on the Block Volume service)."""
    IMAGES: ClassVar[tuple[str, ...]] = (SYSTEM_POOL,)

    machine_compartment: ocid.CompartmentId | None = None
    """OCID of the compartment of the machines that run jobs. With a separate one the launchers have no access to the nodes.
    Default: `compartment`. Mark: first."""
    machine_compartment_path: ocid.CompartmentPath | None = None
    """Names from the tenancy's root down to `machineCompartment`, with colons between them. Required with `declareQuotas` if
    the cluster has machines. Mark: first."""
    endpoint: Endpoint
    """Who can reach the Kubernetes API: public networks, or only the VCN."""
    network: OkeNetwork = OkeNetwork()
    """The VCN: a new one, or existing subnets. Default: a new VCN 10.0.0.0/16."""
    gpu_plugin_addon: bool | None = None
    """Whether OKE's own device plugin is on. Default: on with `enablement: gpu-plugin-addon`, else off. Example: `true`"""
    system: OkeSystemPool = OkeSystemPool()
    """The pool of CPU nodes that runs controllers, listeners, launchers and CoreDNS. Mark: first."""
    caches: dict[DnsLabel, OkeCache] = Field(default_factory=dict)
    registry: OcirRegistry | None = None
    """Container Registry of OCI for the runner image and copies of images (docs/images.md)."""
    runners: dict[SetName, AnyRunner]
    """Runner classes by name. The name is what a workflow writes in `runs-on`, at most 45 characters. `kind` selects pods of a
    pool, standing machines or a machine per job."""

    def holdings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """As in the base class, and the prefix of the registry."""
        yield from super().holdings()
        if self.registry is not None:
            yield ("registry", "prefix"), f"prefix {self.registry.prefix} of {self.registry.namespace} in {self.region}"

    @property
    def provided(self) -> frozenset[str]:
        """The add-on KubernetesMetricsServer replaces metrics-server. It needs the add-on CertManager, and you enable both."""
        return frozenset(("metrics-server",))

    @property
    def own_cidr(self) -> str | None:
        """Range of a new VCN."""
        return self.network.new_cidr if self.network.vcn is None else None

    @property
    def machines_in(self) -> str:
        """OCID of the compartment of machines that run jobs."""
        return self.machine_compartment or self.compartment

    @property
    def shares_files(self) -> bool:
        """Whether a cache uses File Storage, which needs a mount target."""
        return any(cache.shared for cache in self.caches.values())

    @property
    def attachment(self) -> Attachment:
        """How block volumes are attached to its nodes.

        Virtual machines encrypt their volume traffic, which allows only paravirtualized attachments
        (oracle/oci-cloud-controller-manager, pkg/csi/driver/bv_controller.go). Bare metal does not support these.
        """
        metal = any(machine.bare_metal for pool in self.pools.values() for machine in pool.machines)
        return "iscsi" if metal else "paravirtualized"

    def disk_class(self, tags: Mapping[str, str]) -> Volumes:
        """As in the base class: block volumes with balanced performance."""
        return block_class(tags, self.attachment)

    @property
    def quota_paths(self) -> dict[str, str]:
        """The known paths of the cluster's compartments, by OCID."""
        # The cluster's compartment comes last, because the machines may be in the same one.
        paths = {self.machine_compartment: self.machine_compartment_path, self.compartment: self.compartment_path}
        return {identifier: path for identifier, path in paths.items() if identifier and path}

    def _cluster_remarks(self) -> Iterator[str]:
        """Warnings about the registry."""
        if self.registry is not None:
            yield todo(said("oke_registry"))

    def _network_remarks(self) -> Iterator[str]:
        """Warnings about a budget that does not watch the machines, addresses, machines and caches."""
        if self.budget is not None and self.budget.compartment is None and self.machines_in != self.compartment:
            yield said("oke_budget")
        launched = [name for name, runner in self.machine_runners() if runner.booted_here]
        if launched and self.machine_compartment in (None, self.compartment):
            yield todo(said("machine_compartment", launched=", ".join(launched)))
        if self.network.vcn is None:
            subnet, room = node_subnet(self.network.new_cidr)
            if (most := self._addresses()[1]) > room:
                yield todo(said("oke_addresses", most=most, subnet=subnet, room=room))
        for name, runner in self.machine_runners():
            yield from (below(f"runner set {name}", remark) for remark in runner.remarks())
        for name, cache in self.caches.items():
            if not cache.shared:
                yield said("block_volume_domain", name=name)
            if cache.encrypt_in_transit:
                yield said("fss_package", name=name)

    def _addresses(self) -> tuple[int, int]:
        """The minimum and maximum number of addresses of the node subnet in use, by nodes with their pods and by machines.

        The minimum has the permanent nodes and the standing machines. The maximum has full pools and sets, with every machine
        that may be in this subnet. Replacements of nodes and machines temporarily need more.
        """
        least = most = self.system.nodes * of_node(allocatable(self.system.machine, self.system.disk).pods)
        for pool in self.pools.values():
            addresses = of_node(allocatable(pool.machines[0], pool.disk).pods)
            least, most = least + pool.idle_nodes * addresses, most + pool.nodes.max * addresses
        if self.shares_files:
            least, most = least + OF_MOUNT_TARGET, most + OF_MOUNT_TARGET
        for _, runner in self.machine_runners():
            if isinstance(runner, VmRunner):
                least, most = least + runner.count, most + runner.count
            elif isinstance(runner, VmPerJobRunner):
                most += runner.scale.max * any(place.region == self.region and place.subnet is None for place in runner.places)
        return least, most

    def _here(self) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """(path, OCID) of each resource that must be in the cluster's region."""
        yield ("network", "vcn"), self.network.vcn
        yield ("network", "endpointSubnet"), self.network.endpoint_subnet
        yield ("network", "nodeSubnet"), self.network.node_subnet
        yield from super()._here()
        for name, runner in self.machine_runners():
            boots_here = any(place.region == self.region and place.image is None for place in runner.places_in(self.region))
            if runner.image is not None and boots_here:
                yield ("runners", name, "image", "id"), runner.image.id

    @refusal
    def _oke_registry(self) -> None:
        """Refuse a registry without tenancy, where its dynamic group belongs, and one that machines of jobs could read."""
        if self.registry is None:
            return
        refuse("registry", registry_tenancy=self.tenancy is None)
        refuse("registry", registry_machines=self.machines_in == self.compartment and any(self.machine_runners()))

    @refusal
    def _oke_plugin(self) -> None:
        """Refuse a setting of OKE's device plugin that contradicts the enablement."""
        by_addon, at = self.enablement == GPU_PLUGIN_ADDON, ("gpuPluginAddon",)
        refuse_if("addon_advertiser__both", self.gpu_plugin_addon and not by_addon, at=at, enablement=self.enablement)
        refuse_if("addon_advertiser", self.gpu_plugin_addon is False and by_addon, at=at)

    @refusal
    def _oke_volumes_and_addresses(self) -> None:
        """Refuse block volumes for VMs and bare metal together, and a new VCN with too few addresses for permanent nodes.

        A storage class attaches its volumes in one way.
        """
        metal = {machine.bare_metal for pool in self.pools.values() for machine in pool.machines}
        for name, cache in self.caches.items():
            refuse("caches", name, "storage", cache_attachment=not cache.shared and len(metal) > 1)
        if self.network.vcn is None:
            least, (subnet, room) = self._addresses()[0], node_subnet(self.network.new_cidr)
            if least > room:
                net = self.network.new_cidr
                raise problem("vcn_addresses", at=("network", "cidr"), value=net, least=least, subnet=subnet, room=room)

    @refusal
    def _oke_machine_rules(self) -> None:
        """Refuse standing machines outside of the cluster's domains, and places in other regions without network and image."""
        for name, runner in self.machine_runners():
            if isinstance(runner, VmRunner):
                at = ("runners", name, "availabilityDomains")
                require_in_zones("vm_domain", runner.availability_domains, self.zones, at=at)
            if isinstance(runner, VmPerJobRunner):
                require_own_network(runner, self.region, at=("runners", name))
