"""Where each job of a workflow runs in a fleet, or why it does not, with the edit of one line that changes that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from fleet.providers.fleet import Fleet
from fleet.settings.runner import Runner, RunnerPod
from gpu_ci.workflows.job import DEFAULT_TIMEOUT, Job, Step

State = Literal["runs", "not ours", "no runner", "undeterminable"]
_SIMILAR = 0.6


@dataclass(frozen=True, slots=True)
class Served:
    """A runner set of the fleet, as jobs see it. `shared`: a set of another group has the same name."""

    cluster: str
    name: str
    group: str
    runner: Runner
    shared: bool

    @property
    def words(self) -> str:
        """Set and cluster for people."""
        return f"{self.name} of {self.cluster}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What a `runs-on` may say for it, in lower case."""
        return tuple(label.lower() for label in (self.name, *self.runner.labels))

    @property
    def edit(self) -> str:
        """The line that names it alone."""
        return f"runs-on: {{group: {self.group}, labels: {self.name}}}" if self.shared else f"runs-on: {self.name}"

    @property
    def gpus(self) -> int:
        """GPUs of a runner."""
        if isinstance(self.runner, RunnerPod):
            return self.runner.gpus
        machine = self.runner.whole_machine
        return min(kind.gpus for kind in machine.types) if machine is not None else 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a fleet does with a job. `edit` is how to change that, empty for a job that runs; `remarks` are notes on it."""

    job: Job
    state: State
    message: str
    edit: str = ""
    sets: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def served(fleet: Fleet) -> tuple[Served, ...]:
    """The runner sets of a fleet."""
    shared = fleet.shared_names
    return tuple(
        Served(cluster, name, fleet.group_of(runner), runner, name in shared) for cluster, name, runner in fleet.runner_sets()
    )


def judge(job: Job, sets: tuple[Served, ...]) -> Answer:
    """What runner sets do with a job."""
    if job.unresolved:
        return Answer(job, "undeterminable", job.unresolved)
    serving = [entry for entry in sets if job.runs_on.matches(entry.labels, entry.group)]
    if not serving and job.runs_on.hosted:
        return Answer(job, "not ours", f"{job.wants} is a runner of GitHub")
    able = tuple(entry for entry in sets if entry.runner.runs_containers or not job.containers)
    if not serving:
        edit = _nearest(job, able or sets) if sets else "add a class to the stack"
        # The nearest class may start no containers either.
        edit += "" if able else f", and {_without_containers(job)}"
        return Answer(job, "no runner", f"no set of the stack serves {job.wants}, so no runner takes the job", edit)
    names = tuple(dict.fromkeys(f"{entry.cluster}/{entry.name}" for entry in serving))
    if unable := [entry for entry in serving if entry not in able]:
        edit = _nearest(job, able) if able else _without_containers(job)
        if job.open_image:
            return Answer(job, "undeterminable", f"{job.image_in_words}, and {unable[0].words} starts none", edit, names)
        message = f"{job.containers} needs a class that starts containers, and {unable[0].words} starts none"
        return Answer(job, "no runner", message, edit, names)
    remarks = tuple(dict.fromkeys(remark for entry in serving for remark in _remarks(job, entry, sets)))
    return Answer(job, "runs", f"runs on {' or '.join(entry.words for entry in serving)}", "", names, remarks)


def _without_containers(job: Job) -> str:
    if job.containers == "services":
        return "remove services: and start them in a step, or add a class of OCI machines (docs/oci-runners.md)"
    return "remove container: and install its tools in a step or in the class's image (docs/runner-image.md)"


def _nearest(job: Job, sets: tuple[Served, ...]) -> str:
    """The edit of `runs-on` to the set with most of the labels, then to the one with the most similar name."""
    labels = job.runs_on.labels
    for entry in sets:
        if labels and all(label in entry.labels for label in labels):
            return (
                f"write runs-on: {{group: {entry.group}, labels: {entry.name}}}" if job.runs_on.group else f"write {entry.edit}"
            )

    def likeness(entry: Served) -> tuple[int, float]:
        ratios = [SequenceMatcher(None, label, entry.name.lower()).ratio() for label in labels]
        return len({*labels} & {*entry.labels}), max(ratios, default=0)

    best = max(sets, key=likeness)
    common, ratio = likeness(best)
    if common or ratio >= _SIMILAR:
        return f"write {best.edit}"
    return f"write runs-on: with one of {', '.join(dict.fromkeys(entry.name for entry in sets))}"


def _remarks(job: Job, entry: Served, sets: tuple[Served, ...]) -> Iterator[str]:
    """Notes on a job that a set takes."""
    longest, minutes = entry.runner.longest_job, job.timeout
    if longest is not None and minutes is not None and minutes * 60 > longest:
        default = " (GitHub's default)" if minutes == DEFAULT_TIMEOUT else ""
        rule = f"a job of {entry.words} may take {longest // 60}"
        yield f"timeout-minutes is {minutes:g}{default}, and {rule}; write timeout-minutes: {longest // 60} or less"
    if job.gpus > entry.gpus:
        yield f"{job.asks} names {job.gpus} GPUs, and a job of {entry.words} has {entry.gpus}; name {entry.gpus}"
    elif job.asks.startswith("--gpus") and not entry.runner.has_docker:
        yield f"{job.asks} is an option of Docker, and jobs of {entry.words} have their GPUs without it; remove it from options"
    for step in job.steps:
        if not _can(entry, step):
            able = [f"write {other.edit}" for other in sets if _can(other, step)]
            fix = able[0] if able else "move the step to a job with runs-on: ubuntu-latest"
            text = f"{step.text} starts a container" if step.needs == "container" else f"it seems that {step.text} calls Docker"
            yield f"{step.place}: {text}, which {entry.words} cannot; {fix}"


def _can(entry: Served, step: Step) -> bool:
    return entry.runner.runs_containers if step.needs == "container" else entry.runner.has_docker
