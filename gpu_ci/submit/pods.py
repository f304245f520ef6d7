"""Describes in words what a pod of a Job is doing, how its containers ended, and why a suspended Job has no pods.

Pure functions of the JSON of the Job, its pods and Kueue's Workload.
"""

import signal
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fleet.facts.nested import part, parts
from fleet.facts.scheduling import QUEUE_LABEL
from fleet.facts.tables import beside
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.objects import Object, condition, containers, explanation, name, number, text, true_condition, uid

DISRUPTIONS: Mapping[str, str] = beside(__file__, "messages.toml")["disruptions"]
"""Reasons of the pod condition DisruptionTarget (kubernetes.io, Disruptions)."""

HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
"""Reasons of a waiting container that no retry of the kubelet can end: the pod itself must be changed."""
_BLOCKED = (*HOPELESS, "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError")
"""Reasons of a waiting container that a user must act on."""
_LONGEST = 300
"""Characters of a container's termination message that are shown."""


class Ending(NamedTuple):
    """A pod, or one run of a container in it, that ended without success. The same ending always has the same `key`."""

    key: str
    pod: str
    text: str
    exit_code: int | None = None
    disrupted: bool = False


class ContainerState(NamedTuple):
    """The state of a container in its pod's status. `ended`: it will not run again. `gone`: the pod was deleted."""

    restarts: int = 0
    ended: bool = False
    gone: bool = False


class LogSource(NamedTuple):
    """A container of a pod."""

    pod: str
    uid: str
    container: str


def doing(pod: Object) -> str:
    """What the pod does now; empty between two runs of a container."""
    if (phase := text(pod, "status", "phase")) in ("Succeeded", "Failed"):
        return "done" if phase == "Succeeded" else "failed"
    if blocked := blocks(pod):
        return f"cannot start: {blocked}"
    node = text(pod, "spec", "nodeName")
    if started(pod):
        if any(part(status, "state", "running") for status in _main(pod)):
            return f"running on node {node}"
        waiting = [text(status, "state", "waiting", "reason") for status in _main(pod)]
        return "waits before a restart" if "CrashLoopBackOff" in waiting else ""
    return f"starting on node {node}" if node else f"pending: {_unscheduled(pod)}"


def _unscheduled(pod: Object) -> str:
    """Why the pod has no node."""
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status", "True") == "True":
        return "waits for the scheduler"
    if scheduled.get("reason") == "SchedulingGated":
        return "a scheduling gate holds it back"
    return f"no node for it yet: {text(scheduled, 'message') or text(scheduled, 'reason')}"


def blocks(pod: Object) -> str:
    """Why a container cannot be created, as "Reason: message"; empty if nothing prevents it."""
    waiting = (part(status, "state", "waiting") for _, status in containers(pod, "status"))
    return next((explanation(state) for state in waiting if state.get("reason") in _BLOCKED), "")


def endings(pod: Object) -> Iterator[Ending]:
    """Every failure of the pod and its containers that the pod still records."""
    if (disruption := true_condition(pod, "DisruptionTarget")) is not None:
        # The exit codes of containers that ended with their pod mean nothing.
        why = DISRUPTIONS.get(text(disruption, "reason"), f"evicted: {text(disruption, 'reason')}")
        message = text(disruption, "message")
        yield Ending(f"{uid(pod)}/disrupted", name(pod), f"{why}{message and f' ({message})'}", disrupted=True)
        return
    for container, status in containers(pod, "status"):
        for state in (part(status, "lastState", "terminated"), part(status, "state", "terminated")):
            if code := number(state, "exitCode"):
                # A run moves from `state` to `lastState`. Its containerID stays the same, if the runtime sets it.
                key = text(state, "containerID") or text(state, "finishedAt") or str(number(status, "restartCount"))
                yield Ending(f"{uid(pod)}/{container}/{key}", name(pod), _exit(pod, container, state), code)
    reason = text(pod, "status", "reason")
    if text(pod, "status", "phase") == "Failed" and reason:
        yield Ending(f"{uid(pod)}/{reason}", name(pod), _failure(pod, reason), disrupted=reason in ("Evicted", "Preempting"))


def states(pod: Object, *, gone: bool = False, job_ended: bool = False) -> dict[str, ContainerState]:
    """The state of each container that has run or runs. When the Job has ended, only a running container can go on."""
    by_name = {}
    finished = gone or text(pod, "status", "phase") in ("Succeeded", "Failed")
    restarts = text(pod, "spec", "restartPolicy") != "Never"
    for container, status in containers(pod, "status"):
        if _has_run(status):
            terminated = part(status, "state", "terminated")
            for_good = bool(terminated) and not (restarts and number(terminated, "exitCode"))
            over = finished or for_good or (job_ended and not part(status, "state", "running"))
            by_name[container] = ContainerState(number(status, "restartCount"), over, gone)
    return by_name


def started(pod: Object) -> bool:
    """Whether a container of the pod has run; init containers do not count."""
    return any(_has_run(status) for status in _main(pod))


def runs(pod: Object) -> int:
    """How often the containers of the pod were started; init containers do not count."""
    return 1 + max(number(status, "restartCount") for status in _main(pod)) if started(pod) else 0


def _main(pod: Object) -> list[Object]:
    """The statuses of the containers, without those of init containers."""
    return parts(pod, "status", "containerStatuses")


def _has_run(status: Object) -> bool:
    return any(part(status, *path) for path in (("state", "running"), ("state", "terminated"), ("lastState", "terminated")))


def _exit(pod: Object, container: str, state: Object) -> str:
    """How a container ended."""
    code, reason = number(state, "exitCode"), text(state, "reason")
    if reason == "OOMKilled":
        limit = text(dict(containers(pod, "spec")).get(container), "resources", "limits", "memory")
        why = f"{container} used more than its memory limit{limit and f' of {limit}'}, and /dev/shm counts too"
        return f"out of memory: {why}; ask for more (--memory)"
    killer = f" ({signal.Signals(code - 128).name})" if code - 128 in list(signal.Signals) else ""
    message = text(state, "message")
    ending = message if len(message) <= _LONGEST else f"…{message[-_LONGEST:]}"
    return ": ".join(filter(None, (f"exit code {code}{killer}", "" if reason in ("Error", "Completed") else reason, ending)))


def _failure(pod: Object, reason: str) -> str:
    """Why a pod failed as a whole."""
    node = text(pod, "spec", "nodeName")
    message = text(pod, "status", "message")
    if reason == "UnexpectedAdmissionError":
        return f"node {node} refused it, because its device plugin could not provide the requested devices: {message}"
    # The kubelet rejected a scheduled pod; the name of a resource follows OutOf.
    if reason.startswith(("TopologyAffinityError", "NodeAffinity", "OutOf")):
        return f"node {node} refused it: {reason}: {message}"
    if reason == "Evicted":
        return f"evicted: node {node} is short of resources: {message}"
    return ": ".join(filter(None, (reason, message)))


# -- a suspended Job, by Kueue's Workload if there is one ------------------------------------------------------------------

_UNSEEN = "Kueue has not processed it yet"


def queue_of(job: Object) -> str:
    """The LocalQueue of a Job; empty if it has none."""
    return text(job, "metadata", "labels", QUEUE_LABEL)


def suspended(job: Object) -> bool:
    """Whether the Job controller creates no pods for now."""
    return part(job, "spec").get("suspend") is True


def waits_for(job: Object, workload: Object | None, refused: SubmitError | None) -> str:
    """Why a suspended Job waits. `refused`: why Workloads cannot be read."""
    if not (queue := queue_of(job)) and workload is None:
        return "suspended: it starts when its spec.suspend is set to false"
    if refused and refused.code == 404:
        return f"suspended for queue {queue}, and the cluster has no Kueue to start it"
    if workload is None:
        why = "the kubeconfig has no permission to read why" if refused else _UNSEEN
    elif (evicted := true_condition(workload, "Evicted")) is not None:
        why = f"evicted: {explanation(evicted)}"
    elif true_condition(workload, "QuotaReserved") is None:
        why = explanation(condition(workload, "QuotaReserved") or {"message": _UNSEEN})
    else:
        checks = [f"{text(check, 'name')} ({text(check, 'state')})" for check in parts(workload, "status", "admissionChecks")]
        state = f"waits for {', '.join(checks)}" if checks else "is about to start"
        why = f"it has its quota of {_cluster_queue(workload)} and {state}"
    return f"queued{f' in {queue}' if queue else ''}: {why}"


def admitted(workload: Object | None) -> str:
    """Which cluster queue admitted the Job; empty while none has."""
    return f"admitted by {_cluster_queue(workload)}" if workload and true_condition(workload, "Admitted") else ""


def _cluster_queue(workload: Object) -> str:
    return text(workload, "status", "admission", "clusterQueue")
