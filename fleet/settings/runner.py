"""Runner classes, which a workflow selects by `runs-on`. Classes of only one provider are in its folder."""

import math
from abc import abstractmethod
from collections import Counter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fleet.facts.cloud_limits import limit
from fleet.facts.github import DEFAULT_TIMEOUT
from fleet.facts.hardware import Machine
from fleet.facts.pods import Amount
from fleet.facts.quantities import memory_text
from fleet.facts.record import Record
from fleet.settings.compatibility import CudaFields
from fleet.settings.container_jobs import HOOK_CONTAINERS, HOOK_FOLDERS, HOOK_VOLUMES, ContainerFields
from fleet.settings.github import RunnerGroup
from fleet.settings.kept_jobs import KeepFailed
from fleet.settings.model import YAML_WORDS, CpuSpan, DnsLabel, Duration, Memory, MemorySpan, Model, Scale
from fleet.settings.pod_template import PodFields
from fleet.settings.refusals import Form, between, limited, matching, problem, refusal, refuse, refuse_if, refuses, require_once
from fleet.settings.schedules import RunnerSchedules

GENERIC_LABELS = ("self-hosted", "linux", "x64", "gpu", "cuda")
"""Labels that fit any set (seed 000): only the default set of a GitHub scope has them."""

GPU_LABELS = ("gpu", "cuda")
"""Those of them that promise a GPU."""

KINDS = ("pod", "vm", "vm-per-job")
"""Kinds of runners: a pod of a pool, a standing machine, a machine booted for one job."""

MAX_SET_NAME = 45
"""Maximum characters of a set's name in the scale-set chart (gha-runner-scale-set 0.14.2, _helpers.tpl)."""

MAX_LABELS = 100
"""Maximum labels per runner (docs.github.com, REST API, "Create configuration for a just-in-time runner": maximum items 100)."""


def short_name(rule: str, most: int) -> AfterValidator:
    """A validator that refuses a name of more than `most` characters. `of` says whose name it is: "a runner set's"."""

    return refuses(lambda name: refuse_if(rule, len(name) > most, most=most, length=len(name)))


def _set_name(name: str) -> None:
    # gha-runner-scale-set 0.14.2 writes the name without quotes (templates/autoscalingrunnerset.yaml).
    refuse_if("set_name_word", name in YAML_WORDS, name=name)


_SET_LENGTH = short_name("set_name", MAX_SET_NAME)
SetName = Annotated[DnsLabel, _SET_LENGTH, refuses(_set_name), limited("github.com", "runs-on")]


_LABEL_RULE = "a runner label has 1 to 255 characters, no comma, no control character and no space around it"


def _runner_label(label: str) -> None:
    if not 0 < len(label) < 256 or "," in label or label != label.strip() or not label.isprintable():
        raise problem("runner_label", f"{_LABEL_RULE}; correct it")


_TAG, _DIGEST = r":(?!latest(?:@|$))[A-Za-z0-9_][A-Za-z0-9_.-]*", r"@sha256:[0-9a-f]{64}"
# A colon before a slash precedes the port of a registry, not a version.
_IMAGE = rf"[a-z0-9][a-z0-9._-]*(:[0-9]+(?=/))?[a-z0-9._/-]*({_TAG}({_DIGEST})?|{_DIGEST})"

_LABEL_FORM = Form("runner label", _LABEL_RULE, "[^,]+", 255)
RunnerLabel = Annotated[str, refuses(_runner_label), limited("github.com", "runs-on"), _LABEL_FORM]

_SET_REFERENCE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SetReference = Annotated[str, matching("set_reference", _SET_REFERENCE)]

ImageReference = Annotated[str, Field(min_length=1, max_length=512), matching("image__runner", _IMAGE)]
"""A container image by version or digest."""


class WholeMachine(Record):
    """The machine that a runner has to itself, outside of Kubernetes. A launcher in the cluster starts it.

    `name` is the kind of machine in words, `types` are those that the launcher tries, `capacity` is one of
    `fleet.settings.pool.Capacity`, `disk` its root disk in MiB. `nests`: whether jobs can create clusters with GPUs in it.
    `places` are the region and the zones of each place, in the order in which they are tried; an empty region is the cluster's.
    `installs` are the versions of the driver and of NVIDIA's container toolkit; None if another image decides them. `order` says
    where its cloud has no capacity and what is tried then, empty if there is one way.
    """

    name: str
    types: tuple[Machine, ...]
    capacity: str
    disk: int
    nests: bool
    places: tuple[tuple[str, tuple[str, ...]], ...]
    installs: tuple[str, str] | None
    order: str


def require_shm(rule: str, shm: int, limit: int) -> None:
    """Refuse a /dev/shm that fills the memory limit. Raises a settings problem."""
    refuse_if(rule, shm >= limit, at=("shm",), value=memory_text(shm))


def request_text(gpus: int, cpu: Amount, memory: Amount) -> str:
    """Requests in words: "1 GPU, 4 CPU, 16Gi", and without GPUs "4 CPU, 16Gi"."""
    return f"{f'{gpus} GPU, ' if gpus else ''}{cpu.request / 1000:g} CPU, {memory.request / 1024:g}Gi"


class Runner(Model):
    """The settings of every runner class. Each class is one runner scale set, and each runner runs one job."""

    kind: str
    """What a runner is: a pod of a pool, or a machine of OCI."""
    labels: Annotated[tuple[RunnerLabel, ...], Field(max_length=MAX_LABELS)] = ()
    """Labels for `runs-on` in addition to the name, at most 100. GitHub ignores case, and their order means nothing. Source:
    docs.github.com, REST API, create configuration for a just-in-time runner. Mark: first."""
    group: RunnerGroup | None = None
    """Runner group of this class. Default: `group` of the class's GitHub scope. Create it on GitHub first. Classes of releases
    have a group that no other class names (docs/sharing.md). Mark: first."""
    github: DnsLabel | None = None
    """The scope of `gpu-ci:github.scopes` whose jobs the class takes. Default: `github` of the cluster. Example: `research`"""

    was: SetName | None = None
    """First name of a class that was renamed. The runner set keeps it, on GitHub too, so workflows go on to name it in `runs-on`
    (docs/renaming.md). Default: the class has its first name. Example: `gpu-t4`"""

    @property
    @abstractmethod
    def span(self) -> Scale:
        """The minimum and maximum number of runners."""

    @property
    def whole_machine(self) -> WholeMachine | None:
        """The machine of a runner that is one; None for pods."""
        return None

    @property
    def has_docker(self) -> bool:
        """Whether a step can call Docker."""
        return False

    @property
    def runs_containers(self) -> bool:
        """Whether a job may have `container` and `services`, and steps may be actions of images."""
        return self.has_docker

    @property
    def needs_container(self) -> bool:
        """Whether it takes no job without `container`."""
        return False

    @property
    def longest_job(self) -> int | None:
        """How long a job may take, in seconds; None without a bound of the class."""
        return None

    @property
    @abstractmethod
    def asks(self) -> str:
        """The resources of one runner in words: "1 GPU, 4 CPU, 16Gi"."""

    @refusal
    def _labels_once(self) -> None:
        """Refuse a label given twice."""
        counts = Counter(label.lower() for label in self.labels)
        if repeated := sorted({label for label in self.labels if counts[label.lower()] > 1}):
            raise problem("labels", at=("labels",), repeated=", ".join(repeated))


class RunnerPod(Runner, PodFields, ContainerFields):
    """A runner scale set whose runners are pods, wherever they run."""

    kind: Literal["pod"] = "pod"
    """The runner is a pod on a node of a pool. Example: `pod`"""
    gpus: Annotated[int, Field(ge=0)] = 1
    """GPUs of a runner, or shares of GPUs if the pool shares them; 0 for a class whose pools have no GPUs
    (docs/cpu-classes.md). Unit: GPUs or shares. Mark: first."""
    cpu: CpuSpan
    """CPU of a runner: what the scheduler reserves, and the most that the job may use."""
    memory: MemorySpan
    """Memory of a runner: what the scheduler reserves, and the most that the job may use."""
    shm: Memory = 2048
    """Size of /dev/shm. What is in it counts against the memory limit. The 64 MiB that containers have by default break NCCL and
    data loaders."""
    scratch: Memory = 20480
    """Disk space that the scheduler reserves for the job's workspace."""
    scale: Scale
    """Smallest and largest number of runners. Jobs beyond it wait."""
    image: ImageReference | None = None
    """Container image of the runner, with a version or digest. Default: the runner image of the cluster's registry, else
    GitHub's. Example: `ghcr.io/acme/runner-gpu:12.1-ubuntu22.04`"""
    keep_failed: KeepFailed | None = None
    """Keep the pod of a failed job for some minutes, so that people can look inside (docs/failed-jobs.md). Not with
    `containers: job`. Default: no pod stays. Example: `{time: 15m, group: gpu-ci-debug}`"""
    fill_nodes: bool = False
    """Whether a runner prefers the node with the most runners. Then whole nodes stay free for large jobs, or leave, and a node
    that is lost ends more jobs (docs/stranded.md). Not with `containers: job`. Example: `true`"""

    @property
    def span(self) -> Scale:
        """The minimum and maximum number of pods."""
        return self.scale

    @property
    def runs_containers(self) -> bool:
        """As in the base class."""
        return self.in_containers

    @property
    def needs_container(self) -> bool:
        """As in the base class: the runner's own pod has no GPU."""
        return self.in_containers

    @property
    def disk(self) -> int:
        """The node's disk that each runner reserves, in MiB: the workspace, and the empty directories on disk."""
        return self.scratch + self.volume_disk

    @property
    def asks(self) -> str:
        """Its own requests in words, without those of containers beside it."""
        return request_text(self.gpus, self.cpu, self.memory)

    @refusal
    def _rules(self) -> None:
        """Refuse CPU and disk with which no runner starts, and a /dev/shm that fills the memory limit."""
        for at, kind, value in ((("cpu", "limit"), "cpu", self.cpu.limit), (("scratch",), "scratch", self.scratch)):
            if (fault := limit("RunnerPod", kind).fault(value)) is not None:
                raise problem("runner_floor", fault, at=at)
        require_shm("shm", self.shm, self.memory.limit)
        refuse("keepFailed", keep_containers=self.keep_failed is not None and self.in_containers)
        refuse("fillNodes", fill_containers=self.fill_nodes and self.in_containers)
        if not self.gpus and (of_gpus := [label for label in self.labels if label.lower() in GPU_LABELS]):
            raise problem("cpu_label", at=("labels",), label=of_gpus[0])
        for name, extra in self.volumes.items() if self.in_containers else ():
            if name in HOOK_VOLUMES or f"{extra.path}/".startswith(HOOK_FOLDERS):
                raise problem("volume_hooks", at=("volumes", name), value=name)
        if self.shm + (in_memory := self.volume_memory) >= self.memory.limit:
            raise problem("volume_fills", at=("volumes",), value=memory_text(in_memory))

    @refusal
    def _hook_rules(self) -> None:
        """Refuse names of the template that the pod of every job in a container has already."""
        if not self.in_containers or (more := self.template) is None:
            return
        rows = (("volumes", more.volumes), ("initContainers", more.init_containers), ("containers", more.containers))
        for key, entries in rows:
            for name in (entry["name"] for entry in entries):
                if name in (HOOK_VOLUMES if key == "volumes" else HOOK_CONTAINERS):
                    raise problem("template_hooks", at=("template", key), value=name)


class PodRunner(CudaFields, RunnerPod):
    """A runner scale set whose runners are pods of one pool, or of the first of several pools that has a node for them."""

    pool: str | None = None
    """The only pool of the class. A class has either this or `pools`. Mark: first."""
    pools: tuple[str, ...] = ()
    """Pools of the class, the first choice first: a job runs in the first that has a node for it (docs/fallback.md). Mark:
    first."""
    runner_pool: DnsLabel | None = None
    """The pool without GPUs for the runners' own pods, which start the jobs' pods. Only with `containers: job`. Default: the
    system pool. Example: `cpu`"""
    max_lifetime: Annotated[Duration, between("max_lifetime", 600, 144 * 3600)] = 23_400
    """Age at which a runner is deleted, unless GitHub says that its job runs, from 10m to 144h. GitHub ends a job after 6 hours
    by default; the rest is for its last steps. Source: docs.github.com, workflow syntax, timeout-minutes. Example: `7h`"""
    schedules: RunnerSchedules | None = None
    """Windows of the week in which more runners wait for jobs (docs/schedules.md)."""
    same_as: SetReference | None = None
    """The runner set of another cluster that this one equals, as cluster/set. GitHub gives a job to either (docs/fallback.md)."""
    same_as_order: Annotated[int, Field(ge=2, le=99)] | None = None
    """The place of this set among its equals, for jobs that choose one by the action choose-runner; the set of `sameAs` is the
    first. Unit: place in the order. Default: after those with a number, by the name of the cluster. Example: `2`"""
    image_size: Memory | None = None
    """Size of the unpacked image. `gpu-ci start` computes with it how long a node pulls the image; nothing else reads
    it. Example: `12Gi`"""
    rerun_on: str | None = None
    """The runner set without spot pools on which interrupted jobs of this class run again (docs/rerun.md). Example:
    `gpu-t4-release`"""
    rerun_first_on: str | None = None
    """The runner set of the first of two reruns. It has a spot pool, and may be this set itself; `rerunOn` takes the second.
    Default: one rerun (docs/rerun.md). Example: `gpu-t4`"""

    @property
    def reruns_on(self) -> tuple[str, ...]:
        """The sets that take its interrupted jobs, the first rerun's first."""
        return tuple(name for name in (self.rerun_first_on, self.rerun_on) if name is not None)

    @property
    def ordered(self) -> tuple[str, ...]:
        """All its pools, the first choice first."""
        return self.pools if self.pool is None else (self.pool,)

    @property
    def on_system_pool(self) -> bool:
        """Whether the runners have pods of their own there."""
        return self.in_containers and self.runner_pool is None

    @property
    def waiting_pools(self) -> tuple[str, ...]:
        """The pools in which its runners wait for jobs: those of its jobs, or that of the runners' own pods. Empty if none."""
        return (() if self.runner_pool is None else (self.runner_pool,)) if self.in_containers else self.ordered

    @property
    def used_pools(self) -> tuple[str, ...]:
        """All pools in which it has pods, each once."""
        return tuple(dict.fromkeys((*self.ordered, *self.waiting_pools)))

    @property
    def longest_job(self) -> int:
        """As in the base class: then the reaper takes the runner for one that hangs."""
        return self.max_lifetime

    @property
    def cloud_role(self) -> str:
        """The role of a cloud that every job has; empty for none."""
        return ""

    def pool_at(self, index: int) -> tuple[str, ...]:
        """The path of the setting that names a pool of `ordered`."""
        return ("pool",) if self.pool is not None else ("pools", str(index))

    @refusal
    def _pool_rules(self) -> None:
        """Refuse a class without a pool, both keys together, a pool twice, CUDA without GPUs, and windows beyond `scale`."""
        refuse_if("runner_pools", (self.pool is None) == (not self.pools), at=("pools",) if self.pools else ("pool",))
        require_once("repeated_pool", self.pools, at=("pools",))
        refuse_if("containers_none", self.runner_pool is not None and not self.in_containers, at=("runnerPool",))
        refuse("sameAsOrder", same_order_alone=self.same_as_order is not None and self.same_as is None)
        refuse("rerunFirstOn", rerun_first=self.rerun_first_on is not None and self.rerun_on is None)
        refuse("cuda", cuda_without_gpus=self.cuda is not None and not self.gpus)
        if self.keep_failed is not None and self.max_lifetime < (least := DEFAULT_TIMEOUT * 60 + self.keep_failed.time):
            raise problem("keep_lifetime", at=("keepFailed", "time"), default=DEFAULT_TIMEOUT, least=math.ceil(least / 60))
        if self.schedules is not None:
            self.schedules.require_within(self.scale.min, self.scale.max, "scale")


class RunnerQuota(Model):
    """The most GPUs of several runner classes together. A job beyond it waits in GitHub's queue, because no set asks for it.

    Kubernetes has no quota over several namespaces, and a class has its own. So the plan proves the sum of `scale.max`.
    """

    gpus: Annotated[int, Field(ge=0)]
    """The most GPUs of all these classes at one time, or shares of GPUs if their pools share them. Unit: GPUs or shares.
    Example: `4`"""
    runners: Annotated[tuple[str, ...], Field(min_length=1)]
    """The classes whose runners it counts. A class may be in several quotas. Example: `[gpu-t4, gpu-t4-x4]`"""

    @refusal
    def _each_class_once(self) -> None:
        """Refuse a class given twice: it counts once."""
        require_once("repeated_runner", self.runners, at=("runners",))
