"""GPU pools and the system pool: groups of identical nodes."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import date
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import AfterValidator, Field, PrivateAttr
from pydantic.alias_generators import to_camel

from fleet.facts import hardware
from fleet.facts.offer import Offer
from fleet.facts.pricing import Money, quoted
from fleet.facts.quantities import cpu_text
from fleet.facts.remark import said
from fleet.facts.scheduling import FALLBACK, SchedulingProfile, Taint, Toleration, own_labels, pool_labels, pool_selector, term
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.model import DnsLabel, Duration, Labels, Memory, Model, Nodes
from fleet.settings.refusals import Form, Reason, between, problem, refusal, refuse, refuse_if, require_once
from fleet.settings.schedules import PoolSchedules
from fleet.settings.sharing import AnySharing, Mig, Mps, config_name, resource_of, units_of

Role = Literal["burst", "release", "fallback"]
"""What runs in a pool: jobs that may be interrupted, releases, or the jobs that a spot pool has no capacity for."""
Capacity = Literal["on-demand", "spot", "reserved", "capacity-block"]
"""How machines are bought. OCI calls `spot` preemptible capacity. `reserved` and `capacity-block` are paid for whether used or
not. `capacity-block` is EC2's alone: Capacity Blocks for ML."""


def _gpu_machine(name: str) -> str:
    refuse_if("gpu_type__none", not _known(name).gpus, name=name)
    return name


def _cpu_machine(name: str) -> str:
    refuse_if("system_type", _known(name).gpus, name=name)
    return name


def _any_machine(name: str) -> str:
    return _known(name).name


def _known(name: str) -> hardware.Machine:
    try:
        return hardware.machine(name)
    except hardware.UnknownMachine as error:
        raise problem("instance_type", str(error.args[0])) from None


DESCRIBED: ContextVar[Mapping[str, hardware.Machine] | None] = ContextVar("described", default=None)
"""The machines that the cluster describes whose pools are read next; None if what describes them is wrong."""


def _described(name: str) -> str:
    if "." in name or hardware.find(name) is not None:
        return _gpu_machine(name)
    if (described := DESCRIBED.get()) is not None and name not in described:
        fix = f"name one of: {', '.join(described)}" if described else "describe it below machines of the cluster"
        raise problem("instance_type", fix=fix)
    return name


def _of_table(title: str, rule: str, *gpus: bool) -> Form:
    return Form(title, rule, values=lambda: (machine.name for machine in hardware.machines() if bool(machine.gpus) in gpus))


_GPU_RULE = "not a machine type with GPUs of fleet/facts/data/instances.csv; write for example g4dn.2xlarge"
GpuType = Annotated[str, AfterValidator(_gpu_machine), _of_table("GPU machine type", _GPU_RULE, True)]
_CPU_RULE = "not a machine type without GPU of fleet/facts/data/instances.csv; write for example m6i.large"
CpuType = Annotated[str, AfterValidator(_cpu_machine), _of_table("CPU machine type", _CPU_RULE, False)]
_NODE_RULE = "not a machine type of fleet/facts/data/instances.csv; write for example g4dn.2xlarge, or m6i.2xlarge without GPU"
NodeType = Annotated[str, AfterValidator(_any_machine), _of_table("machine type", _NODE_RULE, True, False)]
"""A machine type of a pool that may be without GPUs."""
_NAME_RULE = "neither a machine of the cluster nor a type with GPUs of fleet/facts/data/instances.csv; write for example tower"
MachineName = Annotated[str, AfterValidator(_described), Form("GPU machine", _NAME_RULE, "[A-Za-z0-9][A-Za-z0-9.-]*")]
"""A machine type of a pool whose cluster may describe machines."""
Disk = Annotated[Memory, between("disk", 30 * 1024, step=1024)]
"""Size of a root volume in MiB, whole GiB."""
_IDLE_DELAY = between("idle_delay", 60, 86_400)
IdleDelay = Annotated[Duration, _IDLE_DELAY]
"""Seconds that a node stays unneeded before the autoscaler removes it."""

MAX_LABELS = 25
"""Maximum labels that a stack file adds to a pool. Nodes get them by their user data, which EC2 limits to 16 KB."""


class Reservation(Model):
    """A capacity reservation: `count` machines in one zone, with the cloud's id of the reservation."""

    id: Annotated[str, Field(min_length=1)]
    """ID of the capacity reservation or capacity block, as the cloud shows it."""
    zone: Annotated[str, Field(min_length=1)]
    """Zone of the reservation. The pool's nodes are only there."""
    count: Annotated[int, Field(ge=1)]
    """Machines that the reservation holds. `nodes.max` is not above it. Unit: machines."""

    @property
    def last_day(self) -> str | None:
        """The day on which it ends; None if no setting has it."""
        return None


def offered(offer: Offer, units: Mapping[str, int]) -> dict[str, str]:
    """What a node has for pods, as the API writes it. `units` are those of its extended resources."""
    plain = {"cpu": cpu_text(offer.cpu), "memory": f"{offer.memory}Mi", "ephemeral-storage": f"{offer.storage}Mi"}
    return plain | {name: str(count) for name, count in units.items()}


class Pool(Model):
    """A pool of nodes with GPUs, or without. All its types have the same GPU model and count, so that the same pods fit all.

    `MANAGERS_AT` is the path of the keys of `resource_managers`, empty if the program does not set them.
    """

    was: DnsLabel | None = None
    """First name of a pool that was renamed. Its node groups and the labels of its nodes keep it, so no job ends
    (docs/renaming.md). Default: the pool has its first name. Example: `t4-spot`"""
    MANAGERS_AT: ClassVar[tuple[str, ...]] = ("kubelet",)

    LABELED: ClassVar[bool] = True
    """Whether the program sets the labels of the pool's nodes."""

    instance_types: Annotated[tuple[GpuType, ...], Field(min_length=1)]
    """Machine types of the nodes. All have the same GPU model, GPU memory and number of GPUs, so that the same pods fit all of
    them. On demand, EKS starts the first that it has, and another order replaces the node groups; for spot it means nothing."""
    capacity: Capacity
    """How the machines are bought. Machines of `spot` may be taken away during a job. `reserved` and `capacity-block` need
    `reservation` and are paid for whether used or not."""
    reservation: Reservation | None = None
    """The capacity reservation of a `reserved` pool, or the block of a `capacity-block` pool."""
    role: Role
    """Which jobs run here: `burst` for jobs that may be interrupted, `release` for jobs that may not (never on spot), `fallback`
    for jobs that find no spot capacity."""
    nodes: Nodes
    """Smallest and largest number of nodes. The autoscaler keeps the number between them."""
    idle_delay: IdleDelay = 600
    """Time that a node stays unneeded before the autoscaler removes it, from 1m to 24h."""
    disk: Disk = 200 * 1024
    """Root volume of each node, a whole number of Gi, at least 30Gi. CUDA images have 10 to 20 GB each. Mark: first."""
    labels: Labels = Field(default_factory=dict)
    """Labels of the nodes in addition to those of the program, at most 25. Labels that the program or the provider sets are
    refused."""
    cdi: bool = False
    """Whether containers get their GPUs through the Container Device Interface (docs/cdi.md). Example: `true`"""
    sharing: AnySharing | None = None
    """How several containers share a GPU; `strategy` selects the keys (docs/sharing.md). Default: each container has whole
    GPUs."""
    accept_shared_nodes: Reason | None = None
    """Why runner sets of different runner groups, or of different GitHub organizations, may run on the same nodes of the pool, in
    words. Required for such a pool, and not enough with time-slicing or MPS (docs/sharing.md). Example:
    `both groups have the same private repositories`"""
    placeholders: Annotated[int, Field(ge=0)] = 0
    """Nodes that placeholder pods keep free for runners, in addition to the nodes that work (docs/starts.md). Not allowed with
    `sharing`. Unit: nodes. Example: `1`"""
    schedules: PoolSchedules | None = None
    """Windows of the week in which the pool keeps more nodes (docs/schedules.md). Only pools of EKS can have them."""
    OF_GPUS: ClassVar[tuple[str, ...]] = ()
    """Further settings that only pools with GPUs have."""
    ALWAYS_GPUS: ClassVar[bool] = True
    """Whether all pools of the provider have GPUs."""
    UNSCHEDULED: ClassVar[str] = "the program does not start the nodes of this pool"
    """Why the provider's pools have no schedules; empty if they have."""
    WARMS: ClassVar[bool] = False
    """Whether machines can wait outside of the cluster."""
    if TYPE_CHECKING:
        # Each provider's pools have this field, with the kinds of images that it has. A field here would be the first of all.
        image: str
    _machines: tuple[hardware.Machine, ...] = PrivateAttr()

    def model_post_init(self, _context: object, /) -> None:
        """Keep the hardware: described machines are at hand only while the settings of their cluster are read."""
        described = DESCRIBED.get() or {}
        self._machines = tuple(filter(None, (described.get(name) or hardware.find(name) for name in self.instance_types)))

    @refusal
    def _reservation_rules(self) -> None:
        """Refuse a reservation without reserved capacity, the reverse, and more nodes than are reserved."""
        if (self.capacity in hardware.PREPAID) != (self.reservation is not None):
            kind = self.capacity if self.capacity in hardware.PREPAID else "reserved or capacity-block"
            raise problem("reservation", at=("capacity",), kind=kind)
        if self.reservation is not None and self.nodes.max > self.reservation.count:
            raise problem("reservation_size", at=("nodes", "max"), count=self.reservation.count)

    @refusal
    def _cpu_rules(self) -> None:
        """Refuse settings of GPUs for a pool without GPUs."""
        for key in ("cdi", "sharing", "placeholders", *self.OF_GPUS):
            refuse(to_camel(key), cpu_pool=not self.has_gpus and key in self.model_fields_set and getattr(self, key))

    @refusal
    def _placeholder_rules(self) -> None:
        """Refuse placeholders that no node could have, and those of shared GPUs."""
        at = ("placeholders",)
        refuse(*at, placeholder_sharing=self.placeholders and self.sharing is not None)
        refuse(*at, placeholder_fixed=self.placeholders and self.nodes.min == self.nodes.max)
        refuse_if("placeholder_size", self.placeholders > self.nodes.max, at=at, max=self.nodes.max)

    @refusal
    def _scheduled_rules(self) -> None:
        """Refuse schedules that nothing can carry out, those of paid nodes, and windows that do not fit `nodes`."""
        if self.schedules is None:
            return
        refuse_if("unscheduled", self.UNSCHEDULED, at=("schedules",), unscheduled=self.UNSCHEDULED)
        refuse("schedules", reserved_schedule=self.reservation is not None)
        self.schedules.require_within(self.nodes.min, self.nodes.max, "nodes")

    @refusal
    def _pool_rules(self) -> None:
        """Refuse mixed hardware, spot for release jobs and as a fallback, and labels that the program or the provider sets."""
        alike(self.machines, at=("instanceTypes",))
        if self.sharing is not None:
            for machine in self.machines:
                self.sharing.require(machine)
        for machine in self.machines:
            if machine.cloud == hardware.OWNED and self.disk * 2**20 > machine.nvme_gb * 10**9:
                room = array_gib(machine)
                raise problem("machine_disk", at=("disk",), value=f"{self.disk // 1024}Gi", machine=machine.name, room=room)
        refuse("capacity", release_spot=self.role == "release" and self.capacity == "spot")
        refuse("capacity", fallback_spot=self.role == FALLBACK and self.capacity == hardware.SPOT)
        refuse_if("many_labels", len(self.labels) > MAX_LABELS, at=("labels",), most=MAX_LABELS)
        for key in self.labels:
            if (vocabulary := term("label", key)) is not None:
                raise problem("claimed_label", vocabulary.refusal, at=("labels", key))
            domain = key.rpartition("/")[0]
            refuse("labels", key, nvidia_label=domain == "nvidia.com" or domain.endswith(".nvidia.com"))

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The pool's instance types as hardware."""
        return self._machines

    @property
    def has_gpus(self) -> bool:
        """Whether its nodes have GPUs."""
        # A pool whose machines are wrong has an error of its own.
        return not self.machines or self.machines[0].gpus > 0

    @property
    def images_on_array(self) -> bool:
        """Whether images are unpacked on an array of local disks."""
        return False

    def disk_throughput(self, machine: hardware.Machine) -> int | None:
        """The MiB/s of the disk with the images on a machine of the pool, at most. None if no source has a figure."""
        return None

    def could_buy(self, machine: hardware.Machine) -> bool:
        """Whether its settings also fit another machine with the same GPUs."""
        return True

    def closed(self, day: date) -> str:
        """Why it can have no node on a day; empty if it can have one."""
        return ""

    @property
    def resource_managers(self) -> ResourceManagers | None:
        """Kubelet's policies for CPUs and NUMA nodes: what `kubelet` sets. None: kubelet's defaults, which align nothing."""
        return cast("ResourceManagers | None", getattr(self, "kubelet", None))

    @property
    def idle_nodes(self) -> int:
        """The nodes that run while there is no job."""
        return max(self.nodes.min, self.placeholders)

    @property
    def paid_nodes(self) -> tuple[int, int]:
        """The minimum and maximum number of machines that are paid for. A reservation is always paid in full."""
        if self.reservation is not None:
            return self.reservation.count, self.reservation.count
        return self.idle_nodes, self.nodes.max

    @property
    def accelerator(self) -> str:
        """Value of the accelerator labels, for example nvidia-tesla-t4."""
        gpu = self.machines[0].gpu
        return gpu.accelerator if gpu else ""

    @property
    def resource(self) -> str:
        """The extended resource that its nodes advertise. Runners, jobs and queues count its units."""
        return resource_of(self.sharing)

    @property
    def shares(self) -> int:
        """Units of the resource per GPU: 1 if the pool does not share its GPUs."""
        return self.sharing.shares(self.machines[0]) if self.sharing else 1

    def units(self, machine: hardware.Machine) -> int:
        """Units of the resource that a node of this machine type offers."""
        return units_of(self.sharing, machine)

    @property
    def several(self) -> bool:
        """Whether a container may request more than one unit."""
        return self.sharing is None or self.sharing.several

    @property
    def mounts_shm(self) -> bool:
        """Whether a pod may mount its own /dev/shm. Under MPS the device plugin mounts /dev/shm for the MPS clients."""
        return not isinstance(self.sharing, Mps)

    def node_selector(self, name: str) -> dict[str, str]:
        """The node selector that binds a pod to this pool, whose name is `name`."""
        return pool_selector(name)

    def tolerations(self, profile: SchedulingProfile) -> tuple[Toleration, ...]:
        """The tolerations that a pod needs to run on the pool's nodes."""
        return profile.pod_tolerations(self.capacity, gpus=self.has_gpus)

    def price(self, instance_type: str, region: str) -> Money:
        """USD per hour of one node of this type."""
        machine = next(candidate for candidate in self.machines if candidate.name == instance_type)
        return quoted(hardware.price_of(machine, region, self.capacity))

    def node_taints(self, profile: SchedulingProfile) -> tuple[Taint, ...]:
        """The taints of the pool's nodes, those of the provider included."""
        return profile.taints(self.capacity, gpus=self.has_gpus)

    def node_labels(self, cluster: str, name: str, profile: SchedulingProfile, flavor: str = "") -> dict[str, str]:
        """Every label of the pool's nodes: those of the stack file first, then those of the program.

        `flavor` is the queue flavor that has the pool and others, if there is one.
        """
        common = {"cluster": cluster, "pool": name, "role": self.role, "capacity": self.capacity}
        if not self.has_gpus:
            return self.labels | own_labels(**common)
        return self.labels | pool_labels(
            **common,
            accelerator=self.accelerator,
            profile=profile,
            resource=self.resource,
            plugin_config=config_name(self),
            mig_config=f"all-{self.sharing.profile}" if isinstance(self.sharing, Mig) else "",
            mps=isinstance(self.sharing, Mps),
            flavor=flavor,
        )


def alike(machines: tuple[hardware.Machine, ...], *, at: tuple[str, ...]) -> None:
    """Refuse types of one list with different GPUs, and a type given twice. Raises a settings problem."""
    if len({(machine.gpus, machine.gpu, machine.gpu_memory_mib) for machine in machines}) > 1:
        raise problem("mixed_gpus", at=at, kinds=", ".join(map(_gpus, machines)))
    require_once("repeated_type", machines, at=at)


def _gpus(machine: hardware.Machine) -> str:
    if machine.gpu is None:
        return f"{machine.name} without GPU"
    return f"{machine.name} {machine.gpus}x {machine.gpu.name} {machine.gpu_memory_mib / 1024:.0f}Gi"


class SystemPool(Model):
    """The untainted CPU pool: controllers, listeners, CoreDNS."""

    instance_types: Annotated[tuple[CpuType, ...], Field(min_length=1)] = ("m6i.large",)
    """CPU instance types of the system nodes. EKS starts the first that has capacity, and another order replaces the node
    group."""
    nodes: Nodes = Nodes(min=2, max=4)
    """Smallest and largest number of system nodes. `min` is at least 1, because the autoscaler runs there. Mark: first."""
    disk: Disk = 50 * 1024
    """Root volume of each system node. A whole number of Gi, at least 30Gi. Example: `80Gi`"""

    @refusal
    def _system_rules(self) -> None:
        """Refuse an empty system pool: the autoscaler runs there, so no node would ever start."""
        refuse_if("system_size", self.nodes.min < 1, at=("nodes", "min"), value=self.nodes.min)

    @property
    def machines(self) -> tuple[hardware.Machine, ...]:
        """The pool's instance types as hardware."""
        return tuple(hardware.machine(name) for name in self.instance_types)


SystemMachines = tuple[tuple[hardware.Machine, ...], int, Nodes]
"""The machine types of a system pool, the root disk of each in MiB, and their number."""


def require_own_pool(name: str, pools: Mapping[str, Pool], *, at: tuple[str, ...]) -> None:
    """Refuse a pool for the runners' own pods that the cluster does not have, and one with GPUs. Raises a settings problem."""
    if name not in pools:
        require_pool("own_pool", name, pools, at=at)
    refuse_if("own_pool_gpus__always", pools[name].ALWAYS_GPUS, at=at)
    refuse_if("own_pool_gpus", pools[name].has_gpus, at=at)


def require_pool(rule: str, name: str, pools: Mapping[str, Pool], *, at: tuple[str, ...], gpus: int = 1) -> None:
    """Refuse the name of a pool that the cluster does not have, and a pool without GPUs for a user of `gpus`, or the reverse.

    Raises a settings problem.
    """
    if name not in pools:
        message = f"no pool of that name in this cluster; name one of: {', '.join(pools)}"
        raise problem(rule, message if pools else "the cluster has no pool; add one", at=at)
    refuse(*at, pool_without_gpus=gpus and not pools[name].has_gpus)
    refuse_if("pool_with_gpus__always", not gpus and pools[name].ALWAYS_GPUS, at=at)
    refuse_if("pool_with_gpus", not gpus and pools[name].has_gpus, at=at)


def require_same_gpus(rule: str, name: str, first: str, pools: Mapping[str, Pool], *, at: tuple[str, ...]) -> None:
    """Refuse a pool of a list whose GPUs, or how it shares them, differ from those of the first. Raises a settings problem."""
    if (pools[name].accelerator, pools[name].sharing) != (pools[first].accelerator, pools[first].sharing):
        raise problem(rule, at=at, first=first)


def require_one_share(rule: str, name: str, pool: Pool, units: int, *, at: tuple[str, ...]) -> None:
    """Refuse several units of a pool whose sharing gives a container only one. Raises a settings problem."""
    refuse_if(rule, units > 1 and not pool.several, at=at, name=name)


def require_no_shm(rule: str, name: str, pool: Pool, user: Model, *, at: tuple[str, ...]) -> None:
    """Refuse `shm` in the settings of a runner or workload whose pool shares by MPS. Raises a settings problem."""
    refuse_if(rule, "shm" in user.model_fields_set and not pool.mounts_shm, at=(*at, "shm"), name=name)


def require_in_zones(rule: str, zones: Iterable[str], known: Collection[str], *, at: tuple[str, ...], **context: str) -> None:
    """Refuse a zone that is not one of the cluster's (`known`). `at` is the path of the list. Raises a settings problem."""
    for index, zone in enumerate(zones):
        refuse_if(rule, zone not in known, at=(*at, str(index)), **context)


def require_own_labels(rule: str, profile: SchedulingProfile, labels: Iterable[str], *, at: tuple[str, ...]) -> None:
    """Refuse node labels of domains that the provider reserves. Raises a settings problem."""
    for key in labels:
        refuse_if(rule, profile.reserves(key), at=(*at, "labels", key))


# -- local NVMe disks of machines as one array (RAID0) for images, logs and files of pods


def array_gib(machine: hardware.Machine) -> int:
    """Whole GiB of all local disks of a machine together."""
    return machine.nvme_gb * 10**9 // 2**30


def require_local_disks(pool: Pool, *, array: bool, at: tuple[str, ...]) -> None:
    """Refuse local storage on a machine without local disks, and an array smaller than `disk`. Raises a settings problem."""
    for machine in pool.machines:
        refuse_if("local_storage", machine.nvme_gb == 0, at=at, machine=machine.name)
        if array and (gib := array_gib(machine)) < pool.disk // 1024:
            raise problem("local_storage_size", at=at, machine=machine.name, gib=gib, disk=pool.disk // 1024)


def unused_disks(pool: Pool, key: str) -> Iterator[str]:
    """A remark on a pool whose machines have local disks that it does not use. `key` is the setting that would use them."""
    least = min(pool.machines, key=lambda machine: machine.nvme_gb)
    if least.nvme_gb:
        smaller = f" with disk {array_gib(least)}Gi or less" if pool.disk // 1024 > array_gib(least) else ""
        # No source has the throughput of local disks (docs/eks-nodes.md).
        yield said("unused_disks", gb=least.nvme_gb, machine=least.name, key=key, smaller=smaller)
