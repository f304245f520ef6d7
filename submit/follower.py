"""Follows one Job to its end: threads watch and read, one loop takes their news in, tells and judges."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fleet.facts.scheduling import QUEUED_JOB_LABEL
from submit.errors import ApiError, SubmitError
from submit.kinds import EVENTS, JOBS, PODS, WORKLOADS
from submit.logs import LogReader, State
from submit.news import Barred, Changed, Gone, Happened, Line, Listed, LogEnded, LogLate, News, Silent
from submit.objects import Object, name, selector, text, uid
from submit.pace import Pace, passes
from submit.pods import states
from submit.queued import queue_of, suspended
from submit.result import Outcome, Result, span
from submit.story import Limits, Story, pods_of
from submit.view import Teller
from submit.watching import Choice, Watcher

if TYPE_CHECKING:
    from submit.cluster import Cluster

_READERS = 20
"""Logs that are followed at once: each is a thread and a connection."""


class Looker(threading.Thread):
    """A thread that looks, now and then, at the events of what does not run yet."""

    def __init__(self, cluster: Cluster, wanted: Callable[[], list[str]], tell: Callable[[News], None], pace: Pace) -> None:
        super().__init__(name="look at events", daemon=True)
        self._cluster = cluster
        self._wanted = wanted
        self._tell = tell
        self._pace = pace
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopping.set()

    def run(self) -> None:
        """Until stopped, or barred from events."""
        while not self._stopping.wait(self._pace.look):
            for each in self._wanted():
                try:
                    events, _ = self._cluster.list(EVENTS, fields=f"involvedObject.uid={each}")
                except SubmitError as error:
                    if not passes(error):
                        self._tell(Barred(EVENTS, error))
                        return
                    break
                self._tell(Happened(each, tuple(events)))


class Follower:
    """One Job from now on. A context manager: on leaving it every thread is told to end."""

    def __init__(
        self,
        cluster: Cluster,
        job: Object,
        teller: Teller,
        limits: Limits,
        pace: Pace,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`job` is as the server gave it, with uid and selector."""
        self._cluster = cluster
        self._teller = teller
        self._pace = pace
        self._clock = clock
        self._story = Story(job, limits)
        self._inbox: queue.SimpleQueue[News | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._began = clock()
        self._spoke = clock()
        """When something was told last."""
        self._silent: dict[str, tuple[float, SubmitError]] = {}
        """Since when a kind cannot be watched, and why."""
        self._settled = False
        """The last word on the pods is known: what a watch says after that is older."""
        self._readers: dict[tuple[str, str], LogReader] = {}
        self._open: set[tuple[str, str]] = set()
        self._wanted: list[str] = [uid(job)]
        own = f"metadata.name={name(job)}"
        choices = [Choice(JOBS, fields=own), Choice(PODS, labels=selector(pods_of(job)))]
        if queue_of(job) or suspended(job):
            choices.append(Choice(WORKLOADS, labels=f"{QUEUED_JOB_LABEL}={uid(job)}"))
        self._helpers: list[Watcher | Looker] = [Watcher(cluster, choice, self._inbox.put, pace) for choice in choices]
        self._helpers.append(Looker(cluster, lambda: self._wanted, self._inbox.put, pace))

    def __enter__(self) -> Self:
        for helper in self._helpers:
            helper.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for thread in (*self._helpers, *self._readers.values()):
            thread.stop()

    def stop(self) -> None:
        """End following soon; the Job goes on. May be called from another thread."""
        self._stopped.set()
        self._inbox.put(None)

    def result(self) -> Result:
        """How the Job ended. Blocks until then, or until following ends otherwise. KeyboardInterrupt goes through."""
        while not self._stopped.is_set():
            self._take(self._pace.tick)
            now = self._clock()
            if judged := self._story.judge(now, self._began):
                if self._story.final() is None:
                    return self._end(*judged)
                self._finish()
                # Anew: what came meanwhile may say more of why.
                return self._end(*(self._story.judge(self._clock(), self._began) or judged))
            if lost := self._lost(now):
                return self._end(Outcome.LOST, lost)
            self._remind(now)
        return self.so_far()

    def so_far(self) -> Result:
        """How the Job ended, if it has said so already; else that following was interrupted."""
        judged = self._story.judge(self._clock(), self._began) if self._story.final() else None
        return self._end(*(judged or (Outcome.INTERRUPTED, "the Job goes on")))

    # -- news --------------------------------------------------------------------------------------------------------------

    def _take(self, wait: float) -> None:
        """Wait for news, then take all that there is."""
        try:
            news = self._inbox.get(timeout=wait)
            while True:
                if news is not None:
                    self._learn(news)
                news = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _learn(self, news: News) -> None:
        if isinstance(news, Line):
            self._log(news)
        elif isinstance(news, LogEnded):
            self._open.discard((news.uid, news.container))
            if news.why:
                self._say(self._name, f"the log of {news.container} breaks off: {news.why}")
            # There is room for another one's.
            self._read_logs()
        elif isinstance(news, LogLate):
            self._say(self._name, f"the log of {news.container} does not come yet: {news.why}; trying again")
        elif isinstance(news, Silent):
            self._silence(news)
        elif not (self._settled and isinstance(news, Listed | Changed | Gone) and news.kind == PODS):
            for note in self._story.learn(news, self._clock()):
                self._say(note.who, note.text)
            if isinstance(news, Barred) and news.kind == JOBS:
                self._silent[JOBS.resource] = (float("-inf"), news.error)
            self._wanted = self._story.wanted()
            self._read_logs()

    def _silence(self, news: Silent) -> None:
        if news.error is None:
            if self._silent.pop(news.kind.resource, None) is not None and not self._silent:
                self._say(self._name, "the cluster answers again")
            return
        if not self._silent:
            self._say(self._name, f"{str(news.error).splitlines()[0]}; trying again")
        since, _ = self._silent.get(news.kind.resource, (self._clock(), None))
        self._silent[news.kind.resource] = (since, news.error)

    def _lost(self, now: float) -> str:
        """Why the Job's own state cannot be known any more; nothing while there is hope."""
        since, error = self._silent.get(JOBS.resource, (now, None))
        if error is None or now - since < self._pace.patience:
            return ""
        return f"{str(error).splitlines()[0]}; the Job may go on"

    def _read_logs(self) -> None:
        """A reader for every container that has run, each told what its pod's status says."""
        for pod, container, state in self._story.logs():
            key = (uid(pod), container)
            if key not in self._readers:
                if len(self._open) >= _READERS:
                    continue
                look = partial(self._look, name(pod), uid(pod), container, state)
                reader = LogReader(self._cluster, name(pod), uid(pod), container, self._inbox.put, look, self._pace)
                self._readers[key] = reader
                self._open.add(key)
                reader.learn(state)
                reader.start()
            self._readers[key].learn(state)

    def _look(self, pod: str, pod_uid: str, container: str, known: State) -> State:
        """A container's state as it is now. Called from its log's reader."""
        try:
            found = self._cluster.get(PODS, pod)
        except ApiError as error:
            if error.code == 404:
                return State(ended=True, gone=True)
            if error.code == 403:
                return known
            raise
        return states(found).get(container, known) if uid(found) == pod_uid else State(ended=True, gone=True)

    def _finish(self) -> None:
        """The Job has ended: see how its pods ended, and wait for the rest of their logs."""
        try:
            pods, _ = self._cluster.list(PODS, labels=selector(pods_of(self._story.job)))
            self._learn(Listed(PODS, tuple(pods)))
            self._settled = True
        except SubmitError:
            # What the watch has told must do.
            self._read_logs()
        until = self._clock() + self._pace.drain
        while self._open and (left := until - self._clock()) > 0 and not self._stopped.is_set():
            self._take(min(left, self._pace.tick))
        self._take(0)
        if self._open:
            self._say(self._name, "the rest of its log does not come; look with kubectl logs")

    # -- telling -----------------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return name(self._story.job)

    def _say(self, who: str, words: str) -> None:
        self._spoke = self._clock()
        self._teller.say(who, words)

    def _log(self, line: Line) -> None:
        self._spoke = self._clock()
        self._teller.log(f"[{line.pod}/{line.container}] " if self._story.several else "", line.text)

    def _remind(self, now: float) -> None:
        if now - self._spoke >= self._pace.remind and self._story.last:
            self._say(self._name, f"still, after {span(now - self._began)}: {self._story.last}")

    def _end(self, outcome: Outcome, reason: str) -> Result:
        seconds = self._clock() - self._began
        code = None if outcome is Outcome.COMPLETE else self._story.exit_code
        namespace = text(self._story.job, "metadata", "namespace") or self._cluster.namespace
        return Result(self._name, namespace, outcome, reason, code, self._story.attempts, seconds)
