"""Queue times and use for each `runs-on` of a repository's jobs."""

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from fleet.facts.groups import grouped
from gpu_ci.doctor.sources.actions import QUEUED, RUNNING, Job, Repository
from gpu_ci.offline import gfm
from gpu_ci.offline.why.causes import Stack

_MOST_RUNS = 500
"""The most runs that a report reads, the newest: each costs a request, and the workflows of a repository have 1,000 an hour."""


class Use(NamedTuple):
    """The jobs with the same labels, or with none and the same group.

    `waits` are seconds in the queue of those that started, the shortest first. `hours` are those that their runners worked,
    `waiting` jobs wait now. `share` is the part of the hours of all runners that the stack's sets may have; None without a stack
    or a set.
    """

    labels: tuple[str, ...]
    groups: tuple[str, ...]
    waits: tuple[float, ...]
    hours: float
    waiting: int
    share: float | None

    def wait(self, part: float) -> float | None:
        """The time in the queue, in seconds, within which this part of the jobs started, by nearest rank; None if none did."""
        return self.waits[max(math.ceil(part * len(self.waits)) - 1, 0)] if self.waits else None


class Report(NamedTuple):
    """A repository between two days. `read` of its `total` runs were read; `gone` were deleted before."""

    repository: str
    first: date
    last: date
    read: int
    total: int
    gone: int
    uses: tuple[Use, ...]


def report(repository: Repository, last: date, days: int, stack: Stack | None, now: datetime) -> Report:
    """Read the runs of the days until `last`. Raises SourceError."""
    first = last - timedelta(days - 1)
    runs, total = repository.runs(_MOST_RUNS, created=f"{first}..{last}")
    jobs, gone = repository.jobs_of(run.id for run in runs)
    made = uses(jobs, _passed(first, last, now), stack, now)
    return Report(repository.path, first, last, len(runs) - gone, total, gone, made)


def _passed(first: date, last: date, now: datetime) -> float:
    """The hours of these days that have passed. The days are those of GitHub's search, in UTC."""
    start, end = (datetime.combine(day, time(), UTC) for day in (first, last + timedelta(1)))
    return max((min(end, now) - start).total_seconds(), 0) / 3600


def uses(jobs: Iterable[Job], hours: float, stack: Stack | None, now: datetime) -> tuple[Use, ...]:
    """What jobs of some hours add up to, the most used labels first.

    A rerun shows jobs of an earlier attempt that started before it (tenstorrent/tt-metal#12010). They do not count.
    """
    # A `runs-on` with a group alone has no labels.
    alike = grouped(((job.key, "" if job.labels else job.runner_group_name or ""), job) for job in jobs)
    rows = (_use(labels, some, hours, stack, now) for (labels, _), some in alike.items())
    return tuple(sorted((use for use in rows if use.waits or use.waiting), key=lambda use: (-use.hours, use.labels, use.groups)))


def _use(labels: tuple[str, ...], jobs: list[Job], hours: float, stack: Stack | None, now: datetime) -> Use:
    took = [(job, job.started_at) for job in jobs if job.runner_name and job.started_at and job.started_at >= job.created_at]
    waits = sorted((start - job.created_at).total_seconds() for job, start in took)
    ends = [(start, now if job.status == RUNNING else job.completed_at or start) for job, start in took]
    worked = sum(max((end - start).total_seconds(), 0) for start, end in ends) / 3600
    most = sum(runner.span.max for runner in stack.sets(labels).values()) if stack else 0
    groups = dict.fromkeys(job.runner_group_name for job, _ in took if job.runner_group_name)
    waiting = sum(job.status == QUEUED for job in jobs)
    return Use(labels, tuple(groups), tuple(waits), worked, waiting, worked / (most * hours) if most and hours else None)


def markdown(made: Report) -> str:
    """The report as GitHub Markdown."""
    head = f"## Queue times of {gfm.text(made.repository)}, {made.first} to {made.last}"
    newest = "the newest " if made.read + made.gone < made.total else ""
    runs = f"Runs: {made.total}" + ("." if made.read == made.total else f", of which {newest}{made.read} were read.")
    runs += f" GitHub no longer has {made.gone}, which were deleted meanwhile." if made.gone else ""
    if not made.uses:
        read = "" if made.read == made.total else " that was read"
        return f"{head}\n\n{runs} No job{read} had a runner or waits for one.\n"
    runs += "" if made.read == made.total else " So Jobs, Waiting now, Runner hours and Use are lower bounds."
    columns = ("runs-on", "Group", ">Jobs", ">Median wait", ">90% within", ">Longest", ">Waiting now", ">Runner hours", ">Use")
    return f"{head}\n\n{runs}\n\n{gfm.table(columns, map(_row, made.uses))}\n\n{_NOTE}\n"


_NOTE = (
    "A wait is the time from the creation of a job to its start. A job that still runs counts until now. Use is the part of the "
    "hours of `scale.max` runners in which they ran jobs of this repository."
)


def _row(use: Use) -> tuple[str, ...]:
    labels, groups = (", ".join(map(gfm.code, names)) for names in (use.labels, use.groups))
    waits = (wait_text(use.wait(part)) for part in (0.5, 0.9, 1))
    share = "" if use.share is None else f"{use.share:.0%}"
    return labels or "a group alone", groups, str(len(use.waits)), *waits, str(use.waiting), f"{use.hours:.1f}", share


def wait_text(seconds: float | None) -> str:
    """Seconds, minutes or hours in words; empty for None."""
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
