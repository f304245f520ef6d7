"""GitHub's runner scale sets in memory: jobs, sets, sessions with their messages, runners, and what can go wrong with them.

The rules follow actions/scaleset v0.4.0 (README and client) and what people report of github.com, which the docstrings name.
"""

import heapq
import itertools
import math
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
"""How often GitHub assigns a job (same). We let the last one stay, because the demand stays in actions-runner-controller#4602."""
_OUTDATED, _GONE = 7, 0
"""How a runner's container ends that is too old, or not registered any more (actions/runner, run-helper.sh)."""
_SET = "GitHub.Actions.Runtime.WebApi.RunnerScaleSet{}Exception"
_AGENT = "GitHub.DistributedTask.WebApi.Agent{}Exception"
_JOB_RUNS = "GitHub.DistributedTask.WebApi.JobStillRunningException"
_WORKFLOW = ".github/workflows/ci.yml@refs/heads/main"
_TIMES = {"queueTime": "queued", "scaleSetAssignTime": "assigned", "runnerAssignTime": "started", "finishTime": "ended"}

Json = dict[str, Any]


class RefusedError(Exception):
    """An answer of GitHub that is an error. `kind` is the exception's name, by which the client distinguishes some of them."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{status} {kind}: {message}")
        self.status, self.body = status, {"typeName": kind, "message": message}


class EndedError(Exception):
    """GitHub ends a runner. `code` is the exit code of its container."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the runner ends with {code}")
        self.code = code


@dataclass
class Fault:
    """What goes wrong with the next `times` requests of a route or messages of a kind, no later than `until`.

    `where` is a route, such as `GET messages`, a kind of message, such as `JobAssigned`, or empty for all requests. `what` is the
    status that a request gets, or what happens to a message. `seconds` is how late a delayed or repeated message comes, and for a
    status the header Retry-After.
    """

    where: str
    what: int | Literal["lose", "repeat", "delay"]
    times: float = 1
    until: float = math.inf
    seconds: int = 0


@dataclass(eq=False)
class ScaleSet:
    """A registered set. `session` is the id of its listener's session, `seen` when that last asked, `capacity` its maximum."""

    id: int
    name: str
    group: int
    labels: list[str]
    owner: str = ""
    session: str = ""
    seen: float = 0
    capacity: int = 0
    last: int = 0
    pending: list[tuple[float, Json]] = field(default_factory=list)
    """Messages that no answer has had, with the time from which they may go."""
    unacknowledged: dict[int, list[Json]] = field(default_factory=dict)


@dataclass(eq=False)
class Runner:
    """A runner with a JIT configuration. It is `online` while its process runs."""

    id: int
    name: str
    scale_set: ScaleSet
    jit: str = field(default_factory=lambda: b64encode(token_bytes(32)).decode(), repr=False)
    online: bool = False
    job: "Job | None" = None


@dataclass(eq=False)
class Job:
    """A job of a workflow. Times are seconds since 1970, 0 while they are not reached. `unheard`: no message reports it."""

    id: int
    runs_on: tuple[str, ...]
    repository: str
    seconds: float
    name: str
    queued: float
    attempt: int = 1
    unheard: bool = False
    state: Literal["queued", "assigned", "running", "completed"] = "queued"
    result: str = ""
    runner: Runner | None = None
    scale_set: ScaleSet | None = None
    assignments: int = 0
    assigned: float = 0
    started: float = 0
    ended: float = 0

    def described(self) -> Json:
        """The fields that each message about the job has (actions/scaleset, types.go)."""
        owner, repository = self.repository.split("/")
        reached = {key: at for key, name in _TIMES.items() if (at := getattr(self, name))}
        job = {"runnerRequestId": self.id, "jobId": str(uuid.UUID(int=self.id)), "jobDisplayName": self.name}
        run = {"ownerName": owner, "repositoryName": repository, "workflowRunId": self.id, "eventName": "push"}
        source = {"jobWorkflowRef": f"{self.repository}/{_WORKFLOW}", "requestLabels": self.runs_on}
        return job | run | source | {key: datetime.fromtimestamp(at, UTC).isoformat() for key, at in reached.items()}


class Service:
    """Jobs and scale sets of one GitHub organization.

    `custom_labels`: a set takes jobs by its labels too, and not by its name alone. People disagree about what github.com does
    (actions-runner-controller#4425, #4579). GitHub assigns jobs, as far as the listener's capacity goes. On GitHub Enterprise
    Server a listener has to acquire them (actions/scaleset#75), which is not simulated.

    `session_expires`: seconds without a request after which the session of a listener ends. No source gives it: an assumption.
    `assignment_lapses`: seconds after which GitHub takes a job back that no runner began (actions-runner-controller#4602).
    `lost_after`: seconds after which the job of a runner that vanished fails (actions/runner#3539: its lease is ten minutes).
    `loses_reruns`: a set without any job does not hear of a rerun (pytorch/ci-infra#900).
    `outdated`: how many of the next runners GitHub refuses for their age; `math.inf` refuses all.

    The methods that only requests over HTTP need want `state` held.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.custom_labels, self.loses_reruns = True, False
        self.session_expires, self.assignment_lapses, self.lost_after, self.outdated = 90.0, 300.0, 600.0, 0.0
        self.faults: list[Fault] = []
        self.groups = ["default"]
        self.jobs: list[Job] = []
        self.sets: dict[int, ScaleSet] = {}
        self.runners: dict[int, Runner] = {}
        self.wakes: list[Event] = []
        """Set after each change, for those who wait for one."""
        self.clock, self.state = clock, Condition()
        self._open: dict[int, Job] = {}
        self._ids = itertools.count(1001)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    # -- people and runners -------------------------------------------------------------------------------------------------

    def queue(self, runs_on: Sequence[str], repository: str = "example/repo", seconds: float = 1.0, name: str = "") -> Job:
        """A new job that waits for a runner of `runs_on` and takes `seconds` there."""
        return self._wait(Job(number := next(self._ids), (*runs_on,), repository, seconds, name or f"job-{number}", self.clock()))

    def rerun(self, job: Job) -> Job:
        """The next attempt of a job that has ended."""
        with self.state:
            busy = [other.scale_set for other in self._open.values() if other.scale_set]
            unheard = self.loses_reruns and not any(_takes(of, job, self.custom_labels) for of in busy)
            now, number = self.clock(), next(self._ids)
            return self._wait(Job(number, job.runs_on, job.repository, job.seconds, job.name, now, job.attempt + 1, unheard))

    def register(self, jit: str) -> Runner:
        """The runner of this JIT configuration comes online. Raises EndedError."""
        with self.state:
            if (runner := next((one for one in self.runners.values() if one.jit == jit), None)) is None:
                raise EndedError(_GONE)
            if self.outdated > 0:
                self.outdated -= 1
                raise EndedError(_OUTDATED)
            runner.online = True
            self._changed()
            return runner

    def next_job(self, runner: Runner) -> Job | None:
        """The job that the runner starts now: the oldest that its set may take, also one that the set did not hear of.

        Raises EndedError.
        """
        with self.state:
            if runner.id not in self.runners:
                raise EndedError(_GONE)
            of = runner.scale_set
            jobs = (job for job in self._open.values() if job.state != "running" and job.scale_set in (of, None))
            job = next((job for job in jobs if _takes(of, job, self.custom_labels)), None)
            if job is None or runner.job is not None:
                return None
            job.state, job.runner, job.scale_set, job.started, runner.job = "running", runner, of, self.clock(), job
            self._tell(of, "JobStarted", job, runnerId=runner.id, runnerName=runner.name)
            self._changed()
            return job

    def finish(self, job: Job, result: str = "succeeded") -> None:
        """The end of a job that runs. Its runner is gone with it. A job that has ended already stays as it is."""
        with self.state:
            if job.state == "running" and job.runner and job.scale_set:
                job.state, job.result, job.ended = "completed", result, self.clock()
                del self._open[job.id], self.runners[job.runner.id]
                of, runner = job.scale_set, job.runner
                self._tell(of, "JobCompleted", job, result=result, runnerId=runner.id, runnerName=runner.name)
                self._changed()

    def lost(self, runner: Runner) -> None:
        """The runner vanished. GitHub notices when the lease of its job ends."""

        def ends(job: Job | None = runner.job) -> None:
            if job is not None:
                self.finish(job, "failed")
            elif not runner.online:
                self.runners.pop(runner.id, None)

        with self.state:
            runner.online = False
            self._later(self.lost_after, ends)

    def tick(self) -> None:
        """Do what is due: sessions, leases and assignments that end."""
        with self.state:
            for of in self.sets.values():
                of.session = of.session if self.clock() <= of.seen + self.session_expires else ""
            while self._timers and self._timers[0][0] <= self.clock():
                heapq.heappop(self._timers)[2]()
                self._changed()

    def fault(self, *places: str) -> Fault | None:
        """The fault that comes true now at one of the places. It counts as used."""
        with self.state:
            self.faults = [one for one in self.faults if one.times > 0 and self.clock() < one.until]
            if (fault := next((one for one in self.faults if one.where in places), None)) is not None:
                fault.times -= 1
            return fault

    def statistics(self, of: ScaleSet) -> Json:
        """The counts of each answer. Assigned jobs include those that run. GitHub counts none as acquired if it assigns them
        itself (actions-runner-controller#4004)."""
        with self.state:
            own = [job for job in self._open.values() if job.scale_set is of]
            runners = [runner for runner in self.runners.values() if runner.scale_set is of]
            running, idle = sum(job.state == "running" for job in own), sum(one.online and one.job is None for one in runners)
            available = sum(1 for _ in self._waiting(of))
            jobs = {"AvailableJobs": available, "AcquiredJobs": 0, "AssignedJobs": len(own), "RunningJobs": running}
            busy = {"RegisteredRunners": len(runners), "BusyRunners": len(runners) - sum(one.job is None for one in runners)}
            return {f"total{name}": count for name, count in {**jobs, **busy, "IdleRunners": idle}.items()}

    # -- listeners and controllers, with `state` held -------------------------------------------------------------------------

    def create_set(self, name: str, group: int, labels: list[str]) -> ScaleSet:
        """Register a set. Raises RefusedError if the group has one of this name."""
        if any((of.name, of.group) == (name, group) for of in self.sets.values()):
            raise RefusedError(409, _SET.format("Exists"), f"The runner scale set {name} already exists.")
        of = ScaleSet(next(self._ids), name, group, labels)
        return self.sets.setdefault(of.id, of)

    def scale_set(self, number: int) -> ScaleSet:
        """A registered set. Raises RefusedError (404, as in actions-runner-controller#4370)."""
        if number not in self.sets:
            raise RefusedError(404, _SET.format("NotFound"), f"No runner scale set found with identifier {number}.")
        return self.sets[number]

    def delete_set(self, of: ScaleSet) -> None:
        """Remove a set. Its jobs that no runner has begun wait for another one."""
        del self.sets[of.id]
        for job in self._open.values():
            if job.scale_set is of and job.state == "assigned":
                self._free(job)
        self._changed()

    def generate_jit(self, of: ScaleSet, name: str) -> Runner:
        """A new runner of the set. Raises RefusedError if there is one of this name."""
        if any(runner.name == name for runner in self.runners.values()):
            raise RefusedError(409, _AGENT.format("Exists"), f"A runner exists with the same name {name}.")
        runner = Runner(next(self._ids), name, of)
        return self.runners.setdefault(runner.id, runner)

    def remove_runner(self, number: int) -> None:
        """Remove a runner. One that is gone is not an error, because ARC's finalizers rely on that.

        Raises RefusedError while its job runs.
        """
        if number in self.runners and self.runners[number].job is not None:
            raise RefusedError(400, _JOB_RUNS, "The agent is still running a job.")
        self.runners.pop(number, None)
        self._changed()

    def open_session(self, of: ScaleSet, owner: str) -> None:
        """Begin a session. Raises RefusedError while another one lasts (actions-runner-controller#4285)."""
        self.tick()
        if of.session:
            raise RefusedError(409, _SET.format("SessionConflict"), f"The scaleset {of.name} already has an active session.")
        of.session, of.owner, of.seen = str(uuid.uuid4()), owner, self.clock()

    def heard(self, of: ScaleSet, session: str, status: int) -> None:
        """The listener of this session asks. Raises RefusedError with `status` if the session has ended.

        A poll gets 401, on which the client refreshes the session, which gets 404 (actions/scaleset#123); a deletion gets 400
        (actions-runner-controller#4285).
        """
        if of.session != session:
            raise RefusedError(status, _SET.format("SessionExpired"), f"The session identifier {session} is not valid.")
        of.seen = self.clock()

    def offer(self, of: ScaleSet, capacity: int) -> None:
        """The listener has room for so many runners."""
        of.capacity = capacity
        self._changed()

    def next_message(self, of: ScaleSet, last: int) -> tuple[int, list[Json]] | None:
        """The first message after `last` that the listener did not acknowledge, or a new one, with its number."""
        if again := sorted(number for number in of.unacknowledged if number > last):
            return again[0], of.unacknowledged[again[0]]
        if not (ready := [entry for entry in of.pending if entry[0] <= self.clock()][:_BATCH]):
            return None
        of.pending = [entry for entry in of.pending if all(entry is not other for other in ready)]
        of.last += 1
        of.unacknowledged[of.last] = [message for _, message in ready]
        return of.last, of.unacknowledged[of.last]

    # -- inside ---------------------------------------------------------------------------------------------------------

    def _wait(self, job: Job) -> Job:
        with self.state:
            self.jobs.append(job)
            self._open[job.id] = job
            self._free(job)
            self._changed()
            return job

    def _free(self, job: Job) -> None:
        job.state, job.scale_set = "queued", None

    def _waiting(self, of: ScaleSet) -> Iterator[Job]:
        queued = (job for job in self._open.values() if job.state == "queued" and not job.unheard)
        return (job for job in queued if _takes(of, job, self.custom_labels))

    def _give(self, job: Job, of: ScaleSet) -> None:
        job.state, job.scale_set, job.assigned, job.assignments = "assigned", of, self.clock(), job.assignments + 1
        self._tell(of, "JobAssigned", job)

        def lapses(number: int = job.assignments) -> None:
            if job.state == "assigned" and job.assignments == number < _ASSIGNMENTS:
                self._tell(of, "JobCompleted", job, result="canceled", runnerId=0, runnerName="")
                self._free(job)

        self._later(self.assignment_lapses, lapses)

    def _tell(self, of: ScaleSet, kind: str, job: Job, **more: object) -> None:
        fault, now = self.fault(kind) or Fault(kind, "delay"), self.clock()
        due = {"lose": [], "delay": [fault.seconds], "repeat": [0, fault.seconds]}[str(fault.what)]
        of.pending += [(now + late, {"messageType": kind, **job.described(), **more}) for late in due]

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.clock() + seconds, next(self._ids), action))

    def _changed(self) -> None:
        with self.state:
            for of in self.sets.values():
                if of.session:
                    room = of.capacity - sum(job.scale_set is of for job in self._open.values())
                    for job in [*itertools.islice(self._waiting(of), max(0, room))]:
                        self._give(job, of)
            self.state.notify_all()
        for wake in self.wakes:
            wake.set()


def _takes(of: ScaleSet, job: Job, custom_labels: bool) -> bool:
    asked = {label.lower() for label in job.runs_on}
    return asked == {of.name.lower()} or (custom_labels and asked <= {label.lower() for label in of.labels})
