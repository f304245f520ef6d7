"""Where each job of a workflow runs in a fleet, or why it does not, with the edit of one line that changes that."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from fleet.facts.github import DEFAULT_TIMEOUT
from gpu_ci.workflows import hooks
from gpu_ci.workflows.job import Job, Step
from gpu_ci.workflows.served import Served

State = Literal["runs", "not ours", "no runner", "undeterminable"]
_SIMILAR = 0.6


class Answer(NamedTuple):
    """What a fleet does with a job. `edit` is how to change that, empty for a job that runs; `remarks` are notes on it."""

    job: Job
    state: State
    message: str
    edit: str = ""
    sets: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def judge(job: Job, sets: tuple[Served, ...]) -> Answer:
    """What runner sets do with a job."""
    if job.unresolved:
        return Answer(job, "undeterminable", job.unresolved)
    serving = [entry for entry in sets if job.runs_on.matches(entry.labels, entry.group)]
    if not serving and job.runs_on.hosted:
        return Answer(job, "not ours", f"{job.wants} is a runner of GitHub")
    able = tuple(entry for entry in sets if hooks.refusal(job, entry) is None)
    if not serving:
        edit = _nearest(job, able or sets) if sets else "add a class to the stack"
        # The nearest class may refuse the job too.
        if sets and (refused := hooks.refusal(job, _closest(job, able or sets))) is not None:
            edit += f", and {refused.edit}"
        return Answer(job, "no runner", f"no set of the stack serves {job.wants}, so no runner takes the job", edit)
    names = tuple(dict.fromkeys(f"{entry.cluster}/{entry.name}" for entry in serving))
    for entry in serving:
        if (refused := hooks.refusal(job, entry)) is not None:
            others = tuple(other for other in able if other.gpus >= entry.gpus)
            edits = [refused.edit] if entry.runner.runs_containers or not others else []
            edits += [_nearest(job, others)] if others else []
            return Answer(job, refused.state, refused.message, ", or ".join(edits), names)
    remarks = tuple(dict.fromkeys(remark for entry in serving for remark in _remarks(job, entry, sets)))
    return Answer(job, "runs", f"runs on {' or '.join(entry.words for entry in serving)}", "", names, remarks)


def _nearest(job: Job, sets: tuple[Served, ...]) -> str:
    """The edit of `runs-on` to the set with most of the labels, then to the one with the most similar name."""
    labels = job.runs_on.labels
    for entry in sets:
        if labels and all(label in entry.labels for label in labels):
            grouped = f"runs-on: {{group: {entry.group}, labels: {entry.name}}}"
            return f"write {grouped if job.runs_on.group else entry.edit}"
    common, ratio = _likeness(job, best := _closest(job, sets))
    names = ", ".join(dict.fromkeys(entry.name for entry in sets))
    return f"write {best.edit}" if common or ratio >= _SIMILAR else f"write runs-on: with one of {names}"


def _closest(job: Job, sets: tuple[Served, ...]) -> Served:
    return max(sets, key=lambda entry: _likeness(job, entry))


def _likeness(job: Job, entry: Served) -> tuple[int, float]:
    """How many labels of a job a set has, and how similar its name is to one of them."""
    labels = job.runs_on.labels
    ratios = [SequenceMatcher(None, label, entry.name.lower()).ratio() for label in labels]
    return len({*labels} & {*entry.labels}), max(ratios, default=0)


def _remarks(job: Job, entry: Served, sets: tuple[Served, ...]) -> Iterator[str]:
    """Notes on a job that a set takes."""
    longest, minutes = entry.runner.longest_job, job.timeout
    if longest is not None and minutes is not None and minutes * 60 > longest:
        default = " (GitHub's default)" if minutes == DEFAULT_TIMEOUT else ""
        yield hooks.told("timeout", entry, job=job, default=default, most=longest // 60)
    if job.gpus > entry.gpus:
        yield hooks.told("gpus", entry, job=job)
    elif job.asks.startswith("--gpus") and not entry.gpus:
        yield hooks.told("no_gpus", entry, job=job)
    yield from hooks.remarks(job, entry)
    for step in job.steps:
        if step.needs == "entrypoint" and entry.runner.needs_container:
            yield hooks.told("entrypoint", entry, step=step)
        elif not _can(entry, step):
            able = [f"write {other.edit}" for other in sets if _can(other, step)]
            fix = able[0] if able else hooks.without_docker(step, entry)
            yield hooks.told("docker" if step.needs == "docker" else "container", entry, step=step, fix=fix)


def _can(entry: Served, step: Step) -> bool:
    return entry.runner.runs_containers if step.needs == "container" else entry.runner.has_docker
