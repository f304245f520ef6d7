"""A smoke test of GitHub's side: the workflow test-gpu on one runner set, started by the name of the set and by its labels.

The program `gh` starts the runs, with its own login or GH_TOKEN. Whether GitHub gives a set a job that names several labels is
disputed (`fleet.prove.remarks`), so one job by name shows nothing about jobs by labels.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.facts.errors import quoted
from fleet.prove.remarks import PAGE, ways
from fleet.providers.fleet import Fleet
from gpu_ci.submit.errors import InputError, SubmitError
from gpu_ci.submit.output import Output
from gpu_ci.submit.result import Outcome, Result

WORKFLOW = "test-gpu.yml"
GH = "gh"
"""The program that talks to GitHub."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}")
_SHOWN = 300.0
"""Seconds in which GitHub must list a run that was started."""


@dataclass(frozen=True, slots=True)
class GitHubJob:
    """One job of the workflow. `way` is name or labels, and `runs_on` the input of the workflow."""

    runner_set: str
    way: str
    runs_on: str

    @property
    def test(self) -> str:
        """What the job tests, for people."""
        return f"GitHub job by {self.way}"

    def start(self, repository: str) -> list[str]:
        """The command that starts it."""
        return ["gh", "workflow", "run", WORKFLOW, "--repo", repository, "-f", f"runs-on={self.runs_on}"]


def github_jobs(fleet: Fleet, cluster: str | None) -> list[GitHubJob]:
    """The jobs for the first runner set with labels, or else for the first set, of one cluster or of all. None without a set."""
    sets = [member for member in fleet.runner_sets() if cluster in (None, member[0])]
    for of, name, runner in sorted(sets, key=lambda member: not member[2].labels)[:1]:
        return [GitHubJob(f"{of}/{name}", way, runs_on) for way, runs_on in ways(fleet, name, runner).items()]
    return []


def commands(jobs: list[GitHubJob]) -> Iterator[str]:
    """What a person types to start the jobs."""
    for job in jobs:
        yield f"{job.runner_set}, {job.test}: {shlex.join(job.start('OWNER/REPOSITORY'))}"


def require_repository(repository: str) -> None:
    """Raise InputError for a text that does not name a repository."""
    if not _REPOSITORY.fullmatch(repository):
        raise InputError(f"--repository: must be OWNER/REPOSITORY; got {quoted(repository)}")


def run_job(job: GitHubJob, repository: str, output: Output, start_within: float, poll: float = 15) -> Result:
    """Start a job and follow it to its end. A job that does not start in time is canceled. Raises SubmitError if gh fails."""
    began, last = time.monotonic(), _newest(repository)
    output.progress(job.runner_set, f"{job.test}: starting {WORKFLOW} of {repository}")
    _gh(job.start(repository))
    while (run := _newest(repository)) == last:
        if time.monotonic() - began > _SHOWN:
            raise SubmitError(f"GitHub shows no run of {WORKFLOW} in {repository}; check its Actions page")
        time.sleep(poll)
    try:
        return _follow(job, repository, run, began, start_within, poll)
    except KeyboardInterrupt:
        _gh(["gh", "run", "cancel", run, "--repo", repository])
        raise


def _follow(job: GitHubJob, repository: str, run: str, began: float, start_within: float, poll: float) -> Result:
    while True:
        view = _gh(["gh", "run", "view", run, "--repo", repository, "--json", "status,conclusion,url"])
        status, conclusion, url = (str(view[key]) for key in ("status", "conclusion", "url"))
        seconds = time.monotonic() - began
        if status == "completed":
            ended = Outcome.COMPLETE if conclusion == "success" else Outcome.FAILED
            return Result(
                job.test, repository, ended, "" if ended is Outcome.COMPLETE else f"{conclusion}: {url}", seconds=seconds
            )
        if status != "in_progress" and seconds > start_within:
            _gh(["gh", "run", "cancel", run, "--repo", repository])
            why = f"no runner took the job, so it was canceled: {url}"
            hint = f"; by name it ran: see {PAGE}" if job.way == "labels" else ""
            return Result(job.test, repository, Outcome.LATE, why + hint, seconds=seconds)
        time.sleep(poll)


def _newest(repository: str) -> str:
    options = ["--workflow", WORKFLOW, "--event", "workflow_dispatch", "--limit", "1", "--json", "databaseId"]
    runs = _gh(["gh", "run", "list", "--repo", repository, *options])
    return str(runs[0]["databaseId"]) if runs else ""


def _gh(words: list[str]) -> Any:
    """The JSON that gh prints; None for a command that prints none. Raises SubmitError."""
    try:
        process = subprocess.run([GH, *words[1:]], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - no shell
    except OSError as error:
        raise InputError(
            f"--repository: gh cannot be started: {type(error).__name__}; install it, or leave the option out"
        ) from None
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise SubmitError(f"{' '.join(words[:3])} ended with status {process.returncode}: {last}")
    return json.loads(process.stdout) if "--json" in words else None
