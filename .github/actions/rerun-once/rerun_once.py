"""Reruns the failed jobs of a workflow run if an interruption or a lack of capacity ended one. Standard library only.

It reruns a run once, or at most twice if the input `reruns` says so, and never an attempt that a person started.

An event is only a reason to look: each call reads from GitHub what is true now about every run that ended lately. The record of a
rerun is the run's own attempt number, so there is nothing to write before or after the call that a crash could lose.

A runner set at zero may never hear of a rerun (pytorch/ci-infra#900). So the program then looks whether a runner took the jobs.
If none did within minutes, it starts the workflow wake.yml, a new job with the same labels: the set hears of that one, and its
runner takes the job that waits longest. The runs of wake.yml are the record of the wakes.

`step` is the whole decision, a pure state machine for one run:

    RUN -> JOBS -> AGAIN -> CALL -> LOOK -> END        and from each state to END, with the reason
     +----- our rerun runs --------->^ v
                                    WAKE

`python -m tests.rerun` checks that machine in every order of events (docs/rerun.md).

Reads the runner's GITHUB_API_URL, GITHUB_EVENT_PATH, GITHUB_REF_NAME and GITHUB_REPOSITORY; GITHUB_TOKEN; and RERUN_WORKFLOWS,
RERUN_LABELS, RERUN_RERUNS, RERUN_HOURS, RERUN_WAKE_LABELS, RERUN_WAKE_MINUTES and RERUN_DRY_RUN of the action. Exit status: 0, or
1 if GitHub refused something, an input is wrong, or no wake helped.
Facts: docs.github.com, REST API (workflow runs, workflow jobs, workflows, check runs), and the texts of annotations at `CAUSES`.
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
from dataclasses import dataclass, field, replace
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
    by_us: bool = False
    """Whether a workflow's own token started this attempt: a person's rerun has the person's name."""


@dataclass(frozen=True)
class Job:
    """A job of the attempt that is judged."""

    name: str
    conclusion: str
    labels: tuple[str, ...]
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Queue:
    """What waits for a runner in our rerun, as GitHub shows it now."""

    waits: bool = False
    labels: tuple[str, ...] = ()
    """Labels of the job that waits, the one that a wake helps first; empty while GitHub lists no job yet."""
    late: bool = False
    """Whether it waits for `wake-minutes` or longer: since GitHub queued it, and since the last wake of these labels."""
    wakes: int = 0
    """Wakes of these labels since GitHub queued it."""


MOST_WAKES = 2
"""A set that hears of none of them is full or broken: a person must look."""


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
    LOOK = "look whether a runner took it"
    WAKE = "wake the runner set"
    END = "nothing"


@dataclass(frozen=True)
class Worker:
    """The machine for one run."""

    state: State = State.RUN
    reason: str = ""
    labels: tuple[str, ...] = ()
    """The labels to wake, in state WAKE."""
    failed: bool = False
    """Whether a person must look."""
    attempt: int = 1
    """The attempt that it judges, and after the call the one whose jobs it checks."""


def step(worker: Worker, reply: Run | tuple[Job, ...] | Answer | Queue, spot: frozenset[str], most: int = 1) -> Worker:
    """The next state after GitHub's reply to the question of this state.

    `spot` has the labels to judge, in lower case. `most` is how many reruns a run gets from us.
    """
    if isinstance(reply, Answer):
        return answered(worker, reply)
    if isinstance(reply, Queue):
        return looked(worker, reply)
    if isinstance(reply, Run):
        return read(worker, reply, most)
    killed, why = judged(reply, spot)
    return replace(worker, state=State.AGAIN if killed else State.END, reason=why)


def read(worker: Worker, run: Run, most: int) -> Worker:
    """The next state after GitHub showed the run."""
    if worker.state is State.RUN and looked_after(run, most):
        return Worker(State.LOOK, barred(run, most), attempt=run.attempt)
    if against := barred(run, most):
        return replace(worker, state=State.END, reason=against)
    if worker.state is State.RUN:
        return replace(worker, state=State.JOBS, attempt=run.attempt)
    # Reading the jobs takes many requests. So the run is read again right before the call, and must be as it was judged.
    if run.attempt != worker.attempt:
        return replace(worker, state=State.END, reason=f"attempt {run.attempt} was not judged")
    return replace(worker, state=State.CALL)


def looked_after(run: Run, most: int) -> bool:
    """Whether it is one of our reruns, which may wait for a runner."""
    return 1 < run.attempt <= 1 + most and run.by_us and not run.completed


def answered(worker: Worker, answer: Answer) -> Worker:
    """The next state after a call."""
    if worker.state is State.WAKE:
        return replace(worker, state=State.LOOK)
    if answer is not Answer.ACCEPTED:
        return replace(worker, state=State.END, reason=answer.value)
    return replace(worker, state=State.LOOK, reason=answer.value, attempt=worker.attempt + 1)


def looked(worker: Worker, queue: Queue) -> Worker:
    """The next state after GitHub showed what waits in our rerun."""
    if not queue.waits:
        return replace(worker, state=State.END, reason="no job of its rerun waits for a runner")
    if not queue.late:
        return replace(worker, state=State.LOOK)
    late = f"no runner took its job for {', '.join(queue.labels)}"
    if queue.wakes >= MOST_WAKES:
        no_help = f"{late}, and {MOST_WAKES} wakes did not help: the runner set is full or broken"
        return replace(worker, state=State.END, reason=no_help, failed=True)
    return replace(worker, state=State.WAKE, reason=f"{late}: wake {queue.wakes + 1} of {MOST_WAKES}", labels=queue.labels)


def closed(attempt: int, by_us: bool, most: int) -> bool:
    """Whether we start no attempt after this one: it is a person's rerun, or our last one."""
    return attempt > most or (attempt > 1 and not by_us)


def barred(run: Run, most: int = 1) -> str:
    """Why this run must not be rerun, whatever its jobs say; empty if nothing speaks against it."""
    if closed(run.attempt, run.by_us, most):
        return f"it was rerun already: attempt {run.attempt}"
    if not run.completed:
        return "it has not ended"
    if run.newer:
        return "a newer run exists, which a rerun could cancel"
    return "the merge queue has removed it already" if run.event == "merge_group" else ""


def judged(jobs: tuple[Job, ...], spot: frozenset[str]) -> tuple[bool, str]:
    """Whether the jobs are a reason for a rerun, and the reason either way."""
    causes = [(job, cause(job, spot)) for job in jobs if job.conclusion not in FINE]
    for job, why in causes:
        if why in (Cause.CANCELLED, Cause.REPLACED):
            return False, f"{job.name}: {why.value}"
    killed = [f"{job.name}: {why.value}" for job, why in causes if why in KILLED]
    return bool(killed), "; ".join(killed) or "no job was interrupted or without a runner"


def cause(job: Job, spot: frozenset[str]) -> Cause:
    """Why a job did not succeed. Jobs of other runner sets are never interrupted, whatever they say."""
    for candidate, pattern in CAUSES:
        if any(re.match(pattern, text) for text in job.annotations):
            judged_here = candidate not in KILLED or spot & {label.lower() for label in job.labels}
            return candidate if judged_here else Cause.FAILED
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
            entries = answer[key] if key else answer
            yield from entries
            if len(entries) < _PAGE:
                return

    def rerun(self, run: int) -> Answer:
        """Ask once for a rerun of the failed jobs. A lost answer is never followed by a second call: it may have worked."""
        return self._post(f"/actions/runs/{run}/rerun-failed-jobs", (403, "already running"))

    def dispatch(self, workflow: str, ref: str, **inputs: str) -> Answer:
        """Ask once for a run of a workflow that `workflow_dispatch` starts."""
        return self._post(f"/actions/workflows/{workflow}/dispatches", body={"ref": ref, "inputs": inputs})

    def cancel(self, run: int) -> Answer:
        """Ask once for the end of a run."""
        return self._post(f"/actions/runs/{run}/cancel", (409, ""))

    def _post(self, path: str, running: tuple[int, str] = (0, ""), body: Mapping[str, Any] | None = None) -> Answer:
        """Ask once. `running` is the status and a part of the text by which GitHub says that this has happened already."""
        try:
            self._send("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code == running[0] and running[1] in error.read(10_000).decode(errors="replace"):
                return Answer.RUNNING
            if error.code >= 500:
                return Answer.UNCLEAR
            right = "; the job needs actions: write" if error.code == 403 else ""
            raise RefusedError(f"POST {path}: {error.code} {error.reason}{right}") from None
        except (OSError, http.client.HTTPException):
            return Answer.UNCLEAR
        return Answer.ACCEPTED

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, content, method=method)  # noqa: S310 - the runner's own API
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("Content-Type", "application/json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
            answer_text: bytes = answer.read(_MOST_ANSWER)
        return answer_text


def run_of(api: Api, identity: int, most: int) -> Run:
    """A run, and if nothing else speaks against a rerun, whether a newer run exists."""
    run = api.get(f"/actions/runs/{identity}")
    read = Run(run["run_attempt"], run["status"] == "completed", False, run["event"], _by_us(run))
    if barred(read, most):
        return read
    filters = {"event": run["event"], "branch": run["head_branch"] or "", "created": f">={run['created_at']}"}
    query = urllib.parse.urlencode({name: value for name, value in filters.items() if value})
    runs = api.pages(f"/actions/workflows/{int(run['workflow_id'])}/runs?{query}", "workflow_runs")
    newer = any(other["run_number"] > run["run_number"] and _home(other) == _home(run) for other in runs)
    return replace(read, newer=newer)


def jobs_of(api: Api, identity: int, attempt: int, spot: frozenset[str]) -> tuple[Job, ...]:
    """The jobs of an attempt, with annotations if a job of a judged runner set did not succeed."""
    listed = list(api.pages(f"/actions/runs/{identity}/attempts/{attempt}/jobs", "jobs"))
    bad = {job["id"] for job in listed if job["conclusion"] not in FINE}
    touched = any(job["id"] in bad and spot & {label.lower() for label in job["labels"]} for job in listed)

    def annotations(job: Mapping[str, Any]) -> tuple[str, ...]:
        # A job is a check run, and has its number.
        notes = api.pages(f"/check-runs/{int(job['id'])}/annotations") if touched and job["id"] in bad else ()
        return tuple(str(note["message"]) for note in notes)

    return tuple(Job(job["name"], job["conclusion"] or "", tuple(job["labels"]), annotations(job)) for job in listed)


@dataclass
class Wakes:
    """The runs of wake.yml that we started, and what waits for a runner."""

    api: Api
    labels: frozenset[str]
    """Labels that a job to wake may have, in lower case: it has no other. Without labels the program ends after the call."""
    patience: timedelta
    """How long a job waits for a runner before a wake, and after one."""
    ref: str
    """The branch whose wake.yml runs: the default branch, on which `workflow_run` and `schedule` run."""
    runs: list[tuple[int, str, datetime, bool]] = field(default_factory=list)
    """(number, title, creation, whether it waits for a runner) of each wake of the last two days."""
    waiting: dict[int, set[str]] = field(default_factory=dict)
    """Titles of the wakes that the jobs of each rerun need, by run."""

    def refresh(self) -> None:
        """Read the wakes from GitHub. A job waits at most two days (docs.github.com, usage limits of self-hosted runners)."""
        if not self.labels:
            return
        query = f"event=workflow_dispatch&created={urllib.parse.quote(f'>={_now() - timedelta(days=2):{_TIME}}')}"
        ours = filter(_by_us, self.api.pages(f"/actions/workflows/{WAKE_FILE}/runs?{query}", "workflow_runs"))
        self.runs = [(int(run["id"]), run["display_title"], _time(run["created_at"]), run["status"] == "queued") for run in ours]

    def queue(self, identity: int, attempt: int) -> Queue:
        """What waits for a runner in this attempt of a run."""
        jobs = list(self.api.pages(f"/actions/runs/{identity}/attempts/{attempt}/jobs", "jobs"))
        self.waiting[identity] = set()
        queues = []
        for job in jobs:
            labels = tuple(sorted(job["labels"]))
            ours = labels and {label.lower() for label in labels} <= self.labels
            # GitHub documents null for a job without a runner, and clients also expect 0.
            if ours and job["status"] == "queued" and not job["runner_id"]:
                self.waiting[identity].add(title(labels))
                queued = _time(job["created_at"])
                wakes = [moment for _, name, moment, _ in self.runs if name == title(labels) and moment >= queued]
                queues.append(Queue(True, labels, _now() - max(wakes, default=queued) >= self.patience, len(wakes)))
        # First what a wake helps, last what no wake helped.
        return min(queues, key=lambda queue: (queue.late and queue.wakes >= MOST_WAKES, not queue.late), default=Queue(not jobs))

    def wake(self, labels: tuple[str, ...]) -> Answer:
        """Start a job with these labels. Reruns that wait for one set share a wake."""
        self.runs.append((0, title(labels), _now(), False))
        return self.api.dispatch(WAKE_FILE, self.ref, **{"runs-on": json.dumps(labels)})

    def cancel(self) -> Iterator[str]:
        """Cancel wakes that no rerun waits for any longer, so that none starts a runner of its own; a line for each."""
        needed = set().union(*self.waiting.values())
        for number, name, _, queued in self.runs:
            if queued and name not in needed:
                self.api.cancel(number)
                yield f"run {number}: cancelled, because no rerun waits for it: {name}"


WAKE_FILE = "wake.yml"


def title(labels: tuple[str, ...]) -> str:
    """The title of a wake's run: wake.yml writes it from its input (`run-name`)."""
    return f"wake {json.dumps(labels)}"


def judge(api: Api, identity: int, options: Inputs, wakes: Wakes, worker: Worker = Worker()) -> Worker:
    """Drive the machine for one run to its end, or until it must wait before it looks whether a runner took the rerun."""
    while worker.state is not State.END:
        if options.dry and worker.state in (State.CALL, State.WAKE):
            does = "rerun the failed jobs" if worker.state is State.CALL else "wake the runner set"
            return Worker(State.END, f"would {does}: {worker.reason}")
        before = worker
        worker = step(worker, _reply(api, identity, options, wakes, worker), options.labels, options.reruns)
        if before.state is State.CALL:
            worker = replace(worker, reason=f"{worker.reason}: {before.reason}")
        if worker.state is State.LOOK and not wakes.labels:
            return replace(worker, state=State.END)
        # Right after a call GitHub may not list its jobs. So only a sweep asks at once.
        if worker.state is State.LOOK and before.state is not State.RUN:
            break
    return worker


def _reply(api: Api, identity: int, options: Inputs, wakes: Wakes, worker: Worker) -> Run | tuple[Job, ...] | Answer | Queue:
    """GitHub's reply to the question of the worker's state."""
    if worker.state is State.CALL:
        return api.rerun(identity)
    if worker.state is State.WAKE:
        return wakes.wake(worker.labels)
    if worker.state is State.LOOK:
        return wakes.queue(identity, worker.attempt)
    if worker.state is State.JOBS:
        return jobs_of(api, identity, worker.attempt, options.labels)
    return run_of(api, identity, options.reruns)


def ended(api: Api, options: Inputs) -> set[int]:
    """Runs of the workflows that ended lately without success, and whose attempt we may rerun."""
    since = _now() - options.back
    return {
        int(run["id"])
        for run in runs_of(api, options.workflows, ENDED, since)
        if not closed(run["run_attempt"], _by_us(run), options.reruns) and _time(run["updated_at"]) >= since
    }


def started(api: Api, options: Inputs) -> set[int]:
    """Runs of the workflows whose rerun is ours and has not ended. GitHub shows the whole run as `queued` or `in_progress`."""
    runs = runs_of(api, options.workflows, ("queued", "in_progress"), _now() - options.back)
    shown = ((int(run["id"]), Run(run["run_attempt"], False, False, by_us=_by_us(run))) for run in runs)
    return {identity for identity, run in shown if looked_after(run, options.reruns)}


def runs_of(api: Api, workflows: list[str], statuses: tuple[str, ...], since: datetime) -> Iterator[Mapping[str, Any]]:
    """The runs of these workflows with one of these statuses that may have run since then."""
    created = urllib.parse.quote(f">={since - _LONGEST_RUN:{_TIME}}")
    for workflow in workflows:
        for status in statuses:
            yield from api.pages(f"/actions/workflows/{workflow}/runs?status={status}&created={created}", "workflow_runs")


def _by_us(run: Mapping[str, Any]) -> bool:
    """Whether a workflow's own token started this attempt of a run."""
    return bool((run["triggering_actor"] or {}).get("login") == "github-actions[bot]")


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _time(text: str) -> datetime:
    """A time as GitHub writes it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _now() -> datetime:
    return datetime.now(timezone.utc)  # noqa: UP017 - Python 3.10


def _home(run: Mapping[str, Any]) -> str:
    """The repository of a run's branch: forks have branches of the same name."""
    return str((run["head_repository"] or {}).get("full_name", ""))


# -- the program -------------------------------------------------------------------------------------------------------


_ROUND = timedelta(minutes=2)
"""Between two checks of ten reruns. The workflows of a repository have 1,000 requests an hour (docs.github.com, usage limits)."""


@dataclass(frozen=True)
class Inputs:
    """What the workflow gives the action. Labels are in lower case."""

    workflows: list[str]
    labels: frozenset[str]
    reruns: int
    """How many reruns a run gets at most."""
    back: timedelta
    """How far back to look."""
    wake_labels: frozenset[str]
    patience: timedelta
    dry: bool


def main() -> int:
    """Judge the run of the event and every run that ended lately, and look after their reruns. Prints a line for each step."""
    api = Api(os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    # GitHub's list may be some seconds old, so the run of the event is judged even if the list does not have it.
    first = {int(event["workflow_run"]["id"])} if "workflow_run" in event else set()
    failed = False
    try:
        options = inputs(os.environ)
        wakes = Wakes(api, options.wake_labels, options.patience, os.environ["GITHUB_REF_NAME"])
        for wrong, line in follow(api, options, first, wakes):
            sys.stdout.write(f"{'::error::' if wrong else ''}{_line(line)}\n")
            sys.stdout.flush()
            failed |= wrong
    except RefusedError as error:
        sys.stdout.write(f"::error::{_line(error)}\n")
        failed = True
    return int(failed)


def follow(api: Api, options: Inputs, runs: set[int], wakes: Wakes) -> Iterator[tuple[bool, str]]:
    """(whether it is an error, line) for each step, until no rerun waits for a runner or the next sweep can go on.

    Runs that end meanwhile are judged, too: the workflow has one worker at a time.
    """
    end = _now() + (timedelta() if options.dry else 2 * options.patience + _ROUND)
    workers: dict[int, Worker] = {}
    if wakes.labels:
        runs = runs | started(api, options)
    while True:
        runs = runs | ended(api, options)
        try:
            wakes.refresh()
        except RefusedError as error:
            yield True, f"{error}; wake-labels needs .github/workflows/{WAKE_FILE} on the default branch"
            wakes.labels = frozenset()
        refused = False
        for identity in sorted(runs):
            worker = workers.get(identity, Worker())
            try:
                workers[identity] = judge(api, identity, options, wakes, worker)
            except RefusedError as error:
                # The other runs are judged all the same.
                workers[identity], refused = Worker(State.END), True
                yield True, f"run {identity}: {error}"
            else:
                if workers[identity].reason != worker.reason:
                    yield workers[identity].failed, f"run {identity}: {workers[identity].reason}"
        try:
            if not refused and not options.dry:
                yield from ((False, line) for line in wakes.cancel())
        except RefusedError as error:
            yield True, str(error)
        waiting = [identity for identity, worker in workers.items() if worker.state is State.LOOK]
        if not waiting or _now() >= end:
            break
        _sleep(_ROUND * (1 + len(waiting) // 10))
    for identity in waiting:
        yield False, f"run {identity}: its rerun still waits for a runner; the next sweep looks again"


def inputs(environment: Mapping[str, str]) -> Inputs:
    """The inputs of the action. Raises RefusedError if one is wrong."""
    workflows, labels = environment["RERUN_WORKFLOWS"].split(), environment["RERUN_LABELS"].lower().split()
    wake_labels = environment["RERUN_WAKE_LABELS"].lower().split()
    if not workflows or not all(re.fullmatch(r"[\w.-]+\.ya?ml", name) for name in workflows):
        raise RefusedError(f'workflows must name files such as "train.yml", separated by spaces; got {workflows}')
    if not labels:
        raise RefusedError('labels must name at least one runner set, such as "gpu-t4"; got none')
    if len(environment["RERUN_WAKE_LABELS"]) > _MOST_TITLE:
        raise RefusedError(f"wake-labels must have at most {_MOST_TITLE} characters; got {len(environment['RERUN_WAKE_LABELS'])}")
    if environment["RERUN_RERUNS"] not in ("1", "2"):
        raise RefusedError(f"reruns must be 1, or 2 for classes with rerunFirstOn; got {environment['RERUN_RERUNS']}")
    back = timedelta(hours=_number(environment["RERUN_HOURS"], 24 * 29, "hours", "GitHub reruns for 30 days"))
    minutes = _number(environment["RERUN_WAKE_MINUTES"], 60, "wake-minutes", "the hourly sweep looks again")
    reruns, dry = int(environment["RERUN_RERUNS"]), environment["RERUN_DRY_RUN"] == "true"
    return Inputs(workflows, frozenset(labels), reruns, back, frozenset(wake_labels), timedelta(minutes=minutes), dry)


_MOST_TITLE = 200
"""The title of a wake has its labels, and a title that GitHub cuts would not be counted."""


def _number(text: str, most: float, name: str, why: str) -> float:
    """The number of an input. Raises RefusedError if it is none, or outside its limits."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= most:
        raise RefusedError(f"{name} must be a number above 0, at most {most} ({why}); got {text}")
    return number


def _sleep(span: timedelta) -> None:
    time.sleep(span.total_seconds())


def _line(reason: object) -> str:
    """A message as one line of a log that the runner does not read as a workflow command.

    The runner reads "##[command]" anywhere in a line (actions/runner, ActionCommand.cs, TryParse), and a fork names its own jobs.
    """
    text = "".join(sign if sign.isprintable() else " " for sign in str(reason))
    return text.replace("%", "%25").replace("##[", "# #[")[:500]


if __name__ == "__main__":
    sys.exit(main())
