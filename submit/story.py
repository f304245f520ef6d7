"""What is known of one Job, told once each: takes the news in whatever order it comes, says what is new, and judges the end.

No clock, no thread, no cluster: whoever asks gives the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.facts.scheduling import POD_JOB_LABEL
from submit import pods
from submit.errors import ApiError, SubmitError
from submit.kinds import EVENTS, JOBS, PODS, WORKLOADS
from submit.logs import State
from submit.news import Barred, Changed, Gone, Happened, Listed, News
from submit.objects import Object, at, containers, holds, name, number, part, parts, said, text, uid
from submit.queued import admitted, suspended, waits_for
from submit.result import Outcome

_NODE_EVENTS = {
    "TriggeredScaleUp": "a node starts for it",
    "NotTriggerScaleUp": "no node can be started for it",
    "Nominated": "a node is meant for it",
    "Pulling": "",
    "Pulled": "",
    "FailedCreate": "its pod cannot be made",
}
"""Events worth telling, with what goes before their message. TriggeredScaleUp and NotTriggerScaleUp are Cluster Autoscaler's,
Nominated is Karpenter's."""
_TOLD_OTHERWISE = ("FailedScheduling", "Failed", "BackOff", "BackoffLimitExceeded", "DeadlineExceeded")
"""Warnings that say what the status of pod or Job says."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the reader: of a Job or of one of its pods."""

    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """When to give up on a Job that does not start, in seconds.

    `stuck`: how long a container may be impossible to make (no such image); `start`: how long until the first one runs,
    queue and node included; None: no limit.
    """

    stuck: float = 180
    start: float | None = None


class Story:
    """One Job, by its uid: another of its name is somebody else's."""

    def __init__(self, job: Object, limits: Limits) -> None:
        self.job = job
        self._limits = limits
        self._pods: dict[str, Object] = {}
        """Every pod ever seen, as it was last."""
        self._there: set[str] = set()
        """Uids of the pods that are there still."""
        self._workload: Object | None = None
        self._barred: dict[str, SubmitError] = {}
        self._deleted = False
        self._told: dict[str, str] = {}
        self._endings: dict[str, pods.Ending] = {}
        self._blocked_since: dict[str, float] = {}

    # -- what comes in -----------------------------------------------------------------------------------------------------

    def learn(self, news: News, now: float) -> list[Note]:
        """Take one piece of news; gives the lines that it is worth."""
        if isinstance(news, Listed):
            self._listed(news)
        elif isinstance(news, Changed):
            self._changed(news.thing, news.kind.resource)
        elif isinstance(news, Gone):
            self._gone(news.thing, news.kind.resource)
        elif isinstance(news, Barred):
            self._barred[news.kind.resource] = news.error
            return [*self._once("barred", news.kind.resource, self._name, _missing(news)), *self._news()]
        elif isinstance(news, Happened):
            return [note for event in news.events for note in self._event(news.uid, event)]
        self._clock(now)
        return list(self._news())

    def _listed(self, news: Listed) -> None:
        if news.kind == PODS:
            self._there = {uid(pod) for pod in news.things}
        if news.kind == JOBS and all(uid(job) != uid(self.job) for job in news.things):
            self._deleted = True
        if news.kind == WORKLOADS and not news.things:
            self._workload = None
        for thing in news.things:
            self._changed(thing, news.kind.resource)

    def _changed(self, thing: Object, resource: str) -> None:
        if resource == PODS.resource:
            self._pods[uid(thing)] = thing
            self._there.add(uid(thing))
        elif resource == WORKLOADS.resource:
            self._workload = thing
        elif resource == JOBS.resource and uid(thing) == uid(self.job):
            self.job = thing

    def _gone(self, thing: Object, resource: str) -> None:
        if resource == PODS.resource:
            self._pods[uid(thing)] = thing
            self._there.discard(uid(thing))
        elif resource == WORKLOADS.resource:
            self._workload = None
        elif resource == JOBS.resource and uid(thing) == uid(self.job):
            self.job = thing
            self._deleted = True

    def _clock(self, now: float) -> None:
        """Since when is what blocked."""
        for key, pod in self._pods.items():
            if key in self._there and pods.blocks(pod):
                self._blocked_since.setdefault(key, now)
            else:
                self._blocked_since.pop(key, None)

    # -- what is told ------------------------------------------------------------------------------------------------------

    def _news(self) -> Iterator[Note]:
        """Every line whose text is new."""
        if suspended(self.job):
            yield from self._once(
                "job", "queue", self._name, waits_for(self.job, self._workload, self._barred.get(WORKLOADS.resource))
            )
        elif words := admitted(self._workload):
            yield from self._once("job", "queue", self._name, words)
        if failing := holds(self.job, "FailureTarget"):
            yield from self._once("job", "failing", self._name, f"has failed ({said(failing)}); its pods are being ended")
        for key, pod in self._pods.items():
            # How it ended before what is now: a container that starts again has both.
            for ending in pods.endings(pod):
                if ending.key not in self._endings:
                    self._endings[ending.key] = ending
                    yield Note(ending.pod, f"{ending.text}{self._after(ending)}")
            ended = any(known.startswith(f"{key}/") for known in self._endings)
            if key not in self._there:
                yield from self._once("pod", key, name(pod), "" if ended or pods.doing(pod) == "done" else "deleted")
            elif not (ended and pods.doing(pod) == "failed"):
                yield from self._once("pod", key, name(pod), pods.doing(pod))

    def _after(self, ending: pods.Ending) -> str:
        """What comes after a failure, as far as the Job's own settings say."""
        if ending.disrupted:
            counts = "which does not count as a try" if self._forgiven else "while retries are left"
            return f"; the Job controller makes another pod, {counts}"
        most, once = at(self.job, "spec", "backoffLimit"), self._once_a_pod
        if at(self.job, "spec", "backoffLimitPerIndex") is not None or not isinstance(most, int):
            return ""
        failures = len({known.pod for known in self._endings.values()}) if once else len(self._endings)
        again = "the Job controller makes another pod" if once else "it starts again"
        return f"; attempt {failures} of {most + 1}{f', {again}' if failures <= most else ''}"

    def _event(self, of: str, event: Object) -> Iterator[Note]:
        about = self._pods.get(of, self.job)
        if uid(about) != of:
            return
        reason, message, who = text(event, "reason"), text(event, "message"), name(about)
        if reason in _NODE_EVENTS:
            words = ": ".join(filter(None, (_NODE_EVENTS[reason], message)))
        elif event.get("type") == "Warning" and reason not in _TOLD_OTHERWISE:
            words = f"{reason}: {message}"
        else:
            return
        yield from self._once(f"event {of} {reason}", message, who, words)

    def _once(self, what: str, key: str, who: str, words: str) -> Iterator[Note]:
        """The line, if the last one about this said something else."""
        place = f"{what}/{key}"
        if words and self._told.get(place) != words:
            self._told[place] = words
            yield Note(who, words)

    # -- what follows from it ----------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return name(self.job)

    @property
    def _once_a_pod(self) -> bool:
        """Whether each try is a pod of its own, not a container that starts again in its pod."""
        return text(self.job, "spec", "template", "spec", "restartPolicy") == "Never"

    @property
    def _forgiven(self) -> bool:
        """Whether a pod that was disrupted is no failed try: the Job's pod failure policy says so."""
        rules = parts(self.job, "spec", "podFailurePolicy", "rules")
        ignored = (pattern for rule in rules if rule.get("action") == "Ignore" for pattern in parts(rule, "onPodConditions"))
        return any(pattern.get("type") == "DisruptionTarget" for pattern in ignored)

    @property
    def several(self) -> bool:
        """Whether a line of a log must say whose it is."""
        alone = all(sum(1 for _ in containers(pod, "spec")) == 1 for pod in self._pods.values())
        return number(self.job, "spec", "parallelism") > 1 or len(self._pods) > 1 or not alone

    @property
    def attempts(self) -> int:
        """How often the work was begun."""
        return sum(pods.runs(pod) for pod in self._pods.values())

    @property
    def exit_code(self) -> int | None:
        """Of the container that ended last with an error."""
        codes = [ending.exit_code for ending in self._endings.values() if ending.exit_code is not None]
        return codes[-1] if codes else None

    @property
    def last(self) -> str:
        """The last line told of a Job or pod, for those who wait."""
        return next(reversed([words for place, words in self._told.items() if place.startswith(("job", "pod"))]), "")

    def logs(self) -> Iterator[tuple[Object, str, State]]:
        """(pod, container, state) of everything that has a log. Once the Job has ended, so has what does not run any more."""
        final = self.final() is not None
        for key, pod in self._pods.items():
            gone = key not in self._there
            for container, state in pods.states(pod).items():
                running = any(
                    found == container and part(status, "state", "running") for found, status in containers(pod, "status")
                )
                yield pod, container, State(state.restarts, state.ended or gone or (final and not running), gone)

    def wanted(self) -> list[str]:
        """Uids of that whose events say why nothing runs: pods that have not started, or the Job where it has no pod."""
        if self.final() is not None or suspended(self.job):
            return []
        if not self._there:
            return [uid(self.job)]
        waiting = (key for key in self._there if not pods.started(self._pods[key]) and pods.doing(self._pods[key]) != "failed")
        return sorted(waiting)[:5]

    def final(self) -> Outcome | None:
        """How the Job ended, by its own conditions; None while it has not, or is gone without having said it."""
        if holds(self.job, "Complete"):
            return Outcome.COMPLETE
        failed = holds(self.job, "Failed")
        if failed is None:
            return None
        if failed.get("reason") == "DeadlineExceeded":
            return Outcome.DEADLINE
        endings = list(self._endings.values())
        return Outcome.EVICTED if endings and endings[-1].disrupted else Outcome.FAILED

    def judge(self, now: float, since: float) -> tuple[Outcome, str] | None:
        """Outcome and reason, where there is nothing to wait for any more. `since` is when following began."""
        final = self.final()
        if final is Outcome.COMPLETE:
            return final, self._done()
        if final is not None:
            return final, self._failure()
        if self._deleted:
            return Outcome.DELETED, "somebody deleted it before it ended"
        for key, began in self._blocked_since.items():
            pod = self._pods[key]
            if pods.hopeless(pod) or now - began >= self._limits.stuck:
                return Outcome.STUCK, f"{name(pod)} cannot start: {pods.blocks(pod)}"
        if self._limits.start is not None and now - since >= self._limits.start and not self.attempts:
            return Outcome.LATE, f"nothing of it ran within {self._limits.start:g}s; the last word was: {self.last or 'none'}"
        return None

    def _done(self) -> str:
        done, most = number(self.job, "status", "succeeded"), number(self.job, "spec", "completions")
        return f"{done} of {most} pods succeeded" if most > 1 else ""

    def _failure(self) -> str:
        failed = holds(self.job, "Failed") or {}
        ending = next(reversed(self._endings.values()), None)
        deadline = number(self.job, "spec", "activeDeadlineSeconds")
        head = said(failed)
        if failed.get("reason") == "DeadlineExceeded" and deadline:
            head = f"{head} ({deadline}s)"
        return f"{head}; last {ending.pod}: {ending.text}" if ending else head


def _missing(news: Barred) -> str:
    """What a reader does without where a kind cannot be read; nothing where that is told in another way."""
    if news.kind == WORKLOADS:
        return ""
    what = {PODS.resource: "pods and logs are not shown", EVENTS.resource: "events are not shown"}.get(news.kind.resource, "")
    forbidden = isinstance(news.error, ApiError) and news.error.code == 403
    return f"{what}: {'there is no right to read them' if forbidden else str(news.error).splitlines()[0]}" if what else ""


def pods_of(job: Object) -> dict[str, str]:
    """Labels of the Job's pods: the selector that the server gave it. Never none: that would be every pod of the namespace."""
    found = {key: value for key, value in part(job, "spec", "selector", "matchLabels").items() if isinstance(value, str)}
    return found or {POD_JOB_LABEL: uid(job)}
