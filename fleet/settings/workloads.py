"""Settings of GPU workloads other than CI, selected by `kind`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from fleet.facts.pods import Level
from fleet.facts.versions import IMAGES, Image
from fleet.settings.model import (
    Cidr,
    CpuSpan,
    DnsLabel,
    LabelKey,
    LabelValue,
    Memory,
    MemorySpan,
    Model,
    memory_text,
    problem,
    selected_by,
)
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.runner import ImageReference

WORKLOAD_IMAGES: dict[str, Image] = {
    "nvidia-smi": IMAGES["cuda"],
    "pytorch": IMAGES["pytorch"],
    "device-query": IMAGES["cuda-device-query"],
    "tf-mnist": IMAGES["tensorflow-mnist"],
    "tf-notebook": IMAGES["tensorflow-notebook"],
    "ollama": IMAGES["ollama"],
    "comfyui": IMAGES["comfyui"],
    "coral": IMAGES["python"],
}
"""The default image of each kind of workload."""
KINDS = tuple(WORKLOAD_IMAGES)
WAYS = f"a workload is of kind {', '.join(KINDS[:-1])} or {KINDS[-1]}; name one in kind"
"""The error for any other value."""

MAX_NAME = 45
"""Maximum characters of a workload's name. Names of claims and pods add up to 18, and may have 63."""


def _workload_name(name: str) -> str:
    if len(name) > MAX_NAME:
        raise problem(
            "workload_name", f"a workload's name has at most {MAX_NAME} characters, this one has {len(name)}; shorten it"
        )
    return name


WorkloadName = Annotated[DnsLabel, AfterValidator(_workload_name)]


def _size(mebibytes: int) -> int:
    if mebibytes % 1024:
        raise problem("storage_size", "a volume is a whole number of Gi; write for example 100Gi")
    return mebibytes


class Storage(Model):
    """A volume. Without `storageClass` it uses the default class of the cluster, if there is one."""

    size: Annotated[Memory, AfterValidator(_size)]
    storage_class: DnsLabel | None = None


class Workload(Model):
    """The settings of every workload. `level` is the Pod Security Standard of its namespace."""

    level: ClassVar[Level] = "restricted"
    stands: ClassVar[bool] = False
    """Whether it keeps running; otherwise it is a Job."""

    kind: str
    namespace: TeamNamespace = "ai"
    cpu: CpuSpan
    memory: MemorySpan
    scratch: Memory = 5120
    """Ephemeral storage request, for files that the container writes outside of volumes."""
    image: ImageReference | None = None
    """Replaces the pinned image. Its architecture and compute capability are then not checked."""


class PoolWorkload(Workload):
    """A workload of a GPU pool. It takes one unit of the pool's resource: a GPU, or a share of one."""

    KEPT: ClassVar[str] = "-data"
    """Suffix of its claim's name."""

    pool: str
    shm: Memory = 1024
    """Size of /dev/shm; a memory volume counts against the memory limit."""

    @property
    def units(self) -> int:
        """Units of the pool's resource that it requests."""
        return 1

    @property
    def storage_asked(self) -> Storage | None:
        """The volume of its data, if this kind of workload has one."""
        storage: Storage | None = getattr(self, "storage", None)
        return storage

    def claim(self, name: str) -> str:
        """Name of its claim; `name` is the name of the workload."""
        return name + self.KEPT

    @model_validator(mode="after")
    def _shm_fits(self) -> PoolWorkload:
        """Refuse a /dev/shm that fills the memory limit."""
        if self.shm >= self.memory.limit:
            raise problem(
                "workload_shm",
                "shm counts against the memory limit and would fill it; lower shm or raise memory.limit",
                at=("shm",),
                value=memory_text(self.shm),
            )
        return self


def _cpu(request: int, limit: int) -> CpuSpan:
    """A default value, in cores."""
    return CpuSpan.model_validate({"request": request, "limit": limit})


def _memory(request: str, limit: str) -> MemorySpan:
    return MemorySpan.model_validate({"request": request, "limit": limit})


def _storage(size: str) -> Storage:
    return Storage.model_validate({"size": size})


class SmokeWorkload(PoolWorkload):
    """A Job that tests whether a GPU is present and works."""

    kind: Literal["nvidia-smi", "pytorch", "device-query"]
    cpu: CpuSpan = _cpu(1, 2)
    memory: MemorySpan = _memory("4Gi", "8Gi")


class MnistWorkload(PoolWorkload):
    """A Job that runs TensorFlow's MNIST demonstration (seed 003)."""

    kind: Literal["tf-mnist"]
    cpu: CpuSpan = _cpu(1, 2)
    memory: MemorySpan = _memory("4Gi", "8Gi")
    max_steps: Annotated[int, Field(ge=1, le=100_000)] = 500


class _Several(PoolWorkload):
    """A workload that can use several whole GPUs."""

    gpus: Annotated[int, Field(ge=1)] = 1

    @property
    def units(self) -> int:
        """The GPUs that the settings name."""
        return self.gpus


class NodePort(Model):
    """A port of every node that forwards to a workload, only for clients in these networks."""

    port: Annotated[int, Field(ge=30000, le=32767)]
    cidrs: Annotated[tuple[Cidr, ...], Field(min_length=1)]


class NotebookWorkload(_Several):
    """TensorFlow with Jupyter. Its token is key `token` of the Secret `tokenSecret`, which you create."""

    KEPT: ClassVar[str] = "-notebooks"

    stands: ClassVar[bool] = True

    kind: Literal["tf-notebook"]
    cpu: CpuSpan = _cpu(2, 4)
    memory: MemorySpan = _memory("8Gi", "16Gi")
    token_secret: DnsLabel = "notebook-token"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
    storage: Storage | None = None
    """Volume for notebooks. Without it they are lost when the pod is deleted."""
    node_port: NodePort | None = None


class OllamaWorkload(_Several):
    """Ollama, which serves language models to its own namespace."""

    KEPT: ClassVar[str] = "-models"

    stands: ClassVar[bool] = True

    kind: Literal["ollama"]
    cpu: CpuSpan = _cpu(4, 8)
    # From seed 004.
    memory: MemorySpan = _memory("16Gi", "32Gi")
    storage: Storage = _storage("100Gi")


class ComfyuiWorkload(PoolWorkload):
    """ComfyUI, which generates images. It requests one unit, because it uses one GPU and several shares do not add up to a larger one."""

    stands: ClassVar[bool] = True

    kind: Literal["comfyui"]
    cpu: CpuSpan = _cpu(4, 8)
    memory: MemorySpan = _memory("16Gi", "24Gi")
    storage: Storage = _storage("100Gi")


class CoralWorkload(Workload):
    """A Google Coral at a USB port of one node. It takes no GPU.

    The device file of the stick changes while it works. So a privileged container mounts the node's folder of USB devices, and
    the workload needs its own namespace.
    """

    level: ClassVar[Level] = "privileged"
    stands: ClassVar[bool] = True

    kind: Literal["coral"]
    namespace: TeamNamespace = "coral"
    node: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)]
    """Labels that select the node with the stick."""
    pool: str | None = None
    """The GPU pool of this node, if any. The pod then tolerates its taint."""
    cpu: CpuSpan = _cpu(1, 2)
    memory: MemorySpan = _memory("1Gi", "2Gi")
    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Replaces the check for the stick. Required with your own image."""

    @model_validator(mode="after")
    def _image_and_command(self) -> CoralWorkload:
        """Refuse your own image without a command, and the reverse: the check needs the pinned image."""
        if (self.image is None) is not (self.command is None):
            raise problem(
                "coral_command",
                "image and command belong together: the check needs the pinned image, and another image needs its own command; "
                "give both or neither",
                at=("image" if self.command is None else "command",),
            )
        return self


AnyWorkload = Annotated[
    Annotated[SmokeWorkload, Tag("nvidia-smi")]
    | Annotated[SmokeWorkload, Tag("pytorch")]
    | Annotated[SmokeWorkload, Tag("device-query")]
    | Annotated[MnistWorkload, Tag("tf-mnist")]
    | Annotated[NotebookWorkload, Tag("tf-notebook")]
    | Annotated[OllamaWorkload, Tag("ollama")]
    | Annotated[ComfyuiWorkload, Tag("comfyui")]
    | Annotated[CoralWorkload, Tag("coral")],
    Discriminator(
        selected_by("kind", KINDS),
        custom_error_type="gpu_ci_workload_kind",
        custom_error_message="{message}",
        custom_error_context={"message": WAYS},
    ),
]
"""A workload, selected by `kind`."""
