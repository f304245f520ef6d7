"""Follows one Job to its end: watches its objects, reads its logs, and shows what is new."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from fleet.facts.scheduling import QUEUED_JOB_LABEL
from gpu_ci.submit.errors import ApiError, SubmitError
from gpu_ci.submit.kueue import queue_of, suspended
from gpu_ci.submit.logs import ContainerState, LogEvent, LogReader, LogSource
from gpu_ci.submit.objects import EVENTS, JOBS, PODS, WORKLOADS, Kind, Object, name, text, uid
from gpu_ci.submit.options import RunOptions
from gpu_ci.submit.output import Output
from gpu_ci.submit.pods import states
from gpu_ci.submit.reader import Backoff
from gpu_ci.submit.result import Outcome, Result, span
from gpu_ci.submit.status import JobStatus, Note, pod_labels
from gpu_ci.submit.watch import Update, Watcher, WatchStatus

if TYPE_CHECKING:
    from gpu_ci.submit.cluster import Cluster

_READERS = 20
"""Logs that are followed at the same time; each needs a thread and a connection."""

Message = Update | WatchStatus | LogEvent
Inbox = queue.SimpleQueue[tuple["Follower", Message]]
"""Messages of the threads of all followers, for the one loop that handles them."""


class Follower:
    """Follows one Job. Its threads only put messages into the inbox; the caller's loop calls `receive` and `step`."""

    def __init__(self, cluster: Cluster, job: Object, output: Output, options: RunOptions, inbox: Inbox) -> None:
        """`job` is as the server stored it, with uid and selector."""
        self._cluster = cluster
        self._output = output
        self._timing = options.timing
        self._status = JobStatus(job, options)
        self._name = name(job)
        self.ended = False
        self._began = self._last_shown = time.monotonic()
        self._next_events = self._began + self._timing.events
        self._unreachable: dict[Kind, tuple[float, SubmitError]] = {}
        """Kinds that cannot be watched at the moment: since when, and why."""
        self._drain_until: float | None = None
        """The Job has ended; until then the rest of its logs is awaited."""
        self._pods_final = False
        """The pods were listed after the Job's end; older messages of the watch are ignored from then on."""
        self._readers: dict[LogSource, LogReader] = {}
        self._open: set[LogSource] = set()
        self._report = lambda message: inbox.put((self, message))
        self._pods = {"labelSelector": ",".join(f"{key}={value}" for key, value in pod_labels(job).items())}
        watched = {JOBS: {"fieldSelector": f"metadata.name={self._name}"}, PODS: self._pods}
        if queue_of(job) or suspended(job):
            watched[WORKLOADS] = {"labelSelector": f"{QUEUED_JOB_LABEL}={uid(job)}"}
        self._watchers = [
            Watcher(cluster, self._report, Backoff(self._timing), kind, selector) for kind, selector in watched.items()
        ]

    def start(self) -> None:
        """Start the watches."""
        for watcher in self._watchers:
            watcher.start()

    def stop(self) -> None:
        """End all threads soon. The Job continues."""
        for thread in (*self._watchers, *self._readers.values()):
            thread.stop()

    def receive(self, message: Message) -> None:
        """Handle a message of one of the threads."""
        if isinstance(message, LogEvent):
            self._receive_log(message)
        elif isinstance(message, WatchStatus) and not message.permanent:
            self._receive_reachability(message.kind, message.error)
        elif not (self._pods_final and message.kind == PODS):
            self._show(self._status.learn(message, time.monotonic()))
            if isinstance(message, WatchStatus) and message.error and message.kind == JOBS:
                self._unreachable[JOBS] = (-math.inf, message.error)
            self._read_logs()

    def step(self) -> Result | None:
        """Do the tasks that are due. Returns the result when following has ended."""
        now = time.monotonic()
        judged = self._status.judge(now, self._began)
        if judged is not None and self._status.ended:
            if self._drain_until is None:
                self._drain_until = now + self._timing.drain
                self._list_final_pods()
            if self._open and now < self._drain_until:
                return None
            if self._open:
                self._say("the rest of its log does not arrive; read it with kubectl logs")
            # The messages since then can contain a better reason.
            judged = self._status.judge(now, self._began)
        since, error = self._unreachable.get(JOBS, (now, None))
        if judged is None and error is not None and now - since >= self._timing.patience:
            judged = Outcome.LOST, f"{error.headline}; the Job may continue"
        if judged is not None:
            return self._result(*judged)
        if now >= self._next_events:
            self._next_events = now + self._timing.events
            self._list_events(now)
        if now - self._last_shown >= self._timing.remind and self._status.last:
            self._say(f"still, after {span(now - self._began)}: {self._status.last}")
        return None

    def interrupted(self) -> Result:
        """The result of a Job that has ended already; else that following was interrupted."""
        judged = self._status.judge(time.monotonic(), self._began) if self._status.ended else None
        return self._result(*(judged or (Outcome.INTERRUPTED, "the Job continues")))

    def _result(self, outcome: Outcome, reason: str) -> Result:
        self.stop()
        self.ended = True
        seconds = time.monotonic() - self._began
        code = None if outcome is Outcome.COMPLETE else self._status.exit_code
        namespace = text(self._status.job, "metadata", "namespace") or self._cluster.namespace
        return Result(self._name, namespace, outcome, reason, code, self._status.attempts, seconds)

    # -- messages ----------------------------------------------------------------------------------------------------------

    def _receive_log(self, event: LogEvent) -> None:
        source = event.source
        if event.what == "line":
            self._last_shown = time.monotonic()
            self._output.log(f"[{source.pod}/{source.container}] " if self._status.several else "", event.text)
        elif event.what == "delayed":
            self._say(f"the log of {source.container} is not available yet: {event.text}; trying again")
        else:
            if event.text:
                self._say(f"the log of {source.container} breaks off: {event.text}")
            self._open.discard(source)
            # Another log can be opened now.
            self._read_logs()

    def _receive_reachability(self, kind: Kind, error: SubmitError | None) -> None:
        if error is not None:
            if not self._unreachable:
                self._say(f"{error.headline}; trying again")
            since, _ = self._unreachable.get(kind, (time.monotonic(), None))
            self._unreachable[kind] = (since, error)
        elif self._unreachable.pop(kind, None) is not None and not self._unreachable:
            self._say("the cluster responds again")

    def _say(self, message: str) -> None:
        self._show([Note(self._name, message)])

    def _show(self, notes: Iterable[Note]) -> None:
        for note in notes:
            self._last_shown = time.monotonic()
            self._output.progress(*note)

    # -- requests ----------------------------------------------------------------------------------------------------------

    def _read_logs(self) -> None:
        """Start a reader for every container that has run, and give each reader the state from its pod's status."""
        for source, state in self._status.logs():
            if source not in self._readers:
                if len(self._open) >= _READERS:
                    continue
                current = partial(self._current_state, source, state)
                self._readers[source] = LogReader(self._cluster, self._report, Backoff(self._timing), source, current)
                self._open.add(source)
                self._readers[source].learn(state)
                self._readers[source].start()
            self._readers[source].learn(state)

    def _current_state(self, source: LogSource, known: ContainerState) -> ContainerState:
        """The state of a container, asked by the reader of its log."""
        gone = ContainerState(ended=True, gone=True)
        try:
            found = self._cluster.get(PODS, source.pod)
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return known if error.code == 403 else gone
        return states(found).get(source.container, known) if uid(found) == source.uid else gone

    def _list_final_pods(self) -> None:
        try:
            pods, _ = self._cluster.list(PODS, self._pods)
            self.receive(Update(PODS, "listed", tuple(pods)))
            self._pods_final = True
        except SubmitError:
            # The state that the watch reported must do.
            self._read_logs()

    def _list_events(self, now: float) -> None:
        for of in self._status.waiting():
            try:
                events, _ = self._cluster.list(EVENTS, {"fieldSelector": f"involvedObject.uid={of}"})
            except SubmitError as error:
                if not error.temporary:
                    self._next_events = math.inf
                    self._show(self._status.learn(WatchStatus(EVENTS, error, permanent=True), now))
                return
            self._show(self._status.learn_events(of, events))


def deliver(inbox: Inbox, timeout: float) -> None:
    """Wait for a message, then pass on every message that has come. Followers that have ended get none."""
    with suppress(queue.Empty):
        follower, message = inbox.get(timeout=timeout)
        while True:
            if not follower.ended:
                follower.receive(message)
            follower, message = inbox.get_nowait()
