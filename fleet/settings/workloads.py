"""Settings of GPU workloads other than CI, selected by `kind`, and the rules between them, the pools and the caches."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, Tag

from fleet.facts.pods import Level
from fleet.facts.tables import beside
from fleet.facts.versions import IMAGES, Image
from fleet.settings.caches import Cache, VolumeSize, class_name
from fleet.settings.endpoint import BoundedCidr
from fleet.settings.model import IN_ANY_ORDER, CpuSpan, DnsLabel, Labels, Memory, MemorySpan, Model, selected_by
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.pool import require_no_shm, require_one_share, require_pool
from fleet.settings.refusals import problem, refusal, refuse, refuse_if
from fleet.settings.runner import ImageReference, PodRunner, Runner, SetName, require_shm, short_name

WORKLOAD_IMAGES: dict[str, Image] = {kind: IMAGES[name] for kind, name in beside(__file__, "workload-images.toml").items()}
"""The default image of each kind of workload."""
OTHER_IMAGES: dict[str, tuple[Image, ...]] = {"pytorch": (IMAGES["pytorch-cuda12.6"], IMAGES["pytorch-cuda12.8"])}
"""The images for pools that cannot run the default image of a kind, the first choice first (`fleet.prove.image_fit`)."""
KINDS = tuple(WORKLOAD_IMAGES)

BUILDKIT_PORT = 1234
"""The port of BuildKit in its Kubernetes examples (moby/buildkit v0.32.2, examples/kubernetes)."""
MAX_NAME = 45
"""Maximum characters of a workload's name. Names of claims and pods add up to 18, and may have 63."""


WorkloadName = Annotated[DnsLabel, short_name("workload_name", MAX_NAME)]


class Storage(Model):
    """A volume. Without `storageClass` it uses the default class of the cluster, if there is one."""

    size: VolumeSize
    """Size of the volume, a whole number of Gi."""
    storage_class: DnsLabel | None = None
    """Storage class of the volume. Default: the default class of the cluster."""


class Workload(Model):
    """The settings of every workload. `level` is the Pod Security Standard of its namespace."""

    level: ClassVar[Level] = "restricted"
    stands: ClassVar[bool] = False
    """Whether it keeps running; otherwise it is a Job."""

    kind: str
    """What the workload is (docs/workloads.md)."""
    namespace: TeamNamespace = "ai"
    """Namespace of the workload. Example: `lab`"""
    cpu: CpuSpan
    """CPU of the workload: what the scheduler reserves, and the most that it may use. Example: `{request: 1, limit: 2}`"""
    memory: MemorySpan
    """Memory of the workload: what the scheduler reserves, and the most that it may use. Example: `{request: 4Gi, limit: 8Gi}`"""
    scratch: Memory = 5120
    """Disk space that the scheduler reserves for files outside of volumes. Example: `10Gi`"""
    image: ImageReference | None = None
    """Container image in place of the pinned one. Its architecture and compute capability are then not checked. Example:
    `ghcr.io/acme/workload:1.4`"""


class PoolWorkload(Workload):
    """A workload of a pool."""

    KEPT: ClassVar[str] = "-data"
    """Suffix of its claim's name."""

    pool: str
    """The GPU pool in which the workload runs."""

    @property
    def units(self) -> int:
        """Units of the pool's resource that it requests: 0 in a pool without GPUs."""
        return 0

    @property
    def storage_asked(self) -> Storage | None:
        """The volume of its data, if this kind of workload has one."""
        return cast("Storage | None", getattr(self, "storage", None))

    def claim(self, name: str) -> str:
        """Name of its claim; `name` is the name of the workload."""
        return name + self.KEPT


class UnitWorkload(PoolWorkload):
    """A workload of a GPU pool. It takes one unit of the pool's resource: a GPU, or a share of one."""

    shm: Memory = 1024
    """Size of /dev/shm. What is in it counts against the memory limit. Example: `2Gi`"""

    @property
    def units(self) -> int:
        """Units of the pool's resource that it requests."""
        return 1

    @refusal
    def _shm_fits(self) -> None:
        """Refuse a /dev/shm that fills the memory limit."""
        require_shm("workload_shm", self.shm, self.memory.limit)


def _memory(request: str, limit: str) -> MemorySpan:
    return MemorySpan.model_validate({"request": request, "limit": limit})


def _storage(size: str) -> Storage:
    return Storage.model_validate({"size": size})


class SmokeWorkload(UnitWorkload):
    """A Job that tests whether a GPU is present and works."""

    kind: Literal["nvidia-smi", "pytorch", "device-query"]
    """A Job that tests a GPU: `nvidia-smi`, a `pytorch` computation, or CUDA's `device-query`."""
    cpu: CpuSpan = CpuSpan(request=1, limit=2)
    memory: MemorySpan = _memory("4Gi", "8Gi")


class MnistWorkload(UnitWorkload):
    """A Job that runs TensorFlow's MNIST demonstration (seed 003)."""

    kind: Literal["tf-mnist"]
    """A Job that runs TensorFlow's MNIST demonstration. Example: `tf-mnist`"""
    cpu: CpuSpan = CpuSpan(request=1, limit=2)
    memory: MemorySpan = _memory("4Gi", "8Gi")
    max_steps: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Training steps of the demonstration. Unit: steps. Example: `1000`"""


class _Several(UnitWorkload):
    """A workload that can use several whole GPUs."""

    gpus: Annotated[int, Field(ge=1)] = 1
    """GPUs of the workload. Unit: GPUs. Example: `2`"""

    @property
    def units(self) -> int:
        """The GPUs that the settings name."""
        return self.gpus


class NodePort(Model):
    """A port of every node that forwards to a workload, only for clients in these networks."""

    port: Annotated[int, Field(ge=30000, le=32767)]
    """Port of every node that forwards to the workload. Unit: TCP port number. Example: `30888`"""
    cidrs: Annotated[tuple[BoundedCidr, ...], Field(min_length=1), IN_ANY_ORDER]
    """Networks whose clients may use the port, none wider than /8. Example: `[192.168.1.0/24]`"""


class NotebookWorkload(_Several):
    """TensorFlow with Jupyter. Its token is key `token` of the Secret `tokenSecret`, which you create."""

    KEPT: ClassVar[str] = "-notebooks"

    stands: ClassVar[bool] = True

    kind: Literal["tf-notebook"]
    """TensorFlow with Jupyter, which keeps running."""
    cpu: CpuSpan = CpuSpan(request=2, limit=4)
    memory: MemorySpan = _memory("8Gi", "16Gi")
    token_secret: DnsLabel = "notebook-token"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
    """Name of the Secret with the notebook's token in its key `token`. You create it. Example: `jupyter`"""
    storage: Storage | None = None
    """Volume for notebooks. Without it they are lost when the pod is deleted."""
    node_port: NodePort | None = None
    """A port of every node that forwards to the notebook. Default: none."""


class OllamaWorkload(_Several):
    """Ollama, which serves language models to its own namespace."""

    KEPT: ClassVar[str] = "-models"

    stands: ClassVar[bool] = True

    kind: Literal["ollama"]
    """Ollama, which serves language models to its own namespace."""
    cpu: CpuSpan = CpuSpan(request=4, limit=8)
    # From seed 004.
    memory: MemorySpan = _memory("16Gi", "32Gi")
    storage: Storage = _storage("100Gi")
    """Volume for the models."""


class ComfyuiWorkload(UnitWorkload):
    """ComfyUI, which generates images. It requests one unit, because it uses one GPU and several shares do not add up to a
    larger one."""

    stands: ClassVar[bool] = True

    kind: Literal["comfyui"]
    """ComfyUI, which generates images."""
    cpu: CpuSpan = CpuSpan(request=4, limit=8)
    memory: MemorySpan = _memory("16Gi", "24Gi")
    storage: Storage = _storage("100Gi")
    """Volume for models and images."""


class CoralWorkload(Workload):
    """A Google Coral at a USB port of one node. It takes no GPU.

    The device file of the stick changes while it works. So a privileged container mounts the node's folder of USB devices, and
    the workload needs its own namespace.
    """

    level: ClassVar[Level] = "privileged"
    stands: ClassVar[bool] = True

    kind: Literal["coral"]
    """A Google Coral at a USB port of one node. It takes no GPU."""
    namespace: TeamNamespace = "coral"
    """Namespace of the workload. It has no other workload, because its pods are privileged. Example: `edge`"""
    node: Annotated[Labels, Field(min_length=1)]
    """Labels that select the node with the stick."""
    pool: str | None = None
    """The GPU pool of this node, if it is in one. The pod then tolerates the taint."""
    cpu: CpuSpan = CpuSpan(request=1, limit=2)
    memory: MemorySpan = _memory("1Gi", "2Gi")
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Command in place of the check for the stick. Required with your own `image`, and only allowed there. Example: `[python3,
    /app/main.py]`"""

    @refusal
    def _image_and_command(self) -> None:
        """Refuse your own image without a command, and the reverse: the check needs the pinned image."""
        refuse("image" if self.command is None else "command", coral_command=(self.image is None) is not (self.command is None))


class BuildkitWorkload(PoolWorkload):
    """BuildKit, which builds container images for the jobs of runner sets.

    BuildKit runs as user 1000 and without added capabilities. It makes user namespaces, which the default profiles of seccomp and
    AppArmor forbid (moby/buildkit v0.32.2, docs/rootless.md). So its pod has neither profile, and its namespace is its own.
    """

    level: ClassVar[Level] = "privileged"
    stands: ClassVar[bool] = True

    kind: Literal["buildkit"]
    """BuildKit, which builds container images for the jobs of runner sets (docs/builds.md). Example: `buildkit`"""
    namespace: TeamNamespace = "builds"
    """Namespace of the workload. It has no other workload, because no profile of seccomp confines its pods. Example: `builds`"""
    pool: str
    """The pool without GPUs in which the workload runs (docs/cpu-classes.md). Nothing else may name it. Example: `builder`"""
    runners: Annotated[tuple[SetName, ...], Field(min_length=1)]
    """Runner sets of pods whose jobs can reach it. Example: `[cpu]`"""
    cpu: CpuSpan = CpuSpan(request=2, limit=4)
    memory: MemorySpan = _memory("4Gi", "8Gi")
    scratch: Memory = 51200
    """Disk space for layers and caches, which the scheduler reserves. BuildKit keeps at most 80 % of it. Example: `100Gi`"""
    certificates: DnsLabel = "buildkit-certificates"
    """Name of the Secret with the server's certificates: `ca.pem`, `cert.pem` and `key.pem`. You create it. Example:
    `builder-tls`"""


AnyWorkload = Annotated[
    Annotated[SmokeWorkload, Tag("nvidia-smi")]
    | Annotated[SmokeWorkload, Tag("pytorch")]
    | Annotated[SmokeWorkload, Tag("device-query")]
    | Annotated[MnistWorkload, Tag("tf-mnist")]
    | Annotated[NotebookWorkload, Tag("tf-notebook")]
    | Annotated[OllamaWorkload, Tag("ollama")]
    | Annotated[ComfyuiWorkload, Tag("comfyui")]
    | Annotated[CoralWorkload, Tag("coral")]
    | Annotated[BuildkitWorkload, Tag("buildkit")],
    selected_by("kind", KINDS, "workload_kind", "a workload is of kind"),
]
"""A workload, selected by `kind`."""


def require_workloads(workloads: Mapping[str, Workload], pools: Mapping[str, Any], confined: Collection[str] = ()) -> None:
    """Refuse an unknown pool, several shares, shm under MPS, a namespace of two levels, a node port used twice.

    `confined` are namespaces that have the Pod Security Standard `restricted` because of other users.
    """
    holders: dict[str, str] = {}
    ports: dict[int, str] = {}
    for name, workload in workloads.items():
        _require_pool(name, workload, pools)
        holder = holders.setdefault(workload.namespace, name)
        required = "restricted" if workload.namespace in confined else workloads[holder].level
        if required != workload.level:
            at, taken = ("workloads", name, "namespace"), workload.namespace
            raise problem("workload_level", at=at, value=taken, required=required, kind=workload.kind, level=workload.level)
        opened = workload.node_port if isinstance(workload, NotebookWorkload) else None
        if opened is not None and (first := ports.setdefault(opened.port, name)) != name:
            raise problem("node_port_twice", at=("workloads", name, "nodePort", "port"), first=first)


def require_storage(
    workloads: Mapping[str, Workload], caches: Mapping[str, Cache], *, default_class: bool, sells_volumes: bool
) -> None:
    """Refuse a volume whose storage class does not exist: it would stay pending.

    `default_class`: the clusters of the provider have a default class. `sells_volumes`: they can have caches.
    """
    classes = [class_name(cache) for cache in caches]
    add = "add a cache, and name its class: cache-<name>" if sells_volumes else "name one of your own, such as local-path"
    choices = f"name one of: {', '.join(classes)}" if classes else add
    for name, workload in workloads.items():
        if not isinstance(workload, PoolWorkload) or workload.storage_asked is None:
            continue
        class_wanted = workload.storage_asked.storage_class
        # If storage is missing, it is the key to add.
        at = ("workloads", name, "storage", *(("storageClass",) if "storage" in workload.model_fields_set else ()))
        refuse_if("workload_class", class_wanted is None and not default_class, at=at, choices=choices)
        if class_wanted is not None and class_wanted.startswith(class_name("")) and class_wanted not in classes:
            raise problem("workload_class_unknown", at=at, choices=choices)
        for cache, settings in caches.items():
            if workload.claim(name) == cache and workload.namespace in settings.namespaces:
                raise problem("workload_claim", at=("workloads", name), value=name, cache=cache, namespace=workload.namespace)


def require_unqueued(workloads: Mapping[str, Workload], teams: Mapping[str, str]) -> None:
    """Refuse Jobs in namespaces of `teams` (by namespace): Kueue would keep them in a queue without a quota for them."""
    for name, workload in workloads.items():
        if not workload.stands and workload.namespace in teams:
            at, taken = ("workloads", name, "namespace"), workload.namespace
            raise problem("workload_queued", at=at, value=taken, team=teams[taken], kind=workload.kind)


def _require_pool(name: str, workload: Workload, pools: Mapping[str, Any]) -> None:
    if (pool := workload.pool if isinstance(workload, PoolWorkload | CoralWorkload) else None) is None:
        return
    at = ("workloads", name, "pool")
    refuse(*at, builder_gpus=isinstance(workload, BuildkitWorkload) and pool in pools and pools[pool].has_gpus)
    require_pool("workload_pool", pool, pools, at=at, gpus=0 if isinstance(workload, BuildkitWorkload) else 1)
    if isinstance(workload, UnitWorkload):
        require_one_share("workload_shares", pool, pools[pool], workload.units, at=("workloads", name, "gpus"))
        require_no_shm("workload_mps_shm", pool, pools[pool], workload, at=("workloads", name))


def require_builders(workloads: Mapping[str, Workload], runners: Mapping[str, Runner]) -> None:
    """Refuse a BuildKit for runner sets that are not pods of the cluster, and one that shares its pool or its namespace."""
    sets = {name: runner for name, runner in runners.items() if isinstance(runner, PodRunner)}
    builders = {name: workload for name, workload in workloads.items() if isinstance(workload, BuildkitWorkload)}
    for name, builder in builders.items():
        for index, runner_set in enumerate(builder.runners):
            if runner_set not in sets:
                raise problem("builder_runners", at=("workloads", name, "runners", str(index)), sets=", ".join(sets) or "none")
        # Builds are less confined than jobs, and what they leave of a node depends on where the pod is.
        users = [f"runner set {other}" for other, runner in sets.items() if builder.pool in runner.used_pools]
        users += [f"workload {other}" for other, twin in builders.items() if other != name and twin.pool == builder.pool]
        if users:
            raise problem("builder_pool", at=("workloads", name, "pool"), user=users[0])
        holders = [other for other, workload in workloads.items() if other != name and workload.namespace == builder.namespace]
        if holders:
            raise problem("builder_namespace", at=("workloads", name, "namespace"), value=builder.namespace, holder=holders[0])
