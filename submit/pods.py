"""What a pod of a Job is doing, and how its containers ended, in words. Pure functions of the pod as the API gives it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from submit.logs import State
from submit.objects import Object, condition, containers, holds, name, number, part, parts, said, text, uid

DISRUPTIONS: Mapping[str, str] = {
    "PreemptionByScheduler": "preempted: the scheduler gave its place to a pod of higher priority",
    "DeletionByTaintManager": "evicted: its node got a taint that it does not tolerate, as a lost node does",
    "EvictionByEvictionAPI": "evicted: its node is being drained, as a spot node is that the cloud takes back",
    "DeletionByPodGC": "lost: its node is gone",
    "TerminationByKubelet": "ended by its node, which shuts down or is short of room",
}
"""Reasons of a pod's condition DisruptionTarget (kubernetes.io, Disruptions)."""

HOPELESS = ("InvalidImageName", "ErrImageNeverPull")
_BLOCKED = (*HOPELESS, "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "CreateContainerError")
"""Reasons of a waiting container that somebody must do something about; for the hopeless ones waiting is of no use."""
_ADMISSION = ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "OutOf")
"""Reasons of a pod that its node's kubelet refused after the scheduler had placed it; OutOf goes on with a resource."""
_LONGEST = 300
"""Characters of a container's own last message that a line holds."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A pod, or one run of a container in it, that ended without success. `key` is the same whenever it is seen again."""

    key: str
    pod: str
    text: str
    exit_code: int | None = None
    disrupted: bool = False


def doing(pod: Object) -> str:
    """What the pod does now; nothing where that is not worth a word: between two runs."""
    phase = text(pod, "status", "phase")
    if phase in ("Succeeded", "Failed"):
        return "done" if phase == "Succeeded" else "failed"
    if blocked := blocks(pod):
        return f"cannot start: {blocked}"
    node = text(pod, "spec", "nodeName")
    if started(pod):
        return f"running on node {node}" if _running(pod) else _between(pod)
    return f"starting on node {node}" if node else f"pending: {_unplaced(pod)}"


def _unplaced(pod: Object) -> str:
    """Why the pod has no node."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is None or scheduled.get("status") == "True":
        return "waits for the scheduler"
    if scheduled.get("reason") == "SchedulingGated":
        return "a scheduling gate holds it back"
    return f"no node for it yet: {text(scheduled, 'message') or text(scheduled, 'reason')}"


def blocks(pod: Object) -> str:
    """Why a container cannot be made, as "Reason: message"; nothing where none is in the way."""
    for _, status in containers(pod, "status"):
        waiting = part(status, "state", "waiting")
        if waiting.get("reason") in _BLOCKED:
            return said(waiting)
    return ""


def hopeless(pod: Object) -> bool:
    """Whether what is in the way stays there however long one waits."""
    return blocks(pod).startswith(HOPELESS)


def endings(pod: Object) -> Iterator[Ending]:
    """Every way in which the pod or a container of it ended without success, as far as the pod still tells."""
    target = holds(pod, "DisruptionTarget")
    for container, status in containers(pod, "status"):
        for state in (part(status, "lastState", "terminated"), part(status, "state", "terminated")):
            # A container that was ended with its pod says nothing by its exit code.
            if state and number(state, "exitCode") and target is None:
                # The same run is first the state and then the last one; its id stays, where the runtime gives one.
                key = text(state, "containerID") or text(state, "finishedAt") or str(number(status, "restartCount"))
                yield Ending(f"{uid(pod)}/{container}/{key}", name(pod), _ended(pod, container, state), number(state, "exitCode"))
    if target is not None:
        why = DISRUPTIONS.get(text(target, "reason"), f"evicted: {text(target, 'reason')}")
        message = text(target, "message")
        yield Ending(f"{uid(pod)}/disrupted", name(pod), f"{why}{message and f' ({message})'}", disrupted=True)
        return
    reason = text(pod, "status", "reason")
    if text(pod, "status", "phase") == "Failed" and reason:
        yield Ending(f"{uid(pod)}/{reason}", name(pod), _failed(pod, reason), disrupted=reason in ("Evicted", "Preempting"))


def states(pod: Object) -> dict[str, State]:
    """What its log's reader must know of each container that has run or runs."""
    found = {}
    over = text(pod, "status", "phase") in ("Succeeded", "Failed")
    again = text(pod, "spec", "restartPolicy") != "Never"
    for container, status in containers(pod, "status"):
        ended = part(status, "state", "terminated")
        if ended or part(status, "state", "running") or part(status, "lastState", "terminated"):
            for_good = bool(ended) and (not again or number(ended, "exitCode") == 0)
            found[container] = State(number(status, "restartCount"), over or for_good)
    return found


def started(pod: Object) -> bool:
    """Whether a container of the pod, of those that do its work, has run."""
    return any(
        part(status, "state", "running") or part(status, "state", "terminated") or part(status, "lastState", "terminated")
        for status in _work(pod)
    )


def runs(pod: Object) -> int:
    """How often the work of the pod was begun."""
    return 1 + max(number(status, "restartCount") for status in _work(pod)) if started(pod) else 0


def _work(pod: Object) -> list[Object]:
    """The status of each container that does the work, those that run before them left out."""
    return parts(pod, "status", "containerStatuses")


def _running(pod: Object) -> bool:
    return any(part(status, "state", "running") for status in _work(pod))


def _between(pod: Object) -> str:
    waiting = [part(status, "state", "waiting") for status in _work(pod)]
    return "waits before it starts again" if any(state.get("reason") == "CrashLoopBackOff" for state in waiting) else ""


def _ended(pod: Object, container: str, state: Object) -> str:
    code, reason = number(state, "exitCode"), text(state, "reason")
    if reason == "OOMKilled":
        limit = text(_spec(pod, container), "resources", "limits", "memory")
        return (
            f"out of memory: {container} took more than its memory limit{limit and f' of {limit}'}, and /dev/shm counts too; "
            "ask for more (--memory)"
        )
    words = [f"exit code {code}{_signal(code)}"]
    if reason not in ("", "Error", "Completed"):
        words.append(reason)
    if message := text(state, "message"):
        words.append(message if len(message) <= _LONGEST else f"…{message[-_LONGEST:]}")
    return ": ".join(words)


def _failed(pod: Object, reason: str) -> str:
    node = text(pod, "spec", "nodeName")
    message = text(pod, "status", "message")
    if reason == "UnexpectedAdmissionError":
        return f"node {node} refused it, for its device plugin could not give what was asked: {message}"
    if reason.startswith(_ADMISSION):
        return f"node {node} refused it: {reason}: {message}"
    if reason == "Evicted":
        return f"evicted: node {node} is short of room: {message}"
    return ": ".join(filter(None, (reason, message)))


def _spec(pod: Object, container: str) -> Object:
    return next((each for found, each in containers(pod, "spec") if found == container), {})


def _signal(code: int) -> str:
    """The name of the signal that an exit code above 128 stands for."""
    try:
        return f" ({signal.Signals(code - 128).name})" if code > 128 else ""
    except ValueError:
        return ""
