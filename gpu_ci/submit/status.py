"""The status of one Job: turns what the cluster shows of it into lines of progress, and decides when the Job has ended.

`look` asks the cluster. `JobStatus` has no clock and no connection; the caller passes the time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.facts.nested import part, parts
from fleet.facts.scheduling import POD_JOB_LABEL, QUEUED_JOB_LABEL
from fleet.facts.tables import beside
from gpu_ci.submit import objects, pods
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import ApiError, SubmitError
from gpu_ci.submit.objects import Object, containers, explanation, name, number, text, true_condition, uid
from gpu_ci.submit.runs import Outcome, RunOptions

_REPEATED = ("FailedScheduling", "Failed", "BackOff", "BackoffLimitExceeded", "DeadlineExceeded")
_EVENTS: dict[str, str | None] = beside(__file__, "messages.toml")["events"] | dict.fromkeys(_REPEATED)
"""Events that are shown, with the words before their message; None: not shown, because it only repeats the status of the pod or
Job. TriggeredScaleUp and NotTriggerScaleUp come from the Cluster Autoscaler, Nominated from Karpenter."""
_NOT_SHOWN = {objects.PODS: "pods and logs are not shown", objects.EVENTS: "events are not shown"}
"""What a user misses if a kind cannot be read."""


class Note(NamedTuple):
    """One line of progress of the Job or one of its pods."""

    who: str
    text: str


class Seen(NamedTuple):
    """What the cluster shows of a Job at one moment; `job` is None if it is gone."""

    job: Object | None
    pods: Sequence[Object] = ()
    workload: Object | None = None


@dataclass(slots=True)
class Reader:
    """Lists objects of a cluster. A kind that the cluster refuses for good is in `refused` and not asked again."""

    cluster: Cluster
    refused: dict[objects.Kind, SubmitError] = field(default_factory=dict)

    def look(self, job: Object) -> Seen:
        """The Job, its Workload in Kueue, and last its pods, which are final if the Job has ended.

        Another Job of the same name is not it. Raises SubmitError if the Job cannot be read, or the cluster does not respond.
        """
        if (current := self.cluster.find(objects.JOBS, name(job))) is None or uid(current) != uid(job):
            return Seen(None)
        queued = pods.queue_of(job) or pods.suspended(job)
        workloads = self.listed(objects.WORKLOADS, "labelSelector", f"{QUEUED_JOB_LABEL}={uid(job)}") if queued else []
        labels = ",".join(f"{key}={value}" for key, value in pod_labels(job).items())
        return Seen(current, self.listed(objects.PODS, "labelSelector", labels), next(iter(workloads), None))

    def events(self, of: str) -> list[Object]:
        """The events of the object with the uid `of`."""
        return self.listed(objects.EVENTS, "fieldSelector", f"involvedObject.uid={of}")

    def listed(self, kind: objects.Kind, selector: str, value: str) -> list[Object]:
        """The selected objects of a kind; none if the cluster refuses the kind."""
        try:
            return self.cluster.list(kind, {selector: value}) if kind not in self.refused else []
        except ApiError as error:
            if error.temporary or error.code == 401:
                raise
            self.refused[kind] = error
            return []


class JobStatus:
    """One Job, identified by its uid. `refused` has the kinds that cannot be read."""

    def __init__(self, job: Object, options: RunOptions, refused: dict[objects.Kind, SubmitError] | None = None) -> None:
        self.job = job
        self.last = ""
        """The last line of the Job or of a pod; events and failures do not count."""
        self._options = options
        self._refused = {} if refused is None else refused
        self._pods: dict[str, Object] = {}
        """The last known state of every pod, by uid."""
        self._existing: set[str] = set()
        """Uids of the pods that were not deleted."""
        self._workload: Object | None = None
        self._deleted = False
        self._shown: dict[tuple[str, str], str] = {}
        self._endings: dict[str, pods.Ending] = {}
        self._blocked_since: dict[str, float] = {}

    def learn(self, seen: Seen, now: float) -> list[Note]:
        """Take what the cluster shows; gives the new lines of progress."""
        self._deleted = seen.job is None
        if seen.job is not None:
            self.job, self._workload = seen.job, seen.workload
            current = {uid(pod): pod for pod in seen.pods}
            self._pods |= current
            self._existing = set(current)
        blocked = {key for key in self._existing if pods.blocks(self._pods[key])}
        self._blocked_since = {key: self._blocked_since.get(key, now) for key in blocked}
        return list(self._notes())

    # -- progress ----------------------------------------------------------------------------------------------------------

    def _notes(self) -> Iterator[Note]:
        yield from self._missing()
        if pods.suspended(self.job):
            words = pods.waits_for(self.job, self._workload, self._refused.get(objects.WORKLOADS))
        else:
            words = pods.admitted(self._workload)
        yield from self._once("job", "queue", name(self.job), words)
        if failing := true_condition(self.job, "FailureTarget"):
            words = f"has failed ({explanation(failing)}); its pods are being ended"
            yield from self._once("job", "failing", name(self.job), words)
        for key, pod in self._pods.items():
            # Failures come before the current state: a container that was restarted has both.
            for ending in pods.endings(pod):
                if ending.key not in self._endings:
                    self._endings[ending.key] = ending
                    yield Note(ending.pod, f"{ending.text}{self._after(ending)}")
            failed, words = any(known.startswith(f"{key}/") for known in self._endings), pods.doing(pod)
            if key not in self._existing:
                words = "" if failed or words == "done" else "deleted"
            elif failed and words == "failed":
                words = ""
            yield from self._once("pod", key, name(pod), words)

    def _missing(self) -> Iterator[Note]:
        """The kinds that are not shown, because the cluster refuses them."""
        for kind, error in self._refused.items():
            if kind in _NOT_SHOWN:
                why = "the kubeconfig has no permission to read them" if error.code == 403 else error.headline
                yield from self._once("refused", kind.resource, name(self.job), f"{_NOT_SHOWN[kind]}: {why}")

    def _after(self, ending: pods.Ending) -> str:
        """What Kubernetes does after a failure, according to the Job's spec."""
        if ending.disrupted:
            # The pod failure policy decides whether a disruption counts as a failure.
            rules = [rule for rule in parts(self.job, "spec", "podFailurePolicy", "rules") if rule.get("action") == "Ignore"]
            ignored = {text(pattern, "type") for rule in rules for pattern in parts(rule, "onPodConditions")}
            counts = "which does not count as an attempt" if "DisruptionTarget" in ignored else "while retries are left"
            return f"; the Job controller creates another pod, {counts}"
        spec = part(self.job, "spec")
        limit = spec.get("backoffLimit")
        if spec.get("backoffLimitPerIndex") is not None or not isinstance(limit, int):
            return ""
        new_pod = text(self.job, "spec", "template", "spec", "restartPolicy") == "Never"
        failures = len({known.pod for known in self._endings.values()}) if new_pod else len(self._endings)
        again = "the Job controller creates another pod" if new_pod else "it starts again"
        return f"; attempt {failures} of {limit + 1}{f', {again}' if failures <= limit else ''}"

    def learn_events(self, of: str, events: Sequence[Object]) -> list[Note]:
        """Take the events of the object with the uid `of`; gives the new lines of progress."""
        about = self._pods.get(of, self.job)
        notes = list(self._missing())
        for event in events if uid(about) == of else ():
            reason, message = text(event, "reason"), text(event, "message")
            if (words := _EVENTS.get(reason, reason if event.get("type") == "Warning" else None)) is not None:
                words = ": ".join(filter(None, (words, message)))
                notes += self._once(f"event {of} {reason}", message, name(about), words)
        return notes

    def _once(self, what: str, key: str, who: str, words: str) -> Iterator[Note]:
        """The line, unless the last line about this was the same."""
        if words and self._shown.get((what, key)) != words:
            self._shown[what, key] = words
            if what in ("job", "pod"):
                self.last = words
            yield Note(who, words)

    # -- state for the follower --------------------------------------------------------------------------------------------

    @property
    def several(self) -> bool:
        """Whether there are several logs, so that each line must name its container."""
        single = all(len(list(containers(pod, "spec"))) == 1 for pod in self._pods.values())
        return number(self.job, "spec", "parallelism") > 1 or len(self._pods) > 1 or not single

    @property
    def attempts(self) -> int:
        """How often containers were started, retries included."""
        return sum(pods.runs(pod) for pod in self._pods.values())

    @property
    def exit_code(self) -> int | None:
        """The exit code of the container that failed last."""
        codes = (ending.exit_code for ending in reversed(self._endings.values()))
        return next((code for code in codes if code is not None), None)

    @property
    def ended(self) -> bool:
        """Whether a condition of the Job shows that it has ended."""
        return bool(true_condition(self.job, "Complete") or true_condition(self.job, "Failed"))

    def logs(self) -> Iterator[tuple[pods.LogSource, pods.ContainerState]]:
        """Every container that has a log, with its state."""
        for key, pod in self._pods.items():
            states = pods.states(pod, gone=key not in self._existing, job_ended=self.ended)
            yield from ((pods.LogSource(name(pod), key, container), state) for container, state in states.items())

    def waiting(self) -> list[str]:
        """Uids of objects whose events explain why nothing runs: up to five pods that have not started, or a Job without pods."""
        if self.ended or pods.suspended(self.job):
            return []
        if not self._existing:
            return [uid(self.job)]
        there = {key: self._pods[key] for key in self._existing}
        return sorted(key for key, pod in there.items() if not pods.started(pod) and pods.doing(pod) != "failed")[:5]

    def judge(self, now: float, since: float) -> tuple[Outcome, str] | None:
        """Outcome and reason if there is nothing more to wait for. `since` is when following began."""
        if true_condition(self.job, "Complete"):
            done, wanted = number(self.job, "status", "succeeded"), number(self.job, "spec", "completions")
            return Outcome.COMPLETE, f"{done} of {wanted} pods succeeded" if wanted > 1 else ""
        if failed := true_condition(self.job, "Failed"):
            return self._failure(failed)
        if self._deleted:
            return Outcome.DELETED, "it was deleted before its end was seen"
        for key, began in self._blocked_since.items():
            reason = pods.blocks(self._pods[key])
            if reason.startswith(pods.HOPELESS) or now - began >= self._options.stuck_after:
                return Outcome.STUCK, f"{name(self._pods[key])} cannot start: {reason}"
        if (limit := self._options.start_within) is not None and now - since >= limit and not self.attempts:
            return Outcome.LATE, f"none of its containers ran within {limit:g}s; the last message was: {self.last or 'none'}"
        return None

    def _failure(self, failed: Object) -> tuple[Outcome, str]:
        ending = next(reversed(self._endings.values()), None)
        outcome = Outcome.EVICTED if ending and ending.disrupted else Outcome.FAILED
        words = explanation(failed)
        if failed.get("reason") == "DeadlineExceeded":
            outcome = Outcome.DEADLINE
            deadline = number(self.job, "spec", "activeDeadlineSeconds")
            words += f" ({deadline}s)" if deadline else ""
        return outcome, f"{words}; last {ending.pod}: {ending.text}" if ending else words


def pod_labels(job: Object) -> dict[str, str]:
    """Labels of the Job's pods, from the selector that the server set. Never empty: that would select every pod."""
    found = {key: value for key, value in part(job, "spec", "selector", "matchLabels").items() if isinstance(value, str)}
    return found or {POD_JOB_LABEL: uid(job)}
