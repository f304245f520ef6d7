"""Why the pods of a Job wait: what the cluster says about them, then what the model of a stack says about their pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.facts import errors
from fleet.facts.scheduling import QUEUED_JOB_LABEL
from fleet.prove.pending import explain
from fleet.prove.pod import pod_of
from fleet.providers.fleet import Fleet
from gpu_ci.submit.errors import ApiError, InputError
from gpu_ci.submit.kueue import queue_of, suspended
from gpu_ci.submit.objects import EVENTS, JOBS, PODS, WORKLOADS, Kind, Object, name, text, uid
from gpu_ci.submit.options import DEFAULT
from gpu_ci.submit.pods import started
from gpu_ci.submit.status import JobStatus, pod_labels
from gpu_ci.submit.watch import Update, WatchStatus

if TYPE_CHECKING:
    from gpu_ci.submit.cluster import Cluster

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer about one Job or pod: lines for people, and whether it has a pod that waits, or should have one."""

    lines: tuple[str, ...]
    waits: bool


def explain_live(called: str, cluster: Cluster, fleet: Fleet | None = None, member: str | None = None) -> Waiting:
    """Explain a Job, or a pod, of a namespace. With a `fleet` its model judges the pod too; `member` is the cluster's name there.

    Raises ApiError if there is neither, and InputError for a cluster that the fleet does not have.
    """
    job, pods = _objects(called, cluster)
    open_pods = [pod for pod in pods if text(pod, "status", "phase") not in _ENDED]
    ended = JobStatus(job, DEFAULT).ended if job else not open_pods
    waits = not ended and not any(started(pod) for pod in open_pods)
    lines = list(_seen(job, pods, cluster))
    if waits and fleet is not None:
        lines += _modelled(open_pods[0] if open_pods else job, fleet, member)
    elif waits:
        lines.append("pass --stack to compare the pod with the pools of its stack")
    return Waiting(tuple(lines), waits)


def _objects(called: str, cluster: Cluster) -> tuple[Object, list[Object]]:
    """(Job, its pods), or (nothing, the pod of that name)."""
    try:
        job = cluster.get(JOBS, called)
    except ApiError as error:
        if error.code != 404:
            raise
        return {}, [cluster.get(PODS, called)]
    labels = ",".join(f"{key}={value}" for key, value in pod_labels(job).items())
    return job, cluster.list(PODS, {"labelSelector": labels})[0]


def _seen(job: Object, pods: list[Object], cluster: Cluster) -> Iterator[str]:
    """What the cluster says, in the words in which `follow` shows it."""
    status = JobStatus(job, DEFAULT)
    notes = []
    if job and (queue_of(job) or suspended(job)):
        notes += status.learn(_listed(cluster, WORKLOADS, f"{QUEUED_JOB_LABEL}={uid(job)}"), 0)
    notes += status.learn(Update(PODS, "listed", tuple(pods)), 0)
    for thing in filter(None, (job, *pods)):
        try:
            events, _ = cluster.list(EVENTS, {"fieldSelector": f"involvedObject.uid={uid(thing)}"})
        except ApiError as error:
            notes += status.learn(WatchStatus(EVENTS, error), 0)
            break
        notes += status.learn_events(uid(thing), events)
    yield from (f"{note.who or name(job)}: {note.text}" for note in notes)
    if job:
        yield from _preempted(name(job), cluster)


def _listed(cluster: Cluster, kind: Kind, selector: str) -> Update | WatchStatus:
    """The objects of a kind, or why they cannot be read."""
    try:
        return Update(kind, "listed", tuple(cluster.list(kind, {"labelSelector": selector})[0]))
    except ApiError as error:
        return WatchStatus(kind, error)


def _preempted(job: str, cluster: Cluster) -> Iterator[str]:
    """Pods of the Job that gave their place to others. They are deleted, so only their events remain."""
    try:
        events, _ = cluster.list(EVENTS, {"fieldSelector": "reason=Preempted"})
    except ApiError:
        return
    for event in events:
        if (pod := text(event, "involvedObject", "name")).startswith(f"{job}-"):
            yield f"{pod}: preempted: {text(event, 'message')}"


def _modelled(thing: Object, fleet: Fleet, member: str | None) -> Iterator[str]:
    try:
        pod = pod_of(f"{text(thing, 'kind')} {name(thing)}", thing)
        yield from explain(fleet, pod, member).lines() if pod is not None else ()
    except errors.InputError as error:
        raise InputError(str(error)) from None
