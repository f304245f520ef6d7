"""What an audit knows of any fleet: node pools, runner classes, controllers, other objects, workflows.

`Keys` is a value of somebody's file, with its place. It notes what was read, so that an audit can list every other key.
The readers in `formats` fill the model, and the rules in `rules` ask it. Every entry has the place that it comes from.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fleet.facts import hardware
from fleet.facts.hardware import ON_DEMAND
from fleet.facts.nested import at, items, part, parts, text_at
from fleet.facts.places import Keys as Steps, dotted, leaves
from fleet.facts.quantities import quantity
from fleet.facts.record import Record
from fleet.facts.requests import requests_of
from fleet.facts.scheduling import Taint, is_gpu_resource
from fleet.prove.runs_on import RunsOn
from gpu_ci.workflows.job import File, Job, Workflows

if TYPE_CHECKING:
    from fleet.prove.reach import Node, Reach

RUNNER_IMAGE = "ghcr.io/actions/actions-runner:latest"
"""The image of a scale set that names none (values.yaml of gha-runner-scale-set 0.14.2)."""


class Keys:
    """A value at a path of a document. Readers take texts, numbers and lists from it; `whole` takes all that is below.

    A value that a text holds, such as the values of an Argo CD Application, has the place of the text and no path of its own.
    """

    __slots__ = ("_read", "file", "inner", "path", "value")

    def __init__(self, file: File, value: object, path: Steps = (), read: set[Steps] | None = None, inner: bool = False) -> None:
        self.file, self.value, self.path, self.inner = file, value, path, inner
        self._read: set[Steps] = set() if read is None else read

    def __bool__(self) -> bool:
        return self.value is not None

    @property
    def place(self) -> str:
        """File and line."""
        return self.file.place(*self.path)

    def __contains__(self, key: str) -> bool:
        return key in part(self.value)

    def get(self, *path: str) -> "Keys":
        """The value at a path below; that of an absent key is None."""
        return self._below(path, at(self.value, *path))

    def text(self, *path: str) -> str:
        """The text at a path; a number as text, empty for anything else."""
        value = self.whole(*path)
        return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""

    def flag(self, *path: str) -> bool | None:
        """True or false; None if the file says neither."""
        return value if isinstance(value := self.whole(*path), bool) else None

    def count(self, *path: str) -> int | None:
        """The whole number at a path, also as text; None for anything else."""
        return int(number) if (number := quantity(self.whole(*path))) is not None else None

    def items(self, *path: str) -> "list[Keys]":
        """The values of the list at a path."""
        return [self._below((*path, number), item) for number, item in enumerate(items(self.value, *path))]

    def entries(self, *path: str) -> "dict[str, Keys]":
        """The values of the mapping at a path."""
        return {str(key): self._below((*path, key), value) for key, value in part(self.value, *path).items()}

    def each(self, path: str) -> "list[Keys]":
        """The values at a path such as "terms[].id": `[]` stands for every item of a list, `\\.` for a dot in a key."""
        found = [self]
        for key in re.split(r"(?<!\\)\.", path.replace("[]", ".[]")):
            found = [one for at_ in found for one in (at_.items() if key == "[]" else [at_.get(key.replace("\\.", "."))])]
        return found

    def texts(self, *path: str) -> tuple[str, ...]:
        """The texts of a list, or of one text."""
        value = self.whole(*path)
        return tuple(str(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str | int | float))

    def whole(self, *path: str) -> Any:
        """The plain value at a path. Everything below counts as read."""
        self._read.add((*self.path, *path))
        return at(self.value, *path)

    def mapping(self, *path: str) -> Mapping[str, Any]:
        """The plain mapping at a path; empty for anything else. Everything below counts as read."""
        return value if isinstance(value := self.whole(*path), Mapping) else {}

    def skip(self, *keys: str) -> None:
        """Keys that say nothing that an audit judges count as read."""
        self._read.update((*self.path, key) for key in keys)

    def pass_over(self, *paths: str) -> None:
        """The same for paths as `each` takes them."""
        for above, _, key in (path.rpartition(".") for path in paths):
            for one in self.each(above) if above else [self]:
                one.skip(key)

    def parsed(self, value: object) -> "Keys":
        """What the text here holds."""
        self.whole()
        return Keys(self.file, value, self.path, inner=True)

    def instead(self, value: object) -> "Keys":
        """Another value in this place."""
        return Keys(self.file, value, self.path, self._read, inner=True)

    def laid(self, parts: "list[Keys]") -> "Keys":
        """Values laid over each other as Helm does, the last over the first."""
        nothing: object = {}
        return Keys(self.file, reduce(_over, [part.value for part in parts], nothing), self.path, inner=True)

    def note(self, merged: "Keys") -> None:
        """Count as read here what was read of values that this is a part of."""
        start = len(merged.path)
        self._read.update([(*self.path, *path[start:]) for path in merged._read if path[:start] == merged.path])

    def _below(self, path: Steps, value: object) -> "Keys":
        return Keys(self.file, value, (*self.path, *path), self._read, self.inner)

    def unread(self) -> Iterator[tuple[str, str]]:
        """Place and dotted path of each key below that was not read. A mapping of which nothing was read is one key."""
        yield from self._unread(self.path, self.value)

    def _unread(self, path: Steps, value: object) -> Iterator[tuple[str, str]]:
        if path in self._read:
            return
        known = {read[: len(path) + 1] for read in self._read if read[: len(path)] == path}
        inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, below in inner:
            deeper = (*path, key)
            if deeper in known:
                yield from self._unread(deeper, below)
            elif any(leaf not in (None, {}, []) for _, leaf in leaves(below)):
                yield self.file.place(*deeper), dotted(deeper)


def _over(under: object, over: object) -> object:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return over
    return {**under, **{key: _over(under[key], value) if key in under else value for key, value in over.items()}}


class Overhead(Record):
    """What a job's pod needs beside the job: `cpu` in millicores, `memory` in MiB. `name` says who counted it.

    `daemon_sets`: the DaemonSets of the node are in it.
    """

    name: str
    cpu: int
    memory: int
    daemon_sets: bool

    def beside(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The spec of a pod with this as a container more."""
        size = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        return {**spec, "containers": [*items(spec, "containers"), {"resources": {"requests": size, "limits": size}}]}


class Pool(Record, kw_only=True):
    """Nodes that a file declares. Their machine is one of `types`, the first that is bought first; empty if the file names none.

    `scaler` is what adds nodes: "karpenter", "managed group" (EKS), "group" (an Auto Scaling group or OCI's node pool), "none"
    for nodes that exist. `maximum` counts nodes, None without a limit; `most_gpus` is a limit of GPUs. `group` separates
    clusters. `capacities` are capacity types in the order of purchase. `startup_taints` go away once a node is ready. `tags` are
    what the autoscaler sees before the first node is there. `allocatable` has what a node of unknown type offers, as quantities.
    `disk` is in GiB, 0 if unknown. `topology` is the policy of kubelet's topology manager, `reservations` are ids of capacity
    reservations. `image` is the node image as the file names it. `repairs`: whether something replaces a node that is sick.
    `driver` is the version of NVIDIA's driver and `kubernetes` that of its nodes, empty if no source names it.

    `open_types`: the file admits machines beside `types` that it does not name. `gpus_possible` is False if it admits none with
    a GPU. `choices` are labels whose value a pod chooses among these when Karpenter makes the node; without values, any.
    `kubelet` is the kubelet's configuration, `disruption` that of Karpenter. `expires` is the age at which Karpenter replaces a
    node, such as 720h. `instance_store`: pods have the machine's own disks as their ephemeral storage. `nodes` counts those that
    an export of the cluster has. `regions` has all regions of a definition that several clusters share, `region` first.
    `used` is what pods that the files do not have take of each node, as quantities.
    """

    at: Keys
    name: str
    scaler: Literal["karpenter", "managed group", "group", "none"]
    types: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, Any] = field(default_factory=dict)
    minimum: int = 0
    maximum: int | None = None
    most_gpus: int | None = None
    capacities: tuple[str, ...] = (ON_DEMAND,)
    weight: int = 0
    region: str = ""
    zones: tuple[str, ...] = ()
    group: str = ""
    disk: int = 0
    topology: str = ""
    reservations: tuple[str, ...] = ()
    image: str = ""
    repairs: bool | None = None
    consolidates: bool = False
    driver: str = ""
    kubernetes: str = ""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open_types: bool = False
    gpus_possible: bool = True
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    disruption: Mapping[str, Any] = field(default_factory=dict)
    expires: str = ""
    instance_store: bool = False
    nodes: int = 0
    regions: tuple[str, ...] = ()
    used: Mapping[str, Any] = field(default_factory=dict)

    @property
    def from_zero(self) -> bool:
        """Whether it may have no node."""
        return self.scaler != "none" and not self.minimum


class Controller(Record):
    """A controller of Actions Runner Controller (ARC). `version` is empty if the file does not say it."""

    at: Keys
    version: str

    @property
    def place(self) -> str:
        """File and line."""
        return self.at.place


class Release(NamedTuple):
    """A release of a Helm chart. `parts` are its values, the last over the first; one with a text is a file with values."""

    at: Keys
    chart: str
    version: str
    name: str
    parts: tuple[Keys, ...]


class RunnerClass(Record, kw_only=True):
    """What a `runs-on` may name: a runner scale set of ARC, or machines with a runner for each job.

    `by` says what makes its runners. `name` and `version` (of ARC) are empty if the file does not say them. `pod` is the spec
    of the runner's pod, `job` that of the pod in which a job of a kubernetes mode runs, as far as the hook template says it;
    `hook_template` is the template's path in the runner, empty if the runner has none. `machines` are the types of runners that
    are machines, `disk` their size in GiB, 0 if unknown. `any_label`: one label of a job is enough (terraform-aws-github-runner
    without exactMatch). `label_sets`: all labels of a job must be in one of these sets, and the name is not a label; labels that
    begin with `ignores` do not count. Of several classes that serve a job, the one with the least `priority` gets it.
    `needs_container`: it takes no job without `container`. `maximum` is None without a limit. `url` is the address at GitHub.
    `values` are the chart's values, or else what the file says of the class: the edits of a fix are below it, those of the pod
    at `pod_at`. `cluster` and `regions` have all clusters of a definition that several share. `overheads` are figures that
    disagree: a rule tries each. `listener` is what the values say of the listener's pod.
    """

    at: Keys
    name: str
    values: Keys
    labels: frozenset[str] = frozenset()
    group: str = "Default"
    version: str = ""
    image: str = ""
    mode: str = ""
    runs_containers: bool = False
    needs_container: bool = False
    any_label: bool = False
    minimum: int = 0
    maximum: int | None = None
    url: str = ""
    pod: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] | None = None
    machines: tuple[str, ...] = ()
    capacities: tuple[str, ...] = (ON_DEMAND,)
    region: str = ""
    cluster: str = ""
    namespace: str = ""
    ephemeral: bool = True
    pod_at: tuple[str, ...] | None = None
    hook_template: str = ""
    regions: tuple[str, ...] = ()
    overheads: tuple[Overhead, ...] = ()
    by: Literal["arc", "launcher", "terraform-aws-github-runner", "runs-on", "gpu-ci"] = "arc"
    label_sets: tuple[frozenset[str], ...] = ()
    ignores: str = ""
    priority: int = 0
    disk: int = 0
    listener: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """File and line."""
        return self.at.place

    @property
    def where(self) -> Mapping[str, Any]:
        """The spec of the pod that needs the GPU: that of the job, or else of the runner."""
        return self.job if self.job is not None else self.pod

    def serves(self, asked: RunsOn) -> bool:
        """Whether a job with this `runs-on` may run here."""
        kept = tuple(label for label in asked.labels if not (self.ignores and label.lower().startswith(self.ignores)))
        sets = self.label_sets or (frozenset((self.name, *self.labels)),)
        if self.any_label and kept:
            lowered = {label.lower() for held in sets for label in held}
            return any(label.lower() in lowered for label in kept)
        return any(RunsOn(kept, asked.group).matches(held, self.group) for held in sets)


@dataclass(slots=True)
class Seen:
    """Everything that an audit read.

    `objects` are Kubernetes objects, and answers of the AWS CLI, by kind; `not_read` are files that could not be read, `unread`
    place and path of keys that no reader knows. `reached`, `homes` and `near` have what `homes.py` found, `nodes`
    the nodes of the pools. `releases` and `files`, the documents that may be values, are what `formats.arc` joins;
    `read` are the documents that a reader knew.
    """

    classes: list[RunnerClass] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    objects: dict[str, list[Keys]] = field(default_factory=dict)
    workflows: Workflows = field(default_factory=Workflows)
    reached: dict[int, "Reach"] = field(default_factory=dict)
    homes: dict[int, list[Any]] = field(default_factory=dict)
    near: dict[tuple[Path, str], "list[Pool]"] = field(default_factory=dict)
    nodes: dict[tuple[object, ...], "Node"] = field(default_factory=dict)
    files: dict[Path, Keys] = field(default_factory=dict)
    read: list[Keys] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    @property
    def jobs(self) -> list[Job]:
        """The jobs of all workflows."""
        return self.workflows.jobs

    @property
    def empty(self) -> bool:
        """Whether there is nothing that an audit knows."""
        return not (self.classes or self.pools or self.controllers or self.objects or self.jobs)

    def add(self, kind: str, keys: Keys) -> None:
        """Keep an object."""
        self.objects.setdefault(kind, []).append(keys)

    def of_kind(self, *kinds: str) -> Iterator[Keys]:
        """The objects of these kinds."""
        for kind in kinds:
            yield from self.objects.get(kind, ())


def container(spec: Mapping[str, Any], name: str = "runner") -> Mapping[str, Any]:
    """A container of a pod spec by its name; empty if it has none."""
    return next((entry for entry in parts(spec, "containers") if entry.get("name") == name), {})


def gpus_of(one: RunnerClass) -> int | None:
    """GPUs of a job of a class; None if its machine is not in the table."""
    if one.machines:
        found = [machine.gpus for name in one.machines if (machine := hardware.find(name)) is not None]
        return min(found) if found else None
    wanted = requests_of(one.where)
    return int(sum(amount for name, amount in wanted.items() if is_gpu_resource(name)))


def variables(spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the runner's container, as far as the file says the values."""
    return {text_at(entry, "name"): str(part({"": entry}, "").get("value", "")) for entry in items(container(spec), "env")}


def taints(entries: Iterable[Keys]) -> tuple[Taint, ...]:
    """Taints as Kubernetes writes them. One without an effect that Kubernetes knows is left out."""
    found = []
    for entry in entries:
        try:
            found.append(Taint.read(f"{entry.text('key')}={entry.text('value')}:{entry.text('effect')}"))
        except ValueError:
            continue
    return tuple(found)
