"""Runner classes that are OCI machines: a standing pool of them, or one booted for each job.

Both are runner scale sets of the cluster's ARC. Their runner pods are launchers on the system pool, which hold one job's
registration each and hand it to one machine. So the GitHub App's key stays with ARC, and no machine that runs jobs sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet import compatibility, hardware, versions
from fleet.model import Duration, Model, Scale, problem
from fleet.ocid import AvailabilityDomain, ImageId, Region, SecurityGroupId, SubnetId, in_region
from fleet.pool import Disk, GpuType, Role, alike, require_preemptible
from fleet.runner import ImageReference, Runner

_PACKAGE_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+")


def _toolkit(version: str) -> str:
    if not _PACKAGE_VERSION.fullmatch(version):
        raise problem("toolkit_version", "not a package version; write for example 1.17.8-1")
    return version


def _shape(name: str) -> str:
    if hardware.machine(name).cloud != "oci":
        raise problem("foreign_shape", f"{name} is not an OCI shape; name one such as VM.GPU.A10.1")
    return name


Shape = Annotated[GpuType, AfterValidator(_shape)]


class Place(Model):
    """Availability domains of one region, tried in order. Another region than the cluster's brings its own network and image."""

    region: Region
    availability_domains: Annotated[tuple[AvailabilityDomain, ...], Field(min_length=1)]
    subnet: SubnetId | None = None
    security_group: SecurityGroupId | None = None
    image: ImageId | None = None

    @model_validator(mode="after")
    def _rules(self) -> Self:
        """Refuse domains of another region."""
        for domain in self.availability_domains:
            if not in_region(domain, self.region):
                raise problem(
                    "place_domain",
                    f"not an availability domain of {self.region}; use that region's",
                    at=("availabilityDomains",),
                    value=domain,
                )
        return self


class MachineImage(Model):
    """What a machine boots: an Ubuntu image with NVIDIA's driver in it. The driver's version is asserted at boot."""

    id: ImageId
    driver: Annotated[str, AfterValidator(compatibility.driver_version)]


class MachineRunner(Runner):
    """A runner that is a whole OCI machine, for one job."""

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """In the order in which they are tried."""
    capacity: Any
    role: Role
    image: MachineImage | None = None
    disk: Disk = 400 * 1024
    """Boot volume."""
    toolkit: Annotated[str, AfterValidator(_toolkit)] = versions.VM_TOOLKIT
    """Version of the four packages of NVIDIA's container toolkit."""
    nvkind: bool = True
    """Whether jobs make kind clusters with GPUs: installs nvkind, kubectl and helm."""
    launcher_image: ImageReference | None = None

    @property
    def called(self) -> str:
        """What runs the jobs, in words."""
        raise NotImplementedError

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The shapes as hardware."""
        return tuple(hardware.machine(name) for name in self.shapes)

    @property
    def asks(self) -> str:
        """A job has the whole machine."""
        return f"{self.machines[0].gpus} GPU, a whole machine"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an owner should know though it works."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        image = self.launcher_image or versions.LAUNCHER_IMAGE
        if "@sha256:" not in image:
            yield f"launcher image {image} is a tag, which can change; set launcherImage with a digest"

    @model_validator(mode="after")
    def _machine_rules(self) -> Self:
        """Refuse shapes that differ, a release on spot, spot where OCI sells none, and tools that do not go together."""
        alike(self.machines, at=("shapes",))
        if self.capacity == "spot":
            if self.role == "release":
                raise problem(
                    "release_vm_spot",
                    "a release job is never on preemptible capacity: an interruption would abort it; use on-demand",
                    at=("capacity",),
                    value="spot",
                )
            require_preemptible(self.machines, at=("shapes",))
        if self.image is not None:
            for machine in self.machines:
                compatibility.require_driver(machine, self.image.driver, at=("image", "driver"))
        if self.nvkind and not any(self.toolkit.startswith(f"{minor}.") for minor in versions.NVKIND.toolkits):
            raise problem(
                "nvkind_toolkit",
                f"the pinned nvkind works with toolkit {' and '.join(versions.NVKIND.toolkits)}; use one, or set nvkind: false",
                at=("toolkit",),
                value=self.toolkit,
            )
        return self


class VmRunner(MachineRunner):
    """Standing machines: an instance pool that makes a clean machine for each that a job has used."""

    kind: Literal["vm"]
    count: Annotated[int, Field(ge=1, le=50)]
    """Machines that stand ready; each is paid for whether a job runs or not."""
    shapes: Annotated[tuple[Shape, ...], Field(min_length=1, max_length=1)]
    capacity: Literal["on-demand"]
    """Instance pools have no preemptible capacity (docs.oracle.com, preemptible instances)."""
    availability_domains: Annotated[tuple[AvailabilityDomain, ...], Field(min_length=1)]
    image: MachineImage

    @property
    def called(self) -> str:
        """Standing machines."""
        return "standing VMs"

    @property
    def span(self) -> Scale:
        """As many runners as machines."""
        return Scale.model_construct(min=self.count, max=self.count)


class VmPerJobRunner(MachineRunner):
    """A machine for each job: booted when the job is assigned, terminated when it ends."""

    kind: Literal["vm-per-job"]
    scale: Scale
    capacity: Literal["on-demand", "spot"]
    places: Annotated[tuple[Place, ...], Field(min_length=1)]
    """In the order in which they are tried: each shape in every place before the next shape."""
    launcher: Literal["gpu-ci", "cncf"] = "gpu-ci"
    """Whose program boots the machine: this project's, or CNCF's published one (docs/oci-runners.md compares them)."""
    lifetime: Annotated[Duration, Field(ge=600)] = 86_400
    """A machine older than this is terminated whatever it does, in seconds: nothing leaks for good."""

    @property
    def called(self) -> str:
        """A machine a job."""
        return "VM per job"

    @property
    def span(self) -> Scale:
        """As many runners as the settings say."""
        return self.scale

    def _remarks(self) -> Iterator[str]:
        if self.launcher == "gpu-ci":
            yield from super()._remarks()
            return
        yield from (
            "CNCF's launcher reaches its machine by SSH at a public address: let port 22 in from the cluster's NAT address alone",
            "CNCF's launcher signs with an OCI API key, in the secrets oci-config and oci-api-key of the set's namespace",
            "CNCF's launcher has no setting for in-transit encryption, legacy metadata endpoints and security groups",
        )

    @model_validator(mode="after")
    def _launcher_rules(self) -> Self:
        """Hold the settings to what the launcher can do with them."""
        if self.launcher == "gpu-ci" and self.image is None:
            raise problem("machine_image", "the launcher boots an image of yours; give image with id and driver", at=("image",))
        if self.launcher == "cncf" and (self.image is not None or not all(place.subnet for place in self.places)):
            raise problem(
                "cncf_launcher",
                "CNCF's launcher finds its image by name and needs a subnet in each place; remove image, add the subnets",
                at=("launcher",),
                value="cncf",
            )
        return self
