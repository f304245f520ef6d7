"""Settings of the nodes of an OKE cluster: GPU pools, system pool, node images."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.node_config import OKE_OWNED, OkeLocalStorage
from fleet.providers.oke.ocid import AvailabilityDomain, CapacityReservationId, ImageId, require_different
from fleet.providers.oke.shape import BootVolume, Shape, require_preemptible
from fleet.settings import compatibility
from fleet.settings.kubelet import KubeletFlags, ResourceManagers, unowned
from fleet.settings.model import Memory, Model, problem, refusal, without
from fleet.settings.pool import Pool, Reservation, require_local_disks, require_own_labels

FLEX_SHAPE = "VM.Standard.E5.Flex"
"""Shape of the system pool. The price table has its price per OCPU and GB."""
_FLEX_MEMORY = 1049
"""Maximum GB of memory of the shape (docs.oracle.com, compute shapes)."""


class OciReservation(Reservation):
    """A compute capacity reservation; `zone` is its availability domain."""

    id: CapacityReservationId
    """OCID of the compute capacity reservation."""
    zone: AvailabilityDomain
    """Availability domain of the reservation."""


def _node_image(kind: str) -> str:
    kinds = [name for name, image in NODE_IMAGES.items() if "oci" in image.clouds]
    if kind not in kinds:
        raise problem("node_image", f"OKE nodes have an image of kind {' or '.join(kinds)}; write one")
    return kind


class OkePool(Pool):
    """A GPU pool of one shape, as a managed node pool."""

    model_config = ConfigDict(json_schema_extra=without("schedules"))

    instance_types: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """The GPU shape of the nodes. OKE allows one shape per node pool."""
    capacity: Literal["on-demand", "spot", "reserved"]
    """How the machines are bought. Machines of `spot` (OCI calls them preemptible) may be taken away during a job. `reserved`
    needs `reservation`."""
    reservation: OciReservation | None = None
    disk: BootVolume = 400 * 1024
    """Boot volume of each node. CUDA images have 10 to 20 GB each, and OCI's default of 47 GB holds only two. Example: `500Gi`"""
    image: Annotated[str, AfterValidator(_node_image)] = "oke-gpu"
    """Kind of node image. `nodeImages` has its OCID."""
    kubelet: Annotated[KubeletFlags | None, unowned(OKE_OWNED)] = None
    """Settings of kubelet. The nodes pass them as flags at their first boot. Example: `{podPidsLimit: 4096}`"""
    local_storage: OkeLocalStorage | None = None
    """What nodes do with the local NVMe disks that bare metal shapes have. Default: nothing."""
    zones: tuple[AvailabilityDomain, ...] = ()
    """Availability domains of the pool. Default: all of the cluster. Many shapes exist only in some, and a domain without the
    shape makes the autoscaler back off from the whole pool."""
    UNSCHEDULED: ClassVar[str] = (
        "OKE has no scheduled size of a node pool, and OCI's autoscaling schedules are for instance pools alone"
    )

    @property
    def resource_managers(self) -> ResourceManagers | None:
        """As in the base class: what `kubelet` sets."""
        return self.kubelet

    @refusal
    def _oke_rules(self) -> None:
        """Refuse pools that OKE cannot create."""
        if len(self.instance_types) > 1:
            raise problem(
                "one_shape",
                "an OKE node pool has one shape; keep one, and add a pool for each other shape",
                at=("instanceTypes",),
            )
        if self.capacity == "spot":
            require_preemptible(self.machines, at=("instanceTypes",))
        if self.local_storage is not None:
            require_local_disks(self, array=True, at=("localStorage",))
        require_different(self.zones, at=("zones",))
        if self.reservation is not None and self.zones:
            raise problem(
                "reserved_zones", "the nodes of a reserved pool are in the reservation's zone; remove zones", at=("zones",)
            )
        require_own_labels("oke_reserved_label", "OKE or kubelet refuses", OKE_PROFILE, self.labels, at=())


class NodeImageId(Model):
    """A node image in the cluster's region, and the version of its driver as nvidia-smi shows it."""

    id: ImageId
    """OCID of the image in the cluster's region."""
    driver: Annotated[str, AfterValidator(compatibility.driver_version)] | None = None
    """Version of the NVIDIA driver in the image, as `nvidia-smi` shows it. Pools with this image need it."""


def _one_size(value: object) -> object:
    if isinstance(value, dict):
        raise problem(
            "system_nodes", "the autoscaler does not scale OKE's system pool, so it has one size; write a number, such as 2"
        )
    return value


class OkeSystemPool(Model):
    """The untainted CPU pool: controllers, listeners, launchers, CoreDNS. The autoscaler leaves its size alone."""

    ocpus: Annotated[int, Field(ge=1, le=94)] = 2
    """OCPUs of each system node. One OCPU is two vCPUs. Unit: OCPUs."""
    memory: Memory = 16 * 1024
    """Memory of each system node."""
    nodes: Annotated[int, BeforeValidator(_one_size), Field(ge=1, le=100)] = 2
    """Number of system nodes. The autoscaler does not change it. Unit: nodes."""
    disk: BootVolume = 100 * 1024
    """Boot volume of each system node. Example: `150Gi`"""

    @refusal
    def _rules(self) -> None:
        """Refuse memory that the shape does not have for its OCPUs: 1 to 64 GB each, whole GB."""
        most = min(64 * self.ocpus, _FLEX_MEMORY)
        if self.memory % 1024 or not self.ocpus <= self.memory // 1024 <= most:
            raise problem(
                "flex_memory",
                f"{FLEX_SHAPE} with ocpus {self.ocpus} has {self.ocpus}Gi to {most}Gi, whole Gi; write one between",
                at=("memory",),
            )
