"""Settings of an OKE cluster on Oracle Cloud."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from fleet import compatibility, hardware, versions
from fleet.cluster import Cluster
from fleet.enablement import GPU_PLUGIN_ADDON, EnabledPool, require_enablement
from fleet.endpoint import Endpoint
from fleet.model import Cidr, DnsLabel, Duration, Memory, Model, problem
from fleet.node_image import NODE_IMAGES
from fleet.ocid import (
    AvailabilityDomain,
    CapacityReservationId,
    CompartmentId,
    ImageId,
    Region,
    SubnetId,
    VcnId,
    in_region,
    is_example,
    prefix,
    require_different,
    require_region,
)
from fleet.offer import allocatable
from fleet.operator import OperatorSettings
from fleet.pool import Pool, Reservation, idle_delay_range, require_preemptible
from fleet.providers.oke_addresses import node_subnet, of_node
from fleet.runner import KINDS, PodRunner, SetName
from fleet.scheduling import OKE_PROFILE, SYSTEM_POOL
from fleet.shape import BootVolume, Shape
from fleet.vm_runner import MachineRunner, VmPerJobRunner, VmRunner

FLEX_SHAPE = "VM.Standard.E5.Flex"
"""Shape of the system pool: its price stands in the table by OCPU and GB."""
_FLEX_MEMORY = 1049
"""GB that the shape has at most (docs.oracle.com, compute shapes)."""


def _kind(value: Any) -> str | None:
    """The kind that a runner's settings name; pod where they name none, unless they name shapes."""
    # A pod's model tells what is no mapping.
    unnamed = None if isinstance(value, dict) and "shapes" in value else "pod"
    named = value.get("kind", unnamed) if isinstance(value, dict) else getattr(value, "kind", unnamed)
    return named if named in KINDS else None


AnyRunner = Annotated[
    Annotated[PodRunner, Tag("pod")] | Annotated[VmRunner, Tag("vm")] | Annotated[VmPerJobRunner, Tag("vm-per-job")],
    Discriminator(
        _kind,
        custom_error_type="gpu_ci_runner_kind",
        custom_error_message="{message}",
        custom_error_context={
            "message": f"a runner is of kind {', '.join(KINDS[:-1])} or {KINDS[-1]}; name one (a pod may leave kind out)"
        },
    ),
]


class OciReservation(Reservation):
    """A compute capacity reservation; `zone` is its availability domain."""

    id: CapacityReservationId
    zone: AvailabilityDomain


def _node_image(kind: str) -> str:
    known = [name for name, image in NODE_IMAGES.items() if "oci" in image.clouds]
    if kind not in known:
        raise problem("node_image", f"OKE nodes have an image of kind {' or '.join(known)}; write one")
    return kind


class OkePool(Pool):
    """A GPU pool of one shape, as a managed node pool."""

    instance_types: Annotated[tuple[Shape, ...], Field(min_length=1)]
    reservation: OciReservation | None = None
    disk: BootVolume = 400 * 1024
    """Boot volume. CUDA images are 10-20 GB each, and OCI's default of 47 GB holds two."""
    image: Annotated[str, AfterValidator(_node_image)] = "oke-gpu"
    """Kind of node image; nodeImages has its OCID."""
    zones: tuple[AvailabilityDomain, ...] = ()
    """Its availability domains, all of the cluster's by default: many shapes are in some alone, and a domain without the shape
    makes the autoscaler give up the whole pool for a while."""

    @model_validator(mode="after")
    def _oke_rules(self) -> Self:
        """Refuse what OKE cannot make of a pool."""
        if len(self.instance_types) > 1:
            raise problem(
                "one_shape",
                "an OKE node pool has one shape; write one, and a pool for each other",
                at=("instanceTypes",),
                value=list(self.instance_types),
            )
        if self.capacity == "spot":
            require_preemptible(self.machines, at=("instanceTypes",))
        require_different(self.zones, at=("zones",))
        if self.reservation is not None and self.zones:
            raise problem(
                "reserved_zones",
                "the nodes of a reserved pool stand in the reservation's zone; remove zones",
                at=("zones",),
                value=list(self.zones),
            )
        for key in self.labels:
            if OKE_PROFILE.reserves(key):
                raise problem(
                    "oke_reserved_label",
                    "OKE or kubelet refuses labels of this domain; use one of your own, such as example.com/team",
                    at=("labels", key),
                    value=self.labels[key],
                )
        return self


class NodeImageId(Model):
    """A node image in the cluster's region, and the driver that it brings, as nvidia-smi shows it."""

    id: ImageId
    driver: Annotated[str, AfterValidator(compatibility.driver_version)] | None = None


def _one_size(value: object) -> object:
    if isinstance(value, dict):
        raise problem(
            "system_nodes", "the autoscaler leaves OKE's system pool alone, so it has one size; write a number, such as 2"
        )
    return value


class OkeSystemPool(Model):
    """The untainted CPU pool: controllers, listeners, launchers, CoreDNS. The autoscaler leaves its size alone."""

    ocpus: Annotated[int, Field(ge=1, le=94)] = 2
    memory: Memory = 16 * 1024
    nodes: Annotated[int, BeforeValidator(_one_size), Field(ge=1, le=100)] = 2
    disk: BootVolume = 100 * 1024

    @model_validator(mode="after")
    def _rules(self) -> Self:
        """Refuse memory that the shape does not have for its OCPUs: 1 to 64 GB each, whole GB."""
        most = min(64 * self.ocpus, _FLEX_MEMORY)
        if self.memory % 1024 or not self.ocpus <= self.memory // 1024 <= most:
            raise problem(
                "flex_memory",
                f"{FLEX_SHAPE} with ocpus {self.ocpus} has {self.ocpus}Gi to {most}Gi, whole Gi; write one between",
                at=("memory",),
            )
        return self


class OkeNetwork(Model):
    """The cluster's VCN: a new one, or given subnets. Nodes and machines have private addresses either way."""

    cidr: Cidr | None = None
    """Of a new VCN; 10.0.0.0/16 when nothing is given."""
    vcn: VcnId | None = None
    endpoint_subnet: SubnetId | None = None
    node_subnet: SubnetId | None = None
    """Regional, private, with a NAT and a service gateway."""
    compartment: CompartmentId | None = None
    """Of a given network, where it is not the cluster's."""

    @model_validator(mode="after")
    def _network_rules(self) -> Self:
        """Either a new VCN or a given one with both its subnets."""
        given = (self.vcn, self.endpoint_subnet, self.node_subnet)
        if any(given) != all(given):
            raise problem("given_vcn", "an existing network needs vcn, endpointSubnet and nodeSubnet; give all or none")
        if self.vcn is None and self.compartment is not None:
            raise problem(
                "network_compartment",
                "a new VCN is made in the cluster's compartment; remove compartment, or give vcn",
                at=("compartment",),
                value=self.compartment,
            )
        if self.vcn is not None and self.cidr is not None:
            raise problem("given_vcn", "cidr belongs to a new VCN; remove it, or remove vcn")
        if self.vcn is None and (":" in self.new_cidr or not 16 <= int(self.new_cidr.partition("/")[2]) <= 20):
            raise problem(
                "vcn_cidr",
                "a new VCN is an IPv4 network from /16 to /20, since a node and its pods take over a hundred addresses; "
                "write for example 10.0.0.0/16",
                at=("cidr",),
                value=self.new_cidr,
            )
        return self

    @property
    def new_cidr(self) -> str:
        """Address range of a new VCN."""
        return self.cidr or "10.0.0.0/16"


class OkeCluster(Cluster):
    """An OKE cluster: enhanced control plane, system pool, GPU pools as managed node pools, and OCI machines as runners."""

    provider: Literal["oke"]
    region: Region
    zones: Annotated[tuple[AvailabilityDomain, ...], Field(min_length=1)]
    """Availability domains, in the order in which pools use them."""
    compartment: CompartmentId
    machine_compartment: CompartmentId | None = None
    """Where machines that run jobs live; one of their own keeps the nodes out of the launchers' reach."""
    home_region: Region | None = None
    """The tenancy's, where it is not this one: OCI takes policies there alone."""
    endpoint: Endpoint
    network: OkeNetwork = OkeNetwork()
    node_images: dict[DnsLabel, NodeImageId]
    """OCIDs by kind of node image; `system` is the one without GPU."""
    enablement: Literal["device-plugin", "gpu-operator", "gpu-plugin-addon"] = "gpu-plugin-addon"
    gpu_plugin_addon: bool | None = None
    """OKE's own device plugin, on or off; by default what the enablement says."""
    operator: OperatorSettings | None = None
    delivery: Literal["helm"] = "helm"
    idle_delay: Annotated[Duration, AfterValidator(idle_delay_range)] = 600
    """How long a node of any pool stays unneeded before the autoscaler removes it, in seconds: OKE's has one delay for all."""
    system: OkeSystemPool = OkeSystemPool()
    pools: dict[DnsLabel, OkePool]
    runners: dict[SetName, AnyRunner]

    @property
    def kubernetes(self) -> str:
        """The Kubernetes version as OKE spells it."""
        return versions.OKE_KUBERNETES[self.kubernetes_version]

    def machine_runners(self) -> Iterator[tuple[str, MachineRunner]]:
        """Runner sets whose runners are machines, in the order of the config."""
        for name, runner in self.runners.items():
            if isinstance(runner, MachineRunner):
                yield name, runner

    def _remarks(self) -> Iterator[str]:
        """What keeps `pulumi up` from working, or is nobody's promise, though the settings are a fleet."""
        yield from super()._remarks()
        if any(map(is_example, self._ocids())):
            yield "OCIDs that begin with example stand in for real ones; set your own before pulumi up"
        for cidr in self.endpoint.public_cidrs:
            if not ipaddress.ip_network(cidr).is_global:
                yield f"endpoint.publicCidrs: {cidr} is reserved; set your own networks before pulumi up"
        if self.enablement != GPU_PLUGIN_ADDON and any(pool.image == "oke-gpu" for pool in self.pools.values()):
            yield (
                f"enablement {self.enablement} on Oracle's GPU image: NVIDIA qualifies that image with OKE's add-on alone; "
                f"test it, or use {GPU_PLUGIN_ADDON}"
            )
        launched = [name for name, runner in self.machine_runners() if runner.booted_here]
        if launched and self.machine_compartment in (None, self.compartment):
            yield (
                f"machineCompartment: machines of {', '.join(launched)} share the cluster's compartment, so their launchers "
                "may end its nodes too; set it to a compartment of the machines' own"
            )
        if self.network.vcn is None:
            subnet, room = node_subnet(self.network.new_cidr)
            if (most := self._addresses()[1]) > room:
                yield (
                    f"network.cidr: full pools and machine sets take {most} addresses of the node subnet, {subnet} has {room}: "
                    "those beyond it never start; give a larger cidr, or lower nodes.max and scale.max"
                )
        for name, runner in self.machine_runners():
            yield from (f"runner set {name}: {remark}" for remark in runner.remarks)

    def _addresses(self) -> tuple[int, int]:
        """The least and the most addresses of the node subnet that are taken: by nodes with their pods, and by machines.

        At least by the nodes that always stand and the standing machines. At most, each pool and set of machines is full, and a
        machine a job is in this subnet wherever it may be. Machines and nodes that replace others come on top for a while.
        """
        system = hardware.flexible(FLEX_SHAPE, self.system.ocpus, self.system.memory)
        least = most = self.system.nodes * of_node(allocatable(system, self.system.disk).pods)
        for pool in self.pools.values():
            each = of_node(allocatable(pool.machines[0], pool.disk).pods)
            least, most = least + pool.nodes.min * each, most + pool.nodes.max * each
        for _, runner in self.machine_runners():
            if isinstance(runner, VmRunner):
                least, most = least + runner.count, most + runner.count
            elif isinstance(runner, VmPerJobRunner):
                most += runner.scale.max * any(place.region == self.region and place.subnet is None for place in runner.places)
        return least, most

    def _ocids(self) -> Iterator[str]:
        yield self.compartment
        if self.machine_compartment is not None:
            yield self.machine_compartment
        yield from (ocid for _, ocid in self._here() if ocid is not None)
        for _, runner in self.machine_runners():
            if runner.image is not None:
                yield runner.image.id
            for place in runner.places if isinstance(runner, VmPerJobRunner) else ():
                yield from filter(None, (place.subnet, place.security_group, place.image))

    def tenancies(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Prefixes of availability domains. Those of pools and standing machines are among the cluster's own."""
        for index, domain in enumerate(self.zones):
            yield ("zones", str(index)), prefix(domain)
        for name, runner in self.machine_runners():
            for number, place in enumerate(runner.places if isinstance(runner, VmPerJobRunner) else ()):
                for index, domain in enumerate(place.availability_domains):
                    yield ("runners", name, "places", str(number), "availabilityDomains", str(index)), prefix(domain)

    def _here(self) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """(path, OCID) of what must be of the cluster's own region."""
        network = self.network
        yield ("network", "vcn"), network.vcn
        yield ("network", "endpointSubnet"), network.endpoint_subnet
        yield ("network", "nodeSubnet"), network.node_subnet
        for kind, image in self.node_images.items():
            yield ("nodeImages", kind, "id"), image.id
        for name, pool in self.pools.items():
            yield ("pools", name, "reservation", "id"), pool.reservation.id if pool.reservation else None
        for name, runner in self.machine_runners():
            boots_here = isinstance(runner, VmRunner) or (
                isinstance(runner, VmPerJobRunner)
                and any(place.region == self.region and place.image is None for place in runner.places)
            )
            if runner.image is not None and boots_here:
                yield ("runners", name, "image", "id"), runner.image.id

    @model_validator(mode="after")
    def _oke_rules(self) -> Self:
        """Refuse foreign availability domains, an unsupported version, images that are not named or of another region."""
        for index, domain in enumerate(self.zones):
            if not in_region(domain, self.region):
                raise problem(
                    "oke_zone",
                    f"not an availability domain of {self.region}; use its own",
                    at=("zones", str(index)),
                    value=domain,
                )
        require_different(self.zones, at=("zones",))
        if self.kubernetes_version not in versions.OKE_KUBERNETES:
            known = ", ".join(versions.OKE_KUBERNETES)
            raise problem(
                "oke_version",
                f"no OKE version is known for this minor; use one of: {known}",
                at=("kubernetesVersion",),
                value=self.kubernetes_version,
            )
        for name in (SYSTEM_POOL, *(pool.image for pool in self.pools.values())):
            if name not in self.node_images:
                raise problem(
                    "node_image_id",
                    f"there is no OCID of an image of kind {name}; add {name}: {{id: ocid1.image.oc1.…}}, one of those that "
                    "`oci ce node-pool-options get --node-pool-option-id all` lists",
                    at=("nodeImages",),
                    value=sorted(self.node_images),
                )
        for kind, image in self.node_images.items():
            if image.driver is not None and not (kind in NODE_IMAGES and NODE_IMAGES[kind].driver):
                raise problem(
                    "node_image_driver",
                    f"an image of kind {kind} brings no driver; remove driver",
                    at=("nodeImages", kind, "driver"),
                    value=image.driver,
                )
        for at, ocid in self._here():
            require_region(ocid, self.region, at=at)
        for name, pool in self.pools.items():
            for index, domain in enumerate(pool.zones):
                if domain not in self.zones:
                    raise problem(
                        "pool_zone",
                        "the availability domain is none of the cluster's; use one of zones",
                        at=("pools", name, "zones", str(index)),
                        value=domain,
                    )
            if pool.reservation is not None and pool.reservation.zone not in self.zones:
                raise problem(
                    "oke_reservation_zone",
                    "the reservation's availability domain is none of the cluster's; add it to zones",
                    at=("pools", name, "reservation", "zone"),
                    value=pool.reservation.zone,
                )
        return self

    @model_validator(mode="after")
    def _oke_room(self) -> Self:
        """Refuse a new VCN that has no addresses for what always stands."""
        if self.network.vcn is None:
            least, (subnet, room) = self._addresses()[0], node_subnet(self.network.new_cidr)
            if least > room:
                raise problem(
                    "vcn_addresses",
                    f"what always stands takes {least} addresses of the node subnet, {subnet} has {room}; "
                    "give a larger cidr, or lower nodes.min",
                    at=("network", "cidr"),
                    value=self.network.new_cidr,
                )
        return self

    @model_validator(mode="after")
    def _oke_enablement(self) -> Self:
        """Hold pools and what advertises their GPUs to each other."""
        by_addon = self.enablement == GPU_PLUGIN_ADDON
        if self.gpu_plugin_addon is not None and self.gpu_plugin_addon != by_addon:
            found = (
                f"OKE's add-on and enablement {self.enablement} would both advertise the GPUs"
                if self.gpu_plugin_addon
                else "nothing would advertise the GPUs"
            )
            raise problem(
                "addon_advertiser",
                f"{found}; remove gpuPluginAddon, which follows from enablement, or set another enablement",
                at=("gpuPluginAddon",),
                value=self.gpu_plugin_addon,
            )
        enabled = {
            name: EnabledPool(
                pool, NODE_IMAGES[pool.image], self.node_images[pool.image].driver, ("nodeImages", pool.image, "driver")
            )
            for name, pool in self.pools.items()
        }
        require_enablement(self.enablement, self.operator, enabled)
        return self

    @model_validator(mode="after")
    def _oke_machine_rules(self) -> Self:
        """Refuse standing machines outside the cluster's domains, and places of other regions without what they need there."""
        for name, runner in self.machine_runners():
            if isinstance(runner, VmRunner):
                for index, domain in enumerate(runner.availability_domains):
                    if domain not in self.zones:
                        raise problem(
                            "vm_domain",
                            "standing machines are in the cluster's own availability domains; use one of zones",
                            at=("runners", name, "availabilityDomains", str(index)),
                            value=domain,
                        )
            if isinstance(runner, VmPerJobRunner) and runner.launcher == "gpu-ci":
                for index, place in enumerate(runner.places):
                    own = {"subnet": place.subnet, "securityGroup": place.security_group, "image": place.image}
                    missing = [key for key, ocid in own.items() if ocid is None]
                    if place.region != self.region and missing:
                        raise problem(
                            "place_network",
                            f"a place in another region than the cluster's needs what it has there; add {', '.join(missing)}",
                            at=("runners", name, "places", str(index)),
                            value=place.region,
                        )
        return self
