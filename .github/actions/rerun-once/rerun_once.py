"""Reruns the failed jobs of a workflow run once, if an interruption or a lack of capacity ended one. Standard library only.

An event is only a reason to look: each call reads from GitHub what is true now about every run that ended lately. The record of a
rerun is the run's own attempt number, so there is nothing to write before or after the call that a crash could lose.

`step` is the whole decision, a pure state machine for one run:

    RUN -> JOBS -> AGAIN -> CALL -> END        and from each state to END, with the reason

`python -m tests.rerun` checks that machine in every order of events (docs/rerun.md).

Reads the runner's GITHUB_API_URL, GITHUB_EVENT_PATH and GITHUB_REPOSITORY; GITHUB_TOKEN; and RERUN_WORKFLOWS, RERUN_LABELS,
RERUN_HOURS and RERUN_DRY_RUN of the action. Exit status: 0, or 1 if GitHub refused something or an input is wrong.
Facts: docs.github.com, REST API (workflow runs, workflow jobs, check runs), and the texts of annotations at `CAUSES`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

# -- the decision ------------------------------------------------------------------------------------------------------


class Cause(Enum):
    """Why a job did not succeed."""

    INTERRUPTED = "the runner was lost or shut down"
    NO_CAPACITY = "no runner took the job"
    CANCELLED = "a person cancelled it"
    REPLACED = "a newer run of its concurrency group cancelled it"
    FAILED = "the job itself failed, or another job of its matrix did"


CAUSES = (
    (Cause.CANCELLED, r"The run was canceled by @"),
    (Cause.REPLACED, r"Canceling since a higher priority waiting request"),
    # A spot node that is drained ends its runner by SIGTERM: the job's conclusion is then often "cancelled" (paradedb#5305).
    (Cause.INTERRUPTED, r"The runner has received a shutdown signal"),
    # "The self-hosted runner: NAME lost communication …", without the name in newer messages (actions/runner#2624, #2040).
    (Cause.INTERRUPTED, r"The (self-hosted|hosted) runner\b.* lost communication with the server"),
    # After 24 hours in the queue (docs.github.com, usage limits of self-hosted runners).
    (Cause.NO_CAPACITY, r"The job has exceeded the maximum execution time while awaiting a runner"),
    (Cause.NO_CAPACITY, r"The job was not acquired by Runner"),
)
"""Starts of GitHub's own annotations. "The operation was canceled." is none of them: every cancellation has it."""

KILLED = (Cause.INTERRUPTED, Cause.NO_CAPACITY)
FINE = ("success", "skipped", "neutral")
ENDED = ("failure", "cancelled", "timed_out")
"""Conclusions of runs that may contain a job to rerun."""


@dataclass(frozen=True)
class Run:
    """A run as GitHub shows it now."""

    attempt: int
    completed: bool
    newer: bool
    """Whether the same workflow has a newer run for the same event, branch and repository."""
    event: str = "push"


@dataclass(frozen=True)
class Job:
    """A job of the first attempt."""

    name: str
    conclusion: str
    labels: tuple[str, ...]
    annotations: tuple[str, ...] = ()


class Answer(Enum):
    """How GitHub answered the call."""

    ACCEPTED = "reran the failed jobs"
    RUNNING = "a rerun is already running"
    UNCLEAR = "GitHub's answer was lost; the next sweep looks again"


class State(Enum):
    """What the machine asks GitHub next."""

    RUN = "run"
    JOBS = "jobs"
    AGAIN = "run again"
    CALL = "rerun"
    END = "nothing"


@dataclass(frozen=True)
class Worker:
    """The machine for one run."""

    state: State = State.RUN
    reason: str = ""


def step(worker: Worker, reply: Run | tuple[Job, ...] | Answer, spot: frozenset[str]) -> Worker:
    """The next state after GitHub's reply to the question of this state. `spot` has the labels to judge, in lower case."""
    if isinstance(reply, Answer):
        return Worker(State.END, reply.value)
    if isinstance(reply, Run):
        if against := barred(reply):
            return Worker(State.END, against)
        # Reading the jobs takes many requests. So the run is read again right before the call.
        return replace(worker, state=State.JOBS if worker.state is State.RUN else State.CALL)
    killed, why = judged(reply, spot)
    return Worker(State.AGAIN if killed else State.END, why)


def barred(run: Run) -> str:
    """Why this run must not be rerun, whatever its jobs say; empty if nothing speaks against it."""
    if run.attempt != 1:
        return f"it was rerun already: attempt {run.attempt}"
    if not run.completed:
        return "it has not ended"
    if run.newer:
        return "a newer run exists, which a rerun could cancel"
    if run.event == "merge_group":
        return "the merge queue has removed it already"
    return ""


def judged(jobs: tuple[Job, ...], spot: frozenset[str]) -> tuple[bool, str]:
    """Whether the jobs are a reason for a rerun, and the reason either way."""
    causes = [(job, cause(job, spot)) for job in jobs if job.conclusion not in FINE]
    for job, found in causes:
        if found in (Cause.CANCELLED, Cause.REPLACED):
            return False, f"{job.name}: {found.value}"
    killed = [f"{job.name}: {found.value}" for job, found in causes if found in KILLED]
    return bool(killed), "; ".join(killed) or "no job was interrupted or without a runner"


def cause(job: Job, spot: frozenset[str]) -> Cause:
    """Why a job did not succeed. Jobs of other runner sets are never interrupted, whatever they say."""
    for found, pattern in CAUSES:
        if any(re.match(pattern, text) for text in job.annotations):
            judged_here = found not in KILLED or spot & {label.lower() for label in job.labels}
            return found if judged_here else Cause.FAILED
    return Cause.FAILED


# -- GitHub ------------------------------------------------------------------------------------------------------------

_PAGE, _MOST_PAGES = 100, 10
"""A filtered list has at most 1,000 runs (docs.github.com, list workflow runs)."""
_TRIES, _SECONDS = 3, 30
_MOST_ANSWER = 20_000_000
_LONGEST_RUN = timedelta(days=6)
"""A job queues for at most a day and runs for at most five (docs.github.com, usage limits of self-hosted runners)."""


class RefusedError(Exception):
    """GitHub refused a request, or an input is wrong. The message never contains the token."""


class Api:
    """GitHub's REST API for one repository."""

    def __init__(self, url: str, repository: str, token: str, pause: float = 2.0) -> None:
        self._url = f"{url.rstrip('/')}/repos/{repository}"
        self._token = token
        self._pause = pause

    def get(self, path: str) -> Any:
        """The JSON at a path. Reading has no effect, so errors of the server and of the network are tried again."""
        for again in range(_TRIES):
            try:
                return json.loads(self._send("GET", path))
            except urllib.error.HTTPError as error:
                if error.code < 500 or again == _TRIES - 1:
                    raise RefusedError(f"GET {path}: {error.code} {error.reason}") from None
            except (OSError, ValueError, http.client.HTTPException) as error:
                if again == _TRIES - 1:
                    raise RefusedError(f"GET {path}: {type(error).__name__}") from None
            time.sleep(self._pause * 2**again)
        raise AssertionError

    def pages(self, path: str, key: str = "") -> Iterator[Any]:
        """The entries of all pages of a list; `key` names the list in each page, empty if the page is the list."""
        joint = "&" if "?" in path else "?"
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get(f"{path}{joint}per_page={_PAGE}&page={page}")
            found = answer[key] if key else answer
            yield from found
            if len(found) < _PAGE:
                return

    def rerun(self, run: int) -> Answer:
        """Ask once for a rerun of the failed jobs. A lost answer is never followed by a second call: it may have worked."""
        path = f"/actions/runs/{run}/rerun-failed-jobs"
        try:
            self._send("POST", path)
        except urllib.error.HTTPError as error:
            said = error.read(10_000).decode(errors="replace")
            if error.code == 403 and "already running" in said:
                return Answer.RUNNING
            if error.code >= 500:
                return Answer.UNCLEAR
            raise RefusedError(f"POST {path}: {error.code} {error.reason}; the job needs actions: write") from None
        except (OSError, http.client.HTTPException):
            return Answer.UNCLEAR
        return Answer.ACCEPTED

    def _send(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(self._url + path, method=method)  # noqa: S310 - the runner's own API
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
            content: bytes = answer.read(_MOST_ANSWER)
        return content


def run_of(api: Api, identity: int) -> Run:
    """A run, and whether a newer one exists."""
    found = api.get(f"/actions/runs/{identity}")
    asked = {"event": found["event"], "branch": found["head_branch"] or "", "created": f">={found['created_at']}"}
    query = urllib.parse.urlencode({name: value for name, value in asked.items() if value})
    others = api.pages(f"/actions/workflows/{int(found['workflow_id'])}/runs?{query}", "workflow_runs")
    newer = any(other["run_number"] > found["run_number"] and _home(other) == _home(found) for other in others)
    return Run(found["run_attempt"], found["status"] == "completed", newer, found["event"])


def jobs_of(api: Api, identity: int, spot: frozenset[str]) -> tuple[Job, ...]:
    """The jobs of the first attempt, with annotations if a job of a judged runner set did not succeed."""
    listed = list(api.pages(f"/actions/runs/{identity}/attempts/1/jobs", "jobs"))
    bad = {job["id"] for job in listed if job["conclusion"] not in FINE}
    touched = any(job["id"] in bad and spot & {label.lower() for label in job["labels"]} for job in listed)

    def annotations(job: Mapping[str, Any]) -> tuple[str, ...]:
        # A job is a check run, and has its number.
        found = api.pages(f"/check-runs/{int(job['id'])}/annotations") if touched and job["id"] in bad else ()
        return tuple(str(each["message"]) for each in found)

    return tuple(Job(job["name"], job["conclusion"] or "", tuple(job["labels"]), annotations(job)) for job in listed)


def judge(api: Api, identity: int, spot: frozenset[str], dry: bool = False) -> Worker:
    """Drive the machine for one run to its end."""
    worker = Worker()
    while worker.state is not State.END:
        if worker.state is State.CALL:
            if dry:
                return Worker(State.END, f"would rerun the failed jobs: {worker.reason}")
            answer = api.rerun(identity)
            worker = replace(step(worker, answer, spot), reason=f"{answer.value}: {worker.reason}")
        else:
            worker = step(worker, jobs_of(api, identity, spot) if worker.state is State.JOBS else run_of(api, identity), spot)
    return worker


def ended(api: Api, workflows: list[str], since: datetime) -> set[int]:
    """First attempts of these workflows that ended since then without success."""
    created = urllib.parse.quote(f">={since - _LONGEST_RUN:%Y-%m-%dT%H:%M:%SZ}")
    return {
        int(run["id"])
        for workflow in workflows
        for status in ENDED
        for run in api.pages(f"/actions/workflows/{workflow}/runs?status={status}&created={created}", "workflow_runs")
        if run["run_attempt"] == 1 and datetime.fromisoformat(run["updated_at"].replace("Z", "+00:00")) >= since
    }


def _home(run: Mapping[str, Any]) -> str:
    """The repository of a run's branch: forks have branches of the same name."""
    return str((run["head_repository"] or {}).get("full_name", ""))


# -- the program -------------------------------------------------------------------------------------------------------


def main() -> int:
    """Judge the run of the event and every run that ended lately; print a line for each."""
    api = Api(os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    failed = False
    try:
        workflows, spot, hours = inputs(os.environ)
        runs = ended(api, workflows, datetime.now(timezone.utc) - timedelta(hours=hours))  # noqa: UP017 - Python 3.10
        # GitHub's list may be some seconds old, so the run of the event is judged even if the list does not have it.
        runs |= {int(event["workflow_run"]["id"])} if "workflow_run" in event else set()
    except RefusedError as error:
        sys.stdout.write(f"::error::{_line(error)}\n")
        return 1
    for identity in sorted(runs):
        try:
            sys.stdout.write(
                f"run {identity}: {_line(judge(api, identity, spot, os.environ['RERUN_DRY_RUN'] == 'true').reason)}\n"
            )
        except RefusedError as error:
            # The other runs are judged all the same.
            sys.stdout.write(f"::error::run {identity}: {_line(error)}\n")
            failed = True
    return int(failed)


def inputs(given: Mapping[str, str]) -> tuple[list[str], frozenset[str], float]:
    """The files of workflows, the labels in lower case, and the hours to look back."""
    workflows, labels = given["RERUN_WORKFLOWS"].split(), given["RERUN_LABELS"].lower().split()
    if not workflows or not all(re.fullmatch(r"[\w.-]+\.ya?ml", name) for name in workflows):
        raise RefusedError(f'workflows must name files such as "train.yml", separated by spaces; got {workflows}')
    if not labels:
        raise RefusedError('labels must name at least one runner set, such as "gpu-t4"; got none')
    try:
        hours = float(given["RERUN_HOURS"])
    except ValueError:
        hours = 0
    if not 0 < hours <= 24 * 29:
        raise RefusedError(f"hours must be a number above 0, at most 696 (GitHub reruns for 30 days); got {given['RERUN_HOURS']}")
    return workflows, frozenset(labels), hours


def _line(reason: object) -> str:
    """A message as one line of a log that the runner does not read as a workflow command.

    The runner reads "##[command]" anywhere in a line (actions/runner, ActionCommand.cs, TryParse), and a fork names its own jobs.
    """
    text = "".join(sign if sign.isprintable() else " " for sign in str(reason))
    return text.replace("%", "%25").replace("##[", "# #[")[:500]


if __name__ == "__main__":
    sys.exit(main())
