"""Runner classes that are OCI machines: a pool of standing machines, or one machine per job.

Both are runner scale sets of the cluster's ARC. Their runner pods are launchers on the system pool. Each launcher passes the
registration of one job to one machine. So the GitHub App's key stays with ARC, and no machine that runs jobs sees it.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from fleet.facts import hardware, versions
from fleet.facts.remark import todo
from fleet.providers.oke import ocid
from fleet.providers.oke.nodes import BootVolume, Shape, require_preemptible
from fleet.settings import compatibility
from fleet.settings.model import Duration, Model, Scale
from fleet.settings.refusals import between, matching, problem, refusal, refuse, require_once
from fleet.settings.runner import ImageReference, Runner, WholeMachine

_TOOLKIT = matching("toolkit_version", r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+", such=versions.VM_TOOLKIT)


class Place(Model):
    """Availability domains of one region, tried in order. Outside of the cluster's region it needs its own network and image."""

    region: ocid.Region
    """OCI region of the place."""
    availability_domains: Annotated[tuple[ocid.AvailabilityDomain, ...], Field(min_length=1)]
    """Availability domains of that region. The launcher tries them in this order."""
    subnet: ocid.SubnetId | None = None
    """OCID of the subnet of the machines. Required outside of the cluster's region. Default: that of the cluster."""
    security_group: ocid.SecurityGroupId | None = None
    """OCID of the network security group of the machines. Required outside of the cluster's region. Default: that of the
    cluster."""
    image: ocid.ImageId | None = None
    """OCID of the boot image in that region. Required outside of the cluster's region. Default: `image` of the runner class."""

    @refusal
    def _rules(self) -> None:
        """Refuse domains and OCIDs of another region, and a domain given twice."""
        ocid.require_place(self.availability_domains, self.region)
        ocid.require_region(self.subnet, self.region, at=("subnet",))
        ocid.require_region(self.security_group, self.region, at=("securityGroup",))
        ocid.require_region(self.image, self.region, at=("image",))


class MachineImage(Model):
    """The boot image: Ubuntu with NVIDIA's driver. The machine checks the driver's version at boot."""

    id: ocid.ImageId
    """OCID of the image in the cluster's region."""
    driver: Annotated[str, AfterValidator(compatibility.driver_version)]
    """Version of the NVIDIA driver in the image. The machine compares it at boot with what `nvidia-smi` shows."""


class MachineRunner(compatibility.CudaFields, Runner):
    """A runner that is a whole OCI machine for one job."""

    called: ClassVar[str]
    """The kind of machine, in words."""

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)]
    """GPU shapes of the machine. The launcher tries them in this order."""
    capacity: Literal["on-demand", "spot"]
    """How the machines are bought. Machines of `spot` (OCI calls them preemptible) may be taken away during a job."""
    role: Literal["burst", "release"]
    """Which jobs run here: `burst` for jobs that may be interrupted, `release` for jobs that may not (never on spot)."""
    image: MachineImage | None = None
    """Boot image of the machines: Ubuntu with NVIDIA's driver. Mark: first."""
    disk: BootVolume = 400 * 1024
    """Boot volume of the machine. Example: `600Gi`"""
    toolkit: Annotated[str, _TOOLKIT] = versions.VM_TOOLKIT
    """Version of the four packages of NVIDIA's container toolkit that the machine installs at boot. Example: `1.17.8-1`"""
    nvkind: bool = True
    """Whether jobs create kind clusters with GPUs. The machine then installs nvkind, kind, kubectl and helm. Example: `false`"""
    launcher_image: ImageReference | None = None
    """Container image of the launcher. Default: Oracle's CLI image, by digest. Example:
    `ghcr.io/oracle/oci-cli@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef`"""

    @property
    def booted_here(self) -> bool:
        """Whether this project's launcher boots the machines. It has permissions on all instances of their compartment."""
        return True

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The shapes as hardware."""
        return tuple(hardware.machine(name) for name in self.shapes)

    @property
    def has_docker(self) -> bool:
        """As in the base class: the boot script installs Docker, and CNCF's image has it (docs/oci-runners.md)."""
        return True

    def places_in(self, region: str) -> tuple[Place, ...]:
        """Where the machines of a cluster in a region are, in the order of the launcher."""
        return ()

    @property
    def whole_machine(self) -> WholeMachine:
        """As in the base class."""
        installs = (self.image.driver, self.toolkit) if self.image is not None else None
        places = tuple((place.region, place.availability_domains) for place in self.places_in(""))
        domains = [domain.partition(":")[2] for _, zones in places for domain in zones]
        several = len(self.shapes) * len(domains) > 1 and self.kind == "vm-per-job"
        ways = "; ".join(f"{shape} in {', '.join(domains)}" for shape in self.shapes)
        order = f"OCI has no capacity: {ways}" if several else ""
        return WholeMachine(self.called, self.machines, self.capacity, self.disk, self.nvkind, places, installs, order)

    @property
    def asks(self) -> str:
        """The resources of one runner in words: the whole machine."""
        return f"{self.machines[0].gpus} GPU, a whole machine"

    def remarks(self) -> Iterator[str]:
        """Warnings about valid settings."""
        if self.cuda is not None and self.image is None:
            yield compatibility.cuda_unknown(self.cuda, "its machines")
        # Both launchers' own images are pinned by digest.
        if self.launcher_image is not None and "@sha256:" not in self.launcher_image:
            yield todo(f"launcher image {self.launcher_image} is a tag, which can change; set launcherImage with a digest")
        if bare := ", ".join(machine.name for machine in self.machines if machine.bare_metal):
            # docs.oracle.com, Block Volume overview: for bare metal only three CPU shapes support it.
            yield f"OCI cannot encrypt the disk traffic of bare-metal GPU shapes ({bare}); use VM shapes if you need that"

    @refusal
    def _machine_rules(self) -> None:
        """Refuse different shapes, a release on spot, spot that OCI does not sell, and tools that are incompatible."""
        self._shapes_are_alike()
        if self.capacity == "spot":
            refuse("capacity", release_vm_spot=self.role == "release")
            require_preemptible(self.machines, at=("shapes",))
        if self.image is not None:
            for machine in self.machines:
                compatibility.require_driver(machine, self.image.driver, at=("image", "driver"))
        driver = self.image.driver if self.image is not None else None
        if self.cuda is not None and (wrong := compatibility.lacks_cuda(self.cuda, self.machines, driver)):
            raise problem("cuda", wrong, at=("cuda",))
        if self.nvkind and not any(self.toolkit.startswith(f"{minor}.") for minor in versions.NVKIND.toolkits):
            raise problem("nvkind_toolkit", at=("toolkit",), toolkits=" and ".join(versions.NVKIND.toolkits))

    def _shapes_are_alike(self) -> None:
        """Refuse shapes with different GPUs or another architecture, because a job can run on any of them."""
        for index, machine in enumerate(self.machines):
            if machine.arch != "x86_64":
                raise problem("machine_arch", at=("shapes", str(index)), machine=machine.name, arch=machine.arch)
        if len({(machine.gpus, machine.gpu, machine.gpu_memory_mib) for machine in self.machines}) > 1:
            kinds = ", ".join(f"{machine.name} {machine.gpus}x {machine.gpu.name}" for machine in self.machines if machine.gpu)
            raise problem("mixed_shapes", at=("shapes",), kinds=kinds)
        require_once("repeated_shape", self.shapes, at=("shapes",))


class VmRunner(MachineRunner):
    """Standing machines: an instance pool that replaces each machine after its job."""

    called: ClassVar[str] = "standing VMs"

    kind: Literal["vm"]
    """Standing machines that wait for jobs. Each is replaced after its job (docs/oci-runners.md)."""
    count: Annotated[int, Field(ge=1, le=50)]
    """Machines that are always on. Each is paid for whether a job runs or not. Unit: machines."""
    availability_domains: Annotated[tuple[ocid.AvailabilityDomain, ...], Field(min_length=1)]
    """Availability domains of the machines."""
    image: MachineImage
    """Boot image of the machines: Ubuntu with NVIDIA's driver."""

    def places_in(self, region: str) -> tuple[Place, ...]:
        """As in the base class: standing machines are in the cluster's region."""
        return (Place.model_construct(region=region, availability_domains=self.availability_domains),)

    @property
    def span(self) -> Scale:
        """One runner per machine."""
        return Scale.model_construct(min=self.count, max=self.count)

    @refusal
    def _pool_rules(self) -> None:
        """Refuse settings that an instance pool cannot have."""
        # docs.oracle.com, preemptible instances.
        refuse("capacity", standing_spot=self.capacity == "spot")
        refuse("shapes", standing_shapes=len(self.shapes) > 1)
        ocid.require_different(self.availability_domains, at=("availabilityDomains",))


class VmPerJobRunner(MachineRunner):
    """A machine for each job: booted when the job is assigned, terminated when it ends."""

    called: ClassVar[str] = "VM per job"

    kind: Literal["vm-per-job"]
    """A machine that boots for one job and is terminated after it (docs/oci-runners.md)."""
    scale: Scale
    """Smallest and largest number of machines at the same time."""
    places: Annotated[tuple[Place, ...], Field(min_length=1)]
    """Where machines boot. The launcher tries each shape in every place, in this order, before the next shape."""
    launcher: Literal["gpu-ci", "cncf"] = "gpu-ci"
    """The program that boots the machine: this project's, or CNCF's published one (docs/oci-runners.md compares them)."""
    # GitHub ends a job of a self-hosted runner after five days (docs.github.com, usage limits).
    lifetime: Annotated[Duration, between("lifetime", 600, 5 * 86_400)] = 86_400
    """Maximum age of a machine. Older machines are terminated even if a job runs, so none stays by mistake. Example: `12h`"""

    def places_in(self, region: str) -> tuple[Place, ...]:
        """As in the base class: each place names its region."""
        return self.places

    @property
    def longest_job(self) -> int:
        """As in the base class: then the launcher terminates the machine under its job."""
        return self.lifetime

    @property
    def booted_here(self) -> bool:
        """As in the base class. CNCF's launcher has its own API key instead."""
        return self.launcher == "gpu-ci"

    @property
    def span(self) -> Scale:
        """The minimum and maximum number of runners."""
        return self.scale

    def remarks(self) -> Iterator[str]:
        """As in the base class."""
        yield from super().remarks()
        if self.booted_here:
            return
        yield from (
            "CNCF's launcher reaches its machine by SSH at a public address: allow port 22 only from the cluster's NAT address",
            "CNCF's launcher signs with an OCI API key, in the secrets oci-config and oci-api-key of the set's namespace",
            "CNCF's launcher has no setting for in-transit encryption, legacy metadata endpoints and security groups",
        )

    @refusal
    def _place_rules(self) -> None:
        """Refuse an availability domain in two places: the second try would repeat the first."""
        tried: set[str] = set()
        for index, place in enumerate(self.places):
            if again := sorted(tried.intersection(place.availability_domains)):
                raise problem("repeated_place", at=("places", str(index), "availabilityDomains"), value=again[0])
            tried.update(place.availability_domains)

    @refusal
    def _launcher_rules(self) -> None:
        """Refuse settings that the launcher does not support."""
        if self.booted_here:
            refuse("image", machine_image=self.image is None)
            return
        if self.image is not None:
            raise problem("cncf_image", at=("image",), value=self.image.id)
        parts: list[tuple[tuple[str, ...], Model]] = [((), self)]
        parts += [(("places", str(index)), place) for index, place in enumerate(self.places)]
        for at, part in parts:
            for field in sorted(_NOT_CNCF & part.model_fields_set):
                key = type(part).model_fields[field].alias or field
                raise problem("cncf_setting", at=(*at, key), key=key)
        for index, place in enumerate(self.places):
            refuse("places", str(index), "subnet", cncf_subnet=place.subnet is None)


def require_own_network(runner: VmPerJobRunner, region: str, *, at: tuple[str, ...]) -> None:
    """Refuse a place outside of the cluster's region without its own network and image. `at` is the runner's path."""
    if not runner.booted_here:
        return
    for index, place in enumerate(runner.places):
        ids = {"subnet": place.subnet, "securityGroup": place.security_group, "image": place.image}
        missing = [key for key, identifier in ids.items() if identifier is None]
        if place.region != region and missing:
            raise problem("place_network", at=(*at, "places", str(index)), value=place.region, missing=", ".join(missing))


_NOT_CNCF = frozenset({"toolkit", "nvkind", "lifetime", "security_group", "image"})
"""Settings of a set or a place that CNCF's launcher has no argument for."""
