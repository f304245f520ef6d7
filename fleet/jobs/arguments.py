"""The arguments of a job and their types. Each is checked here by itself; `rules.py` checks how they go together.

A type accepts the usual spellings; its error names the rule and how to fix the value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator

from fleet.facts.errors import instead
from fleet.facts.pods import RUNNER_UID
from fleet.facts.scheduling import GPU_RESOURCE, is_gpu_resource
from fleet.jobs.profiles import COUNTS, DEFAULT_GPU_TYPE, PROFILES, gpu_type
from fleet.settings.model import Cpu, Duration, LabelKey, LabelValue, Memory
from fleet.settings.refusals import accepted, matching, problem, refuse, refuse_if, refuses

_LONGEST_TEXT = 131_071
"""Bytes of one argument or variable of a process on Linux (execve, MAX_ARG_STRLEN)."""
_LONGEST_TIME = 30 * 86_400


# -- texts -------------------------------------------------------------------------------------------------------------


def _text(value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise problem("text__surrogate") from None
    refuse_if("text", "\0" in value or size > _LONGEST_TEXT, most=_LONGEST_TEXT)


Text = Annotated[str, refuses(_text)]
"""A string that a process can take as an argument or a variable."""


TaskId = Annotated[Text, accepted("task_id", lambda name: bool(name.strip()) and name.isprintable() and len(name) <= 253)]


def _several(value: object) -> object:
    refuse(list=isinstance(value, str))
    return tuple(value) if isinstance(value, Sequence) else value


Words = Annotated[tuple[Text, ...], BeforeValidator(_several)]
"""A command or its arguments."""


def _one_or_several(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_several)]
"""One name or several, such as instance types."""


def _dict(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


Variable = Annotated[str, matching("variable__job", r"[A-Za-z_][A-Za-z0-9_]*", most=253)]
Env = Annotated[dict[Variable, Text], BeforeValidator(_dict)]
"""Environment variables. Errors never show their values."""

# -- names of objects --------------------------------------------------------------------------------------------------

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
ObjectName = Annotated[str, matching("object_name__job", rf"{_LABEL}(\.{_LABEL})*", most=253)]
"""Name of a claim, a Secret or a priority class."""
ObjectNames = Annotated[tuple[ObjectName, ...], BeforeValidator(_one_or_several)]
"""One or several names of objects."""

ShortName = Annotated[str, matching("name__job", _LABEL, most=63)]
"""Name of a namespace or a queue: a DNS label."""


PriorityName = Annotated[ObjectName, matching("priority", "(?!system-).*")]

_SecretKey = Annotated[str, matching("secret_key__job", r"(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}")]
SecretRef = Annotated[tuple[ObjectName, _SecretKey], BeforeValidator(_one_or_several)]
"""The name of a Secret, and a key in it."""
SecretEnv = Annotated[dict[Variable, SecretRef], BeforeValidator(_dict)]


def _free_key(key: str) -> None:
    domain = f".{key.rpartition('/')[0]}"
    refuse(reserved_key="/" in key and domain.endswith((".kubernetes.io", ".k8s.io", "x-k8s.io", ".gpu-ci")))


FreeKey = Annotated[LabelKey, refuses(_free_key)]
Labels = Annotated[dict[FreeKey, LabelValue], BeforeValidator(_dict)]
Annotations = Annotated[dict[FreeKey, Text], BeforeValidator(_dict)]

# -- images ------------------------------------------------------------------------------------------------------------

# The grammar of github.com/distribution/reference.
_HOST_PART = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_HOST = rf"(?:localhost|{_HOST_PART}(?:\.{_HOST_PART})+)(?::[0-9]{{1,5}})?|{_HOST_PART}:[0-9]{{1,5}}"
_NAME = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:{_HOST})/)?{_NAME}(?:/{_NAME})*(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?(?P<digest>@sha256:[0-9a-f]{{64}})?"
)


def _image(reference: str) -> None:
    match = _IMAGE.fullmatch(reference) if len(reference) <= 400 else None
    tag = (match["tag"] or "").lower() if match else ""
    is_version = any(map(str.isdigit, tag)) and "latest" not in re.findall(r"[a-z0-9]+", tag)
    refuse(image=match is None or not (match["digest"] or is_version))


Image = Annotated[str, refuses(_image)]
"""A container image with a version or a digest."""

# -- amounts -----------------------------------------------------------------------------------------------------------


GpuCount = Annotated[int, accepted("gpu_count", lambda count: count in COUNTS, counts=", ".join(map(str, COUNTS)))]


def _gpu_type(name: object) -> object:
    if not isinstance(name, str):
        return name
    if gpu_type(name) not in PROFILES:
        fix = instead(gpu_type(name), PROFILES, "write for example t4, l4 or rtx-4090 (docs/jobs.md#sizes)")
        raise problem("gpu_type", fix=fix)
    return gpu_type(name)


GpuType = Annotated[str, BeforeValidator(_gpu_type)]
"""A GPU model that has a profile: "rtx-3090". Upper case and spaces are accepted too."""
Weight = Annotated[int, Field(ge=1, le=100)]
"""Weight of a preference (Kubernetes API, PreferredSchedulingTerm)."""
Preferences = Annotated[dict[GpuType, Weight], BeforeValidator(_dict)]


_nvidia = accepted("resource", lambda name: name.startswith("nvidia.com/") and is_gpu_resource(name), gpu_resource=GPU_RESOURCE)
Resource = Annotated[str, _nvidia]


def _or_none(value: Any, handler: Callable[[Any], int]) -> int:
    nothing = value in (0, "0") and not isinstance(value, bool | float)
    return 0 if nothing else handler(value)


SharedMemory = Annotated[Memory, WrapValidator(_or_none)]
"""MiB; 0 for none."""


def _as_text(value: object) -> object:
    return f"{value}s" if isinstance(value, int) and not isinstance(value, bool) else value


Time = Annotated[Duration, BeforeValidator(_as_text), accepted("time", lambda seconds: seconds <= _LONGEST_TIME)]
"""Seconds as a number, or a string with a unit."""
Deadline = Annotated[Time, accepted("deadline", lambda seconds: seconds >= 1)]


def _path(path: str) -> None:
    parts = path.split("/")[1:]
    refuse(path=not path.startswith("/") or not all(parts) or {".", ".."} & set(parts) or ":" in path)
    refuse(path__system=path == "/dev" or path.startswith(("/dev/", "/proc/", "/sys/")) or path in ("/proc", "/sys"))


MountPath = Annotated[Text, refuses(_path)]


def _devices(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(map(str, value))
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,3}( *, *[0-9]{1,3})*", value):
        raise problem("visible_devices")
    return ",".join(str(int(number)) for number in value.split(","))


Devices = Annotated[str | bool | None, BeforeValidator(_devices)]
"""Value of CUDA_VISIBLE_DEVICES: GPU numbers in order, True for all GPUs of the job, None to leave it unset."""

# -- arguments ---------------------------------------------------------------------------------------------------------

WORKSPACE, MODELS = "/workspace", "/models"


class AskArguments(BaseModel):
    """What a job needs from a node."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpu_count: GpuCount = 1
    gpu_type: GpuType = DEFAULT_GPU_TYPE
    memory: Memory | None = None
    cpu: Cpu | None = None
    memory_request: Memory | None = None
    cpu_request: Cpu | None = None
    scratch: Memory = 20 * 1024
    shm: SharedMemory | None = None
    spot: bool = False
    shared: bool = False
    resource: Resource | None = None
    prefer: Preferences = Field(default_factory=dict)
    instance_type: Names = ()


class JobArguments(AskArguments):
    """A whole job."""

    task_id: TaskId
    image: Image
    command: Words = ()
    args: Words = ()
    env: Env = Field(default_factory=dict)
    secret_env: SecretEnv = Field(default_factory=dict)
    visible_devices: Devices = None
    namespace: ShortName | None = None
    workspace: ObjectName | None = None
    workspace_path: MountPath = WORKSPACE
    cache: ObjectName | None = None
    cache_path: MountPath = MODELS
    cache_read_only: bool = False
    queue: ShortName | None = None
    priority_class: PriorityName | None = None
    deadline: Deadline = 2 * 3600
    backoff_limit: int = Field(default=3, ge=0, le=100)
    ttl: Time = 3600
    restart_policy: Literal["OnFailure", "Never"] | None = None
    # The user of the runners, because an MPS server serves one user at a time.
    user: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    group: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    pull_secrets: ObjectNames = ()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
