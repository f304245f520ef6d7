"""Reads workflows: where each job wants to run, which containers it starts, and what its steps do with Docker.

A job that calls a workflow of the same repository has that workflow's jobs, with the inputs filled in. The keys are those of
docs.github.com, "Workflow syntax for GitHub Actions" and "Metadata syntax for GitHub Actions".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fleet.facts.errors import InputError, quoted
from fleet.facts.github import DEFAULT_TIMEOUT
from fleet.facts.nested import at, items, part, text_at
from fleet.facts.record import Record
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from fleet.prove.runs_on import RunsOn
from gpu_ci.workflows.containers import Container, containers_of
from gpu_ci.workflows.expressions import Contexts, as_text, combinations, filled, is_open

_GPUS = re.compile(
    r"--gpus[ =]+[\"']*(?:capabilities=\w+,)?"
    r"(?:(?:count=)?(?:(?P<count>[0-9]{1,4})|all)\b|device=(?P<devices>[\w-]+(?:,[\w-]+(?![\w=-]))*))"
)
"""Docker's option (docs.docker.com, "docker container run", --gpus): a number, or fields such as "count=2,capabilities=gpu"."""
_DEVICES = re.compile(r"[0-9]+(?:\s*,\s*[0-9]+)*")
_DOCKER = re.compile(
    r"(?:^|[;&|(])[ \t]*(?:sudo[ \t]+)?(docker(?:-compose|[ \t]+(?:build|buildx|compose|pull|push|run))|kind[ \t]+create)\b",
    re.MULTILINE,
)
_DOCKER_ACTIONS = ("docker/build-push-action@", "docker/setup-buildx-action@", "docker/bake-action@")
_BUILDX = (*_DOCKER_ACTIONS, "docker buildx")
LOCAL = re.compile(r"[.$]/([^\0\n]*)")
"""`uses` of something in the same repository."""
_LONGEST = 10**6
"""Minutes that stand for any longer timeout. GitHub ends every job earlier."""
_RUN = re.compile(r"\$\{\{\s*github\.run_(?:id|attempt|number)\s*\}\}")
_DEEPEST = 10
"""Levels of composite actions (docs.github.com, "Reusing workflow configurations": up to 10 of them nest)."""
Needs = Literal["container", "entrypoint", "docker"]
"""What a step needs: a container, one whose image names the program to run, or Docker."""
_Needed = Iterator[tuple[Needs, str]]
Actions = dict[Path, Mapping[str, Any]]
"""`runs` of the actions of repositories by their folders, each read once."""


class File(Record, eq=False):
    """A workflow with its path. Equal to itself alone."""

    path: Path
    document: Document

    def place(self, *keys: str | int) -> str:
        """File and line of a key, or of the nearest key above it that the file has."""
        while keys and keys not in self.document.lines:
            keys = keys[:-1]
        return f"{self.path}:{self.document.lines[keys]}"

    @property
    def repository(self) -> Path | None:
        """The root of the repository; None for a workflow that is not in its place."""
        path = self.path.absolute()
        return path.parents[2] if path.parent.parts[-2:] == (".github", "workflows") else None


class Step(NamedTuple):
    """A step that starts a container, or that calls Docker as far as its text shows."""

    place: str
    needs: Needs
    text: str


class Job(Record):
    """A job. `unresolved` says why its `runs-on` is unknown; `runs_on` then has no meaning.

    `images` are the containers that it starts. `timeout` is in minutes, None if only GitHub knows it; `timed`: the job sets it.
    `gpus` is the number of GPUs that `asks`, such as "--gpus 2", names; 0 without a number. `events` start its workflow. `file`
    and `key` are where it is written.
    """

    place: str
    name: str
    runs_on: RunsOn
    unresolved: str
    images: tuple[Container, ...] = ()
    timeout: float | None = DEFAULT_TIMEOUT
    gpus: int = 0
    asks: str = ""
    # All combinations of a matrix have the same, and there may be thousands.
    steps: tuple[Step, ...] = field(default=(), hash=False)
    timed: bool = False
    events: frozenset[str] = frozenset()
    file: File | None = None
    key: str = ""

    @property
    def wants(self) -> str:
        """Its `runs-on` in words: "gpu-t4 and gpu and group GPUs"."""
        return " and ".join([*self.runs_on.labels, *([f"group {self.runs_on.group}"] if self.runs_on.group else [])])

    @property
    def container(self) -> Container | None:
        """The container of its steps."""
        return next((image for image in self.images if image.key == "container"), None)

    @property
    def services(self) -> tuple[Container, ...]:
        """The containers beside that of its steps."""
        return tuple(image for image in self.images if image.key != "container")

    @property
    def containers(self) -> str:
        """The key, `container` or `services`, that needs a runner with containers; empty without one."""
        # One that certainly starts comes first.
        first = min(self.images, key=lambda image: image.open, default=None)
        return first.key.partition(".")[0] if first is not None else ""

    @property
    def open_image(self) -> str:
        """The text by which only GitHub knows whether the job starts a container."""
        return self.images[0].image if self.images and all(image.open for image in self.images) else ""

    @property
    def image_in_words(self) -> str:
        """Why it is open whether the job starts a container."""
        return f"only GitHub knows whether {self.containers} starts a container, by {quoted(self.open_image, 200)}"


def job_of(
    place: str, name: str, job: Mapping[str, Any], contexts: Contexts, steps: tuple[Step, ...], file: File, events: frozenset[str]
) -> Job:
    """A job with the expressions replaced that `contexts` knows."""
    runs_on = filled(job.get("runs-on"), contexts)
    container = filled(job["container"], contexts) if is_open(job.get("container")) else job.get("container")
    group = runs_on.get("group") or "" if isinstance(runs_on, Mapping) else ""
    labels = runs_on.get("labels") if isinstance(runs_on, Mapping) else runs_on
    texts = [as_text(label) for label in (labels if isinstance(labels, list) else [labels]) if label not in (None, "")]
    # The number of a run distinguishes RunsOn's machines, and says nothing of the machine.
    texts = [_RUN.sub("0", text) if text.startswith("runs-on=") else text for text in texts]
    left = next((text for text in (*texts, str(group)) if is_open(text)), "")
    unresolved = f"only GitHub can evaluate {quoted(left, 200)}; name a set" if left else ""
    if not texts and not group:
        unresolved = "it has no runs-on; name a set"
    visible = part(container, "env").get("CUDA_VISIBLE_DEVICES", part(job, "env").get("CUDA_VISIBLE_DEVICES"))
    return Job(
        place,
        name,
        RunsOn(tuple(sorted({text.lower() for text in texts})), str(group)),
        unresolved,
        containers_of(job, contexts),
        _minutes(filled(job.get("timeout-minutes", DEFAULT_TIMEOUT), contexts)),
        *_gpus(str(filled(text_at(container, "options"), contexts)), str(filled(visible, contexts))),
        steps,
        "timeout-minutes" in job,
        events,
        file,
        name.rpartition(" / ")[2],
    )


def _minutes(timeout: object) -> float | None:
    """A timeout as GitHub reads it: a text with a number is one."""
    try:
        return min(float(timeout), float(_LONGEST)) if isinstance(timeout, str | float | int) else None
    except (ValueError, OverflowError):
        return None


def _gpus(options: str, visible: str) -> tuple[int, str]:
    """How many GPUs a job names, 0 for all and for none, and in which words."""
    if (flag := _GPUS.search(options)) is not None:
        devices = flag["devices"].split(",") if flag["devices"] else []
        return int(flag["count"] or len(devices)), re.sub("[\"']", "", flag[0])
    return (visible.count(",") + 1, f"CUDA_VISIBLE_DEVICES: {visible}") if _DEVICES.fullmatch(visible.strip()) else (0, "")


def steps_of(file: File, actions: Actions, *at: str) -> Iterator[Step]:
    """The steps of a job that need more than a shell, with their lines. `actions` has the actions that were read before."""
    steps = items(file.document.value, *at)
    repository = file.repository.resolve() if file.repository is not None else None
    drivers = (part(step, "with").get("driver") or text_at(step, "run") for step in steps)
    remote = any(driver == "remote" or "--driver remote" in str(driver) for driver in drivers)
    for number, step in enumerate(steps):
        for needs, text in _needs(step, repository, actions, set()):
            # Builds of this driver ask no daemon (docs/builds.md).
            if not remote or not text.startswith(_BUILDX):
                yield Step(file.place(*at, number), needs, text)


def _needs(step: object, repository: Path | None, actions: Actions, seen: set[Path], level: int = 1) -> _Needed:
    uses, run = text_at(step, "uses"), text_at(step, "run")
    if uses.startswith("docker://"):
        yield _kind_of(step), uses
    elif uses.startswith(_DOCKER_ACTIONS):
        yield "docker", uses
    elif (call := _DOCKER.search(run)) is not None:
        yield "docker", " ".join(call[1].split())
    elif (local := LOCAL.fullmatch(uses)) is not None and repository is not None and level <= _DEEPEST:
        yield from _of_action(step, repository, local[1], actions, seen, level)


def _kind_of(step: object, action: object = None) -> Needs:
    """What a container action needs: action or step may name its program (actions/runner, ContainerActionHandler)."""
    inputs = {str(key).lower(): value for key, value in part(step, "with").items()}
    return "container" if text_at(action, "entrypoint") or text_at(inputs, "entrypoint") else "entrypoint"


def _of_action(step: object, repository: Path, name: str, actions: Actions, seen: set[Path], level: int) -> _Needed:
    """What an action of the repository needs. Composite actions are followed, each once."""
    try:
        folder = (repository / name).resolve()
    # Python 3.11 raises RuntimeError for a link to itself.
    except (OSError, RuntimeError):
        return
    if folder in seen or not folder.is_relative_to(repository):
        return
    seen.add(folder)
    if folder not in actions:
        actions[folder] = _runs(folder)
    runs = actions[folder]
    if runs.get("using") == "docker":
        image = text_at(runs, "image")
        yield _kind_of(step, runs) if image.startswith("docker://") else "docker", f"{name} ({image})"
    for inner in items(runs, "steps"):
        yield from ((needs, f"{name} ({text})") for needs, text in _needs(inner, repository, actions, seen, level + 1))


def _runs(folder: Path) -> Mapping[str, Any]:
    """`runs` of an action; empty if there is none: a step may make the action, such as a checkout of another repository."""
    try:
        path = folder / ("action.yml" if (folder / "action.yml").exists() else "action.yaml")
        return part(documents(path)[0].value, "runs") if not path.is_symlink() else {}
    except (InputError, OSError, IndexError, RuntimeError):
        return {}


_MOST_CALLS = 10
"""Levels of workflows. Loops are refused (docs.github.com, "Reuse workflows", "Nesting reusable workflows")."""
_CALL = re.compile(r"[.$]/\.github/workflows/[^/\0\n]+")
"""`uses` of a workflow in the same repository (docs.github.com, "Reuse workflows", "Calling a reusable workflow")."""
_MOST_JOBS = 10_000
"""The most jobs and calls of one file: 39 matrices of the largest size."""
_MOST_STEPS = 100_000
"""The most steps of all these jobs that may need a line of the report."""


def is_workflow(value: object) -> bool:
    """Whether a document is a workflow, by its keys. YAML 1.1 reads the key `on` as true."""
    return isinstance(value, Mapping) and "jobs" in value and not value.keys().isdisjoint(("on", "true"))


def _triggers(workflow: object) -> object:
    return workflow.get("on", workflow.get("true")) if isinstance(workflow, Mapping) else None


def _events(workflow: object) -> frozenset[str]:
    """What starts a workflow."""
    triggers = _triggers(workflow)
    names = [triggers] if isinstance(triggers, str) else triggers if isinstance(triggers, Mapping | list) else []
    return frozenset(map(str, names))


class _Call(NamedTuple):
    """What a workflow is read for: a call at `place`, by the job `above` of the last of `callers`, in a run of `events`.

    Without `inputs` only a call knows them.
    """

    inputs: Mapping[str, Any] | None = None
    place: str = ""
    above: str = ""
    callers: tuple[Path, ...] = ()
    events: frozenset[str] | None = None


@dataclass(slots=True)
class Workflows:
    """The workflows of a folder."""

    _jobs: dict[Path, list[Job]] = field(default_factory=dict)
    _only_called: set[Path] = field(default_factory=set)
    _callees: dict[Path, File | str] = field(default_factory=dict)
    _steps: dict[tuple[File, str], tuple[Step, ...]] = field(default_factory=dict)
    _actions: Actions = field(default_factory=dict)
    _jobs_read: int = 0
    _steps_read: int = 0

    @property
    def jobs(self) -> list[Job]:
        """The jobs in the order of the files. Those of a workflow that only others start are where it is called."""
        elsewhere = self._only_called & self._callees.keys()
        # Workflows that only call one another have no other place.
        shown = (jobs for path, jobs in self._jobs.items() if path not in elsewhere or elsewhere == self._jobs.keys())
        return [job for jobs in shown for job in jobs]

    def add(self, path: Path, document: Document) -> None:
        """Read a workflow and what it calls.

        Raises InputError if it has no jobs, or more than a workflow may have, or something else in the place of a job.
        """
        file = File(path, document)
        if not part(document.value, "jobs"):
            got = at(document.value, "jobs") if isinstance(document.value, Mapping) else document.value
            raise InputError(f"{file.place('jobs')}: jobs: a workflow needs at least one job; got {quoted(got)}; add one")
        if wrong := {key: job for key, job in part(document.value, "jobs").items() if not isinstance(job, Mapping)}:
            rule, fix = "a job is a mapping", "write its keys, or remove it"
            rows = ((file.place("jobs", key), key, quoted(job)) for key, job in wrong.items())
            raise InputError("\n".join(f"{place}: jobs.{key}: {rule}; got {got}; {fix}" for place, key, got in rows))
        if _events(document.value) == {"workflow_call"}:
            self._only_called.add(path)
        self._jobs_read = self._steps_read = 0
        self._jobs.setdefault(path, []).extend(dict.fromkeys(self._read(file, _Call())))

    def _read(self, file: File, call: _Call) -> Iterator[Job]:
        """The jobs of a file, one for each combination of a matrix."""
        known = {} if call.inputs is None else {"inputs": call.inputs}
        events = _events(file.document.value) if call.events is None else call.events
        for key, job in part(file.document.value, "jobs").items():
            if not isinstance(job, Mapping):
                continue
            by_caller, name = call.place and "inputs." in str(job.get("runs-on")), f"{call.above}{key}"
            where = call.place if by_caller else file.place("jobs", key, "uses" if "uses" in job else "runs-on")
            for values in combinations(filled(at(job, "strategy", "matrix"), known)):
                self._jobs_read += 1
                if self._jobs_read > _MOST_JOBS or self._steps_read > _MOST_STEPS:
                    rule = f"a workflow has at most {_MOST_JOBS:,} jobs, and {_MOST_STEPS:,} steps with containers in all of them"
                    raise InputError(f"{file.path}: {rule}, with those that it calls; split it")
                contexts = {**known, "matrix": values}
                if "uses" in job:
                    inner = _Call(filled(part(job, "with"), contexts), where, name, (*call.callers, file.path), events)
                    yield from self._called(file, str(job["uses"]), inner)
                else:
                    steps = self._steps_of(file, key)
                    self._steps_read += len(steps)
                    yield job_of(where, name, job, contexts, steps, file, events)

    def _steps_of(self, file: File, key: str) -> tuple[Step, ...]:
        """The steps of a job, read once for all combinations and calls."""
        if (file, key) not in self._steps:
            self._steps[file, key] = tuple(steps_of(file, self._actions, "jobs", key, "steps"))
        return self._steps[file, key]

    def _called(self, file: File, uses: str, call: _Call) -> Iterator[Job]:
        callee = self._callee(file, uses) if len(call.callers) < _MOST_CALLS else f"more than {_MOST_CALLS} levels of workflows"
        if isinstance(callee, File) and callee.path in call.callers:
            callee = "it calls itself again, which GitHub refuses; remove the call"
        if isinstance(callee, str):
            yield Job(call.place, call.above, RunsOn(()), f"it calls {uses}: {callee}")
            return
        declared = part(_triggers(callee.document.value), "workflow_call", "inputs")
        defaults = {key: entry["default"] for key, entry in declared.items() if isinstance(entry, Mapping) and "default" in entry}
        yield from self._read(callee, call._replace(inputs={**defaults, **(call.inputs or {})}, above=f"{call.above} / "))

    def _callee(self, file: File, uses: str) -> File | str:
        """The workflow that a job calls, or why it is not read."""
        if LOCAL.fullmatch(uses) is None:
            return "a workflow of another repository is not read; check it there"
        if _CALL.fullmatch(uses) is None:
            return "GitHub calls only files of .github/workflows; move it there"
        if (path := file.path.parent / Path(uses).name) not in self._callees:
            self._callees[path] = _workflow(path)
        return self._callees[path]


def _workflow(path: Path) -> File | str:
    try:
        # A link may lead to another file of the machine.
        if path.is_symlink() or not path.is_file():
            return "there is no such file"
        found = [File(path, document) for document in documents(path) if is_workflow(document.value)]
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return found[0] if found else "it is not a workflow"
