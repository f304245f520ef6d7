"""Settings of the nodes of an OKE cluster: shapes, GPU pools, system pool, node images, and what nodes apply at their first boot.

A managed node pool has no field for kubelet, for an array of local disks, nor for the performance of its boot volume (OCI API,
NodeSourceViaImageDetails: size alone). Its cloud-init script passes kubelet's flags to OKE's own script (docs.oracle.com, custom
cloud-init scripts; oracle/terraform-provider-oci#1504). Containers run by CRI-O, so FastImagePull has no counterpart.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from fleet.facts import hardware
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import OKE_PROFILE
from fleet.facts.tables import beside
from fleet.providers.oke.ocid import AvailabilityDomain, CapacityReservationId, ImageId, require_different
from fleet.settings import compatibility
from fleet.settings.kubelet import KubeletFlags, owned_fields, unowned
from fleet.settings.model import Memory, Model, without
from fleet.settings.pool import Disk, GpuType, Pool, Reservation, require_local_disks, require_own_labels
from fleet.settings.refusals import Form, between, problem, refusal, refuse, refuse_if, refuses

_FLAGS: dict[str, str] = beside(__file__, "kubelet-flags.toml")
"""Flags of kubelet by field (kubernetes/kubernetes cmd/kubelet/app/options/options.go, AddKubeletConfigFlags)."""
_NO_FLAG = "is not a flag of kubelet, and an OKE pool passes only flags; an unknown flag would stop kubelet"
OKE_OWNED = owned_fields("OKE") | dict.fromkeys(
    ("maxParallelImagePulls", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"), _NO_FLAG
)
"""Fields that an OKE pool may not have, with the reason."""


class OkeLocalStorage(Model):
    """What a node does with the local disks of a bare metal machine. Without it they are not used."""

    strategy: Literal["RAID0"]
    """`RAID0`: one array of all local disks, on which kubelet, containers and pod logs have their files. Example: `RAID0`"""


def kubelet_flags(kubelet: KubeletFlags | None) -> tuple[str, ...]:
    """The settings as flags, such as --pod-max-pids=4096."""
    fields: dict[str, Any] = kubelet.model_dump(mode="json", by_alias=True, exclude_none=True) if kubelet else {}
    return tuple(f"--{_FLAGS[key]}={str(value).lower() if isinstance(value, bool) else value}" for key, value in fields.items())


_LEAST, _MOST = 50, 32_768
"""GiB of a boot volume (oracle/terraform-provider-oci@8de3c480 website/docs/r/core_instance.html.markdown)."""


def _of_oci(name: object) -> object:
    """Refuse shapes without GPU and types of other clouds before the lookup, which would call them unknown."""
    if not isinstance(name, str):
        return name
    refuse_if("shape_without_gpu", name.startswith(("VM.", "BM.")) and ".GPU" not in name, name=name)
    refuse_if("foreign_shape", any(name == machine.name and machine.cloud != "oci" for machine in hardware.machines()), name=name)
    return name


def _nvidia(name: str) -> None:
    refuse_if("gpu_vendor", name not in _shapes(), name=name)


def _shapes() -> Iterator[str]:
    return (machine.name for machine in hardware.machines("oci") if machine.gpu is not None and machine.gpu.vendor == "nvidia")


_SHAPE_FORM = Form("GPU shape", "not a shape of OCI with NVIDIA GPUs; write for example VM.GPU.A10.1", values=_shapes)
Shape = Annotated[GpuType, BeforeValidator(_of_oci), refuses(_nvidia), _SHAPE_FORM]
"""A shape with NVIDIA GPUs."""
BootVolume = Annotated[Disk, between("boot_volume", _LEAST * 1024, _MOST * 1024, low=_LEAST, high=_MOST)]
"""Size of a boot volume in MiB, whole GiB."""


def require_preemptible(machines: tuple[hardware.Machine, ...], *, at: tuple[str, ...]) -> None:
    """Refuse spot for machines that OCI does not sell as preemptible: bare metal and most shapes."""
    for machine in machines:
        if not hardware.preemptible(machine):
            noun = "bare metal" if machine.bare_metal else "capacity of this shape"
            raise problem("not_preemptible", at=at, value=machine.name, noun=noun)


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


def _node_image(kind: str) -> None:
    kinds = [name for name, image in NODE_IMAGES.items() if "oci" in image.clouds]
    refuse_if("node_image", kind not in kinds, kinds=" or ".join(kinds))


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
    image: Annotated[str, refuses(_node_image)] = "oke-gpu"
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

    @refusal
    def _oke_rules(self) -> None:
        """Refuse pools that OKE cannot create."""
        refuse("instanceTypes", one_shape=len(self.instance_types) > 1)
        if self.capacity == "spot":
            require_preemptible(self.machines, at=("instanceTypes",))
        if self.local_storage is not None:
            require_local_disks(self, array=True, at=("localStorage",))
        require_different(self.zones, at=("zones",))
        refuse("zones", reserved_zones=self.reservation is not None and self.zones)
        require_own_labels("oke_reserved_label", OKE_PROFILE, self.labels, at=())


class NodeImageId(Model):
    """A node image in the cluster's region, and the version of its driver as nvidia-smi shows it."""

    id: ImageId
    """OCID of the image in the cluster's region."""
    driver: Annotated[str, AfterValidator(compatibility.driver_version)] | None = None
    """Version of the NVIDIA driver in the image, as `nvidia-smi` shows it. Pools with this image need it. Mark: first."""


def _one_size(value: object) -> object:
    refuse(system_nodes=isinstance(value, dict))
    return value


class OkeSystemPool(Model):
    """The untainted CPU pool: controllers, listeners, launchers, CoreDNS. The autoscaler leaves its size alone."""

    ocpus: Annotated[int, Field(ge=1, le=94)] = 2
    """OCPUs of each system node. One OCPU is two vCPUs. Unit: OCPUs. Mark: first."""
    memory: Memory = 16 * 1024
    """Memory of each system node. Mark: first."""
    nodes: Annotated[int, BeforeValidator(_one_size), Field(ge=1, le=100)] = 2
    """Number of system nodes. The autoscaler does not change it. Unit: nodes. Mark: first."""
    disk: BootVolume = 100 * 1024
    """Boot volume of each system node. Example: `150Gi`"""

    @property
    def machine(self) -> hardware.Machine:
        """A node as hardware."""
        return hardware.flexible(FLEX_SHAPE, self.ocpus, self.memory)

    @refusal
    def _rules(self) -> None:
        """Refuse memory that the shape does not have for its OCPUs: 1 to 64 GB each, whole GB."""
        most = min(64 * self.ocpus, _FLEX_MEMORY)
        if self.memory % 1024 or not self.ocpus <= self.memory // 1024 <= most:
            raise problem("flex_memory", at=("memory",), flex_shape=FLEX_SHAPE, ocpus=self.ocpus, most=most)
