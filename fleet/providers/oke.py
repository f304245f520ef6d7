"""Settings of an OKE cluster on Oracle Cloud."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from fleet import compatibility, versions
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
)
from fleet.operator import OperatorSettings
from fleet.pool import Disk, Pool, Reservation, idle_delay_range, require_preemptible
from fleet.runner import KINDS, PodRunner, SetName
from fleet.scheduling import OKE_PROFILE
from fleet.vm_runner import MachineRunner, VmPerJobRunner, VmRunner

FLEX_SHAPE = "VM.Standard.E5.Flex"
"""Shape of the system pool: its price stands in the table by OCPU and GB."""


def _kind(value: Any) -> str | None:
    """The kind that a runner's settings name; pod where they name none."""
    named = value.get("kind", "pod") if isinstance(value, dict) else getattr(value, "kind", None)
    return named if named in KINDS else None


AnyRunner = Annotated[
    Annotated[PodRunner, Tag("pod")] | Annotated[VmRunner, Tag("vm")] | Annotated[VmPerJobRunner, Tag("vm-per-job")],
    Discriminator(
        _kind,
        custom_error_type="gpu_ci_runner_kind",
        custom_error_message="{message}",
        custom_error_context={"message": f"a runner's kind is one of: {', '.join(KINDS)}; write one, or leave kind out for pod"},
    ),
]


class OciReservation(Reservation):
    """A compute capacity reservation; `zone` is its availability domain."""

    id: CapacityReservationId
    zone: AvailabilityDomain


class OkePool(Pool):
    """A GPU pool of one shape, as a managed node pool."""

    instance_types: Annotated[tuple[str, ...], Field(min_length=1)]
    reservation: OciReservation | None = None
    disk: Disk = 400 * 1024
    """Boot volume. CUDA images are 10-20 GB each, and OCI's default of 47 GB holds two."""
    image: str = "oke-gpu"
    """Kind of node image; nodeImages has its OCID."""


class NodeImageId(Model):
    """A node image in the cluster's region, and the driver that it brings, as nvidia-smi shows it."""

    id: ImageId
    driver: Annotated[str, AfterValidator(compatibility.driver_version)] | None = None


class OkeSystemPool(Model):
    """The untainted CPU pool: controllers, listeners, launchers, CoreDNS. The autoscaler leaves its size alone."""

    ocpus: Annotated[int, Field(ge=1, le=94)] = 2
    memory: Memory = 16 * 1024
    nodes: Annotated[int, Field(ge=1, le=100)] = 2
    disk: Disk = 100 * 1024

    @model_validator(mode="after")
    def _rules(self) -> Self:
        """Refuse memory that the shape does not have for its OCPUs: 1 to 64 GB each, whole GB."""
        if self.memory % 1024 or not self.ocpus <= self.memory // 1024 <= 64 * self.ocpus:
            raise problem(
                "flex_memory", f"{FLEX_SHAPE} has 1Gi to 64Gi for each OCPU, whole Gi; write for example 16Gi", at=("memory",)
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

    @model_validator(mode="after")
    def _network_rules(self) -> Self:
        """Either a new VCN or a given one with both its subnets."""
        given = (self.vcn, self.endpoint_subnet, self.node_subnet)
        if any(given) != all(given):
            raise problem("given_vcn", "an existing network needs vcn, endpointSubnet and nodeSubnet; give all or none")
        if self.vcn is not None and self.cidr is not None:
            raise problem("given_vcn", "cidr belongs to a new VCN; remove it, or remove vcn")
        if self.vcn is None and (":" in self.new_cidr or not 16 <= int(self.new_cidr.partition("/")[2]) <= 24):
            raise problem(
                "vcn_cidr",
                "a new VCN is an IPv4 network from /16 to /24; write for example 10.0.0.0/16",
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

    @property
    def remarks(self) -> tuple[str, ...]:
        """What keeps `pulumi up` from working, or is nobody's promise, though the settings are a fleet."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
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
        for name, runner in self.machine_runners():
            yield from (f"runner set {name}: {remark}" for remark in runner.remarks)

    def _ocids(self) -> Iterator[str]:
        yield self.compartment
        yield from (image.id for image in self.node_images.values())
        yield from (runner.image.id for _, runner in self.machine_runners() if runner.image is not None)
        yield from (pool.reservation.id for pool in self.pools.values() if pool.reservation is not None)

    @model_validator(mode="after")
    def _oke_rules(self) -> Self:
        """Refuse foreign availability domains, an unsupported version, an image that is not named."""
        for domain in self.zones:
            if not in_region(domain, self.region):
                raise problem(
                    "oke_zone", f"not an availability domain of {self.region}; use its own", at=("zones",), value=domain
                )
        if len(set(self.zones)) < len(self.zones):
            raise problem("repeated_zone", "a zone is given twice; remove one", at=("zones",), value=list(self.zones))
        if self.kubernetes_version not in versions.OKE_KUBERNETES:
            known = ", ".join(versions.OKE_KUBERNETES)
            raise problem(
                "oke_version",
                f"no OKE version is known for this minor; use one of: {known}",
                at=("kubernetesVersion",),
                value=self.kubernetes_version,
            )
        for name in ("system", *(pool.image for pool in self.pools.values())):
            if name not in self.node_images:
                raise problem(
                    "node_image_id",
                    f"nodeImages has no OCID for {name}; add it (oci ce node-pool-options get --node-pool-option-id all)",
                    at=("nodeImages",),
                    value=sorted(self.node_images),
                )
        return self

    @model_validator(mode="after")
    def _oke_pool_rules(self) -> Self:
        """Refuse what OKE cannot make of a pool."""
        for name, pool in self.pools.items():
            at = ("pools", name)
            if len(pool.instance_types) > 1:
                raise problem(
                    "one_shape",
                    "an OKE node pool has one shape; write one, and a pool for each other",
                    at=(*at, "instanceTypes"),
                    value=list(pool.instance_types),
                )
            for machine in pool.machines:
                if machine.cloud != "oci":
                    raise problem(
                        "foreign_pool_shape",
                        "not an OCI shape; give this cluster OCI shapes such as VM.GPU.A10.1",
                        at=(*at, "instanceTypes"),
                        value=machine.name,
                    )
                if machine.gpu is None or machine.gpu.vendor != "NVIDIA":
                    raise problem(
                        "gpu_vendor",
                        f"{machine.name} has no NVIDIA GPU, and nothing here advertises another; name an NVIDIA shape",
                        at=(*at, "instanceTypes"),
                        value=machine.name,
                    )
            if pool.capacity == "spot":
                require_preemptible(pool.machines, at=(*at, "instanceTypes"))
            if pool.image not in NODE_IMAGES or "oci" not in NODE_IMAGES[pool.image].clouds:
                known = ", ".join(kind for kind, image in NODE_IMAGES.items() if "oci" in image.clouds)
                raise problem(
                    "node_image", f"OKE nodes have an image of kind {known}; write one", at=(*at, "image"), value=pool.image
                )
            if pool.reservation is not None and pool.reservation.zone not in self.zones:
                raise problem(
                    "oke_reservation_zone",
                    "the reservation's availability domain is none of the cluster's; add it to zones",
                    at=(*at, "reservation", "zone"),
                    value=pool.reservation.zone,
                )
            for key in pool.labels:
                if OKE_PROFILE.reserves(key):
                    raise problem(
                        "oke_reserved_label",
                        "OKE or kubelet refuses labels of this domain; use one of your own, such as example.com/team",
                        at=(*at, "labels", key),
                        value=pool.labels[key],
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
                f"{found}; remove gpuPluginAddon, it follows from enablement",
                at=("gpuPluginAddon",),
                value=self.gpu_plugin_addon,
            )
        enabled = {
            name: EnabledPool(pool, NODE_IMAGES[pool.image], self.node_images[pool.image].driver)
            for name, pool in self.pools.items()
        }
        require_enablement(self.enablement, self.operator, enabled)
        return self

    @model_validator(mode="after")
    def _oke_machine_rules(self) -> Self:
        """Refuse machines of other regions without a network and an image of their own, and domains that the pool has not."""
        for name, runner in self.machine_runners():
            at = ("runners", name)
            if isinstance(runner, VmRunner):
                for domain in runner.availability_domains:
                    if domain not in self.zones:
                        raise problem(
                            "vm_domain",
                            "standing machines are in the cluster's own availability domains; use one of zones",
                            at=(*at, "availabilityDomains"),
                            value=domain,
                        )
            if isinstance(runner, VmPerJobRunner):
                for index, place in enumerate(runner.places):
                    if (
                        runner.launcher == "gpu-ci"
                        and place.region != self.region
                        and not (place.subnet and place.security_group and place.image)
                    ):
                        raise problem(
                            "place_network",
                            "a place in another region brings its own subnet, securityGroup and image; add them",
                            at=(*at, "places", str(index)),
                            value=place.region,
                        )
        return self
