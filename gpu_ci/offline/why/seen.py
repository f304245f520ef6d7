"""What GitHub shows of a run, and of the jobs of its repository that wait or run beside it."""

from typing import NamedTuple

from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.actions import ENDED, QUEUED, RUNNING, Job, Repository, Run

_MOST_RUNS = 100
"""The most runs of each status whose jobs are read: the workflows of a repository have 1,000 requests an hour."""


class Seen(NamedTuple):
    """A run, its jobs, and `active`: all jobs of the repository that wait or run, its own included.

    `whole`: whether `active` has them all. `gone` runs were deleted before their jobs were read. `groups` are the runner groups
    that the repository may use, in lower case; None if the token may not read them.
    """

    repository: Repository
    run: Run
    jobs: tuple[Job, ...]
    active: tuple[Job, ...]
    whole: bool
    groups: frozenset[str] | None
    gone: int = 0

    @property
    def waiting(self) -> tuple[Job, ...]:
        """The jobs of the run that have not started."""
        return tuple(job for job in self.jobs if job.status not in (RUNNING, ENDED))


def see(repository: Repository, number: int) -> Seen:
    """Ask GitHub about a run. Other runs and groups are read only if a job of it waits for a runner. Raises SourceError."""
    run = repository.run(number)
    jobs = repository.jobs(number) if run.status != ENDED else ()
    if all(job.status != QUEUED for job in jobs):
        return Seen(repository, run, jobs, jobs, whole=True, groups=None)
    lists = [repository.runs(_MOST_RUNS, status=status) for status in (RUNNING, QUEUED)]
    beside, gone = repository.jobs_of(sorted({run.id for runs, _ in lists for run in runs} - {number}))
    whole = not gone and all(total <= len(runs) for runs, total in lists)
    return Seen(repository, run, jobs, (*jobs, *beside), whole, _groups(repository), gone)


def _groups(repository: Repository) -> frozenset[str] | None:
    if not repository.token:
        return None
    try:
        return frozenset(group.name.lower() for group in repository.groups())
    except SourceError as error:
        if error.limit or error.status not in (401, 403, 404):
            raise
        return None
