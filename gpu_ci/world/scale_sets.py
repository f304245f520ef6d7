"""GitHub's runner scale sets in memory: jobs, sets, sessions with their messages, runners, and what can go wrong with them.

The rules follow actions/scaleset v0.4.0 (README, client) and what people report of github.com, as each docstring names it.
"""

from __future__ import annotations

import heapq
import itertools
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_bytes
from threading import Condition, Event
from typing import Any, Literal

_BATCH = 50
"""Job messages in one answer at most (actions/scaleset, README)."""
_ASSIGNMENTS = 3
"""How often GitHub assigns a job. We let the last one stay: actions-runner-controller#4602 shows three, and a demand that stays."""
_SET = "GitHub.Actions.Runtime.WebApi.RunnerScaleSet{}Exception"
_AGENT = "GitHub.DistributedTask.WebApi.{}Exception"

Json = dict[str, Any]
Kind = Literal["JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"]


class RefusedError(Exception):
    """An answer of GitHub that is an error. `kind` is the exception's name, by which the client knows some of them."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{status} {kind}: {message}")
        self.status, self.body = status, {"typeName": kind, "message": message}


class OutdatedError(Exception):
    """GitHub refuses a runner because its version is too old."""


class GoneError(Exception):
    """GitHub has no such runner (any more)."""


@dataclass
class Session:
    """The one listener of a set that GitHub talks to. `seen` is when it last asked."""

    owner: str
    seen: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(eq=False)
class ScaleSet:
    """A registered set. `capacity` is the number of runners that its listener reported last."""

    id: int
    name: str
    group: int
    labels: list[str]
    capacity: int = 0
    session: Session | None = None
    last: int = 0
    pending: list[tuple[float, Json]] = field(default_factory=list)
    """Messages that no answer has had yet, with the time from which they may go."""
    unacknowledged: dict[int, list[Json]] = field(default_factory=dict)


@dataclass(eq=False)
class Runner:
    """A runner that has a JIT configuration. It is `online` once its process has registered."""

    id: int
    name: str
    scale_set: ScaleSet
    jit: str = field(default_factory=lambda: b64encode(token_bytes(32)).decode(), repr=False)
    online: bool = False
    job: Job | None = None


@dataclass(eq=False)
class Job:
    """A job of a workflow. Times are seconds since 1970, 0 while they are not reached."""

    id: int
    runs_on: tuple[str, ...]
    repository: str
    seconds: float
    name: str
    queued: float
    attempt: int = 1
    state: Literal["queued", "assigned", "running", "completed"] = "queued"
    result: str = ""
    runner: Runner | None = None
    scale_set: ScaleSet | None = None
    assignments: int = 0
    assigned: float = 0
    started: float = 0
    ended: float = 0
    unheard: bool = False
    offered: set[int] = field(default_factory=set)

    def described(self) -> Json:
        """The fields that each message about the job has (actions/scaleset, types.go)."""
        owner, repository = self.repository.split("/")
        times = {
            "queueTime": self.queued,
            "scaleSetAssignTime": self.assigned,
            "runnerAssignTime": self.started,
            "finishTime": self.ended,
        }
        return {
            "runnerRequestId": self.id,
            "jobId": str(uuid.uuid5(uuid.NAMESPACE_URL, str(self.id))),
            "workflowRunId": self.id,
            "ownerName": owner,
            "repositoryName": repository,
            "jobWorkflowRef": f"{self.repository}/.github/workflows/ci.yml@refs/heads/main",
            "jobDisplayName": self.name,
            "eventName": "push",
            "requestLabels": list(self.runs_on),
        } | {key: datetime.fromtimestamp(at, UTC).isoformat() for key, at in times.items() if at}


@dataclass
class MessageFault:
    """What happens to the next `times` messages of a kind. Late and repeated ones come `seconds` later."""

    kind: Kind
    what: Literal["lose", "repeat", "delay"]
    times: int = 1
    seconds: float = 2


class Service:
    """Jobs and scale sets of one GitHub organization. Every method may be called from any thread.

    `custom_labels`: a set takes jobs by its labels too, and not by its name alone. People disagree about what github.com does
    (actions-runner-controller#4425, #4579). `acquire`: a listener has to acquire jobs that it hears of, as on GitHub Enterprise
    Server (actions/scaleset#75). Else GitHub assigns them, as far as the listener's capacity goes.

    `session_expires`: seconds without a request after which the session of a listener ends. No source gives it: an assumption.
    `assignment_lapses`: seconds after which GitHub takes a job back that no runner began (actions-runner-controller#4602).
    `lost_after`: seconds after which the job of a runner that vanished fails (actions/runner#3539: its lease is ten minutes).
    `loses_reruns`: a set without any job does not hear of a rerun (pytorch/ci-infra#900).
    `outdated`: how many of the next runners GitHub refuses for their age; `math.inf` refuses all.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.custom_labels, self.acquire, self.loses_reruns = True, False, False
        self.session_expires, self.assignment_lapses, self.lost_after = 90.0, 300.0, 600.0
        self.outdated: float = 0
        self.message_faults: list[MessageFault] = []
        self.groups = ["Default"]
        self.jobs: list[Job] = []
        self.sets: dict[int, ScaleSet] = {}
        self.runners: dict[int, Runner] = {}
        self.wakes: list[Event] = []
        """Set after each change, for those who wait for one."""
        self.clock = clock
        self.state = Condition()
        self._open: dict[int, Job] = {}
        self._ids = itertools.count(1001)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    # -- jobs -----------------------------------------------------------------------------------------------------------

    def queue(self, runs_on: Sequence[str], repository: str = "example/repo", seconds: float = 1.0, name: str = "") -> Job:
        """A new job that waits for a runner of `runs_on` and takes `seconds` there."""
        with self.state:
            job_id = next(self._ids)
            return self._wait(Job(job_id, tuple(runs_on), repository, seconds, name or f"job-{job_id}", self.clock()))

    def rerun(self, job: Job) -> Job:
        """The next attempt of a job that has ended."""
        with self.state:
            new = Job(next(self._ids), job.runs_on, job.repository, job.seconds, job.name, self.clock(), job.attempt + 1)
            busy = [other.scale_set for other in self._open.values() if other.scale_set]
            new.unheard = self.loses_reruns and not any(self._takes(of, new) for of in busy)
            return self._wait(new)

    def register(self, jit: str) -> Runner:
        """The runner of this JIT configuration comes online. Raises GoneError or OutdatedError."""
        with self.state:
            runner = next((one for one in self.runners.values() if one.jit == jit), None)
            if runner is None:
                raise GoneError("the registration was deleted")
            if self.outdated > 0:
                self.outdated -= 1
                raise OutdatedError(runner.name)
            runner.online = True
            self._changed()
            return runner

    def next_job(self, runner: Runner) -> Job | None:
        """The job that the runner starts now: the oldest that its set may take, also one that the set did not hear of.

        Raises GoneError.
        """
        with self.state:
            if runner.id not in self.runners:
                raise GoneError(runner.name)
            own = runner.scale_set
            waiting = (job for job in self._open.values() if job.state != "running")
            job = next((one for one in waiting if one.scale_set is own or (not one.scale_set and self._takes(own, one))), None)
            if job is None or runner.job is not None:
                return None
            job.state, job.runner, job.scale_set, job.started = "running", runner, own, self.clock()
            runner.job = job
            self._tell(own, "JobStarted", job, runnerId=runner.id, runnerName=runner.name)
            self._changed()
            return job

    def finish(self, job: Job, result: str = "succeeded") -> None:
        """The end of a job that runs. Its runner is gone with it. A job that has ended already stays as it is."""
        with self.state:
            if job.state != "running" or job.runner is None or job.scale_set is None:
                return
            job.state, job.result, job.ended = "completed", result, self.clock()
            del self._open[job.id]
            self.runners.pop(job.runner.id, None)
            self._tell(job.scale_set, "JobCompleted", job, result=result, runnerId=job.runner.id, runnerName=job.runner.name)
            self._changed()

    def lost(self, runner: Runner) -> None:
        """The runner vanished. GitHub notices when the lease of its job ends."""
        with self.state:
            runner.online = False
            job = runner.job

            def ends() -> None:
                if job is not None:
                    self.finish(job, "failed")
                elif not runner.online:
                    self.runners.pop(runner.id, None)

            self._later(self.lost_after, ends)

    def tick(self) -> None:
        """Do what is due: sessions, leases and assignments that end."""
        with self.state:
            now = self.clock()
            for of in self.sets.values():
                if of.session is not None and now > of.session.seen + self.session_expires:
                    of.session = None
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            self._assign()

    # -- what listeners and controllers ask -----------------------------------------------------------------------------------

    def group(self, name: str) -> int:
        """The number of a runner group. Every group that is asked for exists."""
        names = [group.lower() for group in self.groups]
        if name.lower() not in names:
            self.groups.append(name)
        return names.index(name.lower()) + 1 if name.lower() in names else len(self.groups)

    def create_set(self, name: str, group: int, labels: Sequence[str]) -> ScaleSet:
        """Register a set. Raises RefusedError if the group has one of this name."""
        with self.state:
            if any((of.name, of.group) == (name, group) for of in self.sets.values()):
                raise RefusedError(409, _SET.format("Exists"), f"The runner scale set {name} already exists.")
            of = ScaleSet(next(self._ids), name, group, list(labels))
            self.sets[of.id] = of
            return of

    def scale_set(self, number: int) -> ScaleSet:
        """A registered set. Raises RefusedError (404, as in actions-runner-controller#4370)."""
        if number not in self.sets:
            raise RefusedError(404, _SET.format("NotFound"), f"No runner scale set found with identifier {number}.")
        return self.sets[number]

    def delete_set(self, of: ScaleSet) -> None:
        """Remove a set. Its jobs that no runner has begun wait for another one."""
        with self.state:
            del self.sets[of.id]
            for job in self._open.values():
                if job.scale_set is of and job.state == "assigned":
                    job.state, job.scale_set = "queued", None
            self._changed()

    def generate_jit(self, of: ScaleSet, name: str) -> Runner:
        """A new runner of the set. Raises RefusedError if there is one of this name."""
        with self.state:
            if any(runner.name == name for runner in self.runners.values()):
                raise RefusedError(409, _AGENT.format("AgentExists"), f"A runner exists with the same name {name}.")
            runner = Runner(next(self._ids), name, of)
            self.runners[runner.id] = runner
            return runner

    def runner(self, number: int) -> Runner:
        """A runner that GitHub has. Raises RefusedError."""
        if number not in self.runners:
            raise RefusedError(404, _AGENT.format("AgentNotFound"), "The agent does not exist.")
        return self.runners[number]

    def remove_runner(self, number: int) -> None:
        """Remove a runner. One that is gone is no error: ARC's finalizers rely on it. Raises RefusedError while its job runs."""
        with self.state:
            if number in self.runners and self.runners[number].job is not None:
                raise RefusedError(400, _AGENT.format("JobStillRunning"), "The agent is still running a job.")
            self.runners.pop(number, None)
            self._changed()

    def open_session(self, of: ScaleSet, owner: str) -> Session:
        """A new session. Raises RefusedError while another one lasts (actions-runner-controller#4285)."""
        with self.state:
            self.tick()
            if of.session is not None:
                text = f"The actions runner scaleset {of.name} already has an active session."
                raise RefusedError(409, _SET.format("SessionConflict"), text)
            of.session = Session(owner, self.clock())
            return of.session

    def session(self, of: ScaleSet, number: str, status: int) -> Session:
        """The set's session. Raises RefusedError with this status if that has another number: 401 asks the client to refresh it, and a
        refresh gets 404 (actions/scaleset#123)."""
        if of.session is None or of.session.id != number:
            raise RefusedError(status, _SET.format("SessionExpired"), f"The session identifier {number} is not valid.")
        return of.session

    def close_session(self, of: ScaleSet, number: str) -> None:
        """End a session. Raises RefusedError (400, as in actions-runner-controller#4285)."""
        with self.state:
            self.session(of, number, 400)
            of.session = None

    def heard(self, of: ScaleSet, number: str, capacity: int) -> None:
        """The listener of a session asks for a message, and has so many runners at most. Raises RefusedError."""
        with self.state:
            self.session(of, number, 401).seen = self.clock()
            of.capacity = capacity
            self._changed()

    def next_message(self, of: ScaleSet, last: int) -> tuple[int, list[Json]] | None:
        """The first message after `last` that nobody acknowledged, or a new one, with its number."""
        with self.state:
            again = min((number for number in of.unacknowledged if number > last), default=None)
            if again is not None:
                return again, of.unacknowledged[again]
            now = self.clock()
            ready = [entry for entry in of.pending if entry[0] <= now][:_BATCH]
            if not ready:
                return None
            taken = set(map(id, ready))
            of.pending = [entry for entry in of.pending if id(entry) not in taken]
            of.last += 1
            of.unacknowledged[of.last] = [message for _, message in ready]
            return of.last, of.unacknowledged[of.last]

    def acquire_jobs(self, of: ScaleSet, job_ids: Sequence[int]) -> list[int]:
        """Those of the jobs that now are the set's."""
        with self.state:
            for job in [self._open[job_id] for job_id in job_ids if job_id in self._open]:
                if job.state == "queued" and self._takes(of, job):
                    self._give(job, of)
            self._changed()
            return [job_id for job_id in job_ids if job_id in self._open and self._open[job_id].scale_set is of]

    def statistics(self, of: ScaleSet) -> Json:
        """The counts of each answer. Assigned jobs include those that run, and GitHub counts none as acquired if it assigns them
        itself (actions-runner-controller#4004)."""
        with self.state:
            own = [job for job in self._open.values() if job.scale_set is of]
            runners = [runner for runner in self.runners.values() if runner.scale_set is of]
            busy = sum(runner.job is not None for runner in runners)
            return {
                "totalAvailableJobs": sum(1 for _ in self._waiting(of)),
                "totalAcquiredJobs": len(own) if self.acquire else 0,
                "totalAssignedJobs": len(own),
                "totalRunningJobs": sum(job.state == "running" for job in own),
                "totalRegisteredRunners": len(runners),
                "totalBusyRunners": busy,
                "totalIdleRunners": sum(runner.online for runner in runners) - busy,
            }

    # -- inside ---------------------------------------------------------------------------------------------------------

    def _wait(self, job: Job) -> Job:
        self.jobs.append(job)
        self._open[job.id] = job
        self._changed()
        return job

    def _takes(self, of: ScaleSet, job: Job) -> bool:
        asked = {label.lower() for label in job.runs_on}
        return asked == {of.name.lower()} or (self.custom_labels and asked <= {label.lower() for label in of.labels})

    def _waiting(self, of: ScaleSet) -> Iterator[Job]:
        jobs = self._open.values()
        return (job for job in jobs if job.state == "queued" and not job.unheard and self._takes(of, job))

    def _assign(self) -> None:
        for of in self.sets.values():
            if self.acquire:
                for job in [job for job in self._waiting(of) if of.id not in job.offered]:
                    job.offered.add(of.id)
                    self._tell(of, "JobAvailable", job)
            elif of.session is not None:
                room = of.capacity - sum(job.scale_set is of for job in self._open.values())
                for job in list(itertools.islice(self._waiting(of), max(0, room))):
                    self._give(job, of)

    def _give(self, job: Job, of: ScaleSet) -> None:
        job.state, job.scale_set, job.assigned = "assigned", of, self.clock()
        job.assignments += 1
        number = job.assignments
        self._tell(of, "JobAssigned", job)

        def lapses() -> None:
            if job.state == "assigned" and job.scale_set is of and job.assignments == number:
                self._tell(of, "JobCompleted", job, result="canceled", runnerId=0, runnerName="")
                job.state, job.scale_set = "queued", None

        if number < _ASSIGNMENTS:
            self._later(self.assignment_lapses, lapses)

    def _tell(self, of: ScaleSet, kind: Kind, job: Job, **more: object) -> None:
        now, fault = self.clock(), next((one for one in self.message_faults if one.kind == kind and one.times > 0), None)
        dues = [now]
        if fault is not None:
            fault.times -= 1
            dues = {"lose": [], "delay": [now + fault.seconds], "repeat": [now, now + fault.seconds]}[fault.what]
        of.pending += [(due, {"messageType": kind, **job.described(), **more}) for due in dues]

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.clock() + seconds, next(self._ids), action))

    def _changed(self) -> None:
        self._assign()
        self.state.notify_all()
        for wake in self.wakes:
            wake.set()
