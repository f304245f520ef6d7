"""Why the pods of a Job wait: what the cluster says about them, then what the model of a stack says about their pool."""

from collections.abc import Iterator

from fleet.prove.pending import explain
from fleet.prove.pod import pod_of
from fleet.providers.fleet import Fleet
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.objects import EVENTS, JOBS, PODS, Object, name, text, uid
from gpu_ci.submit.pods import started
from gpu_ci.submit.runs import DEFAULT
from gpu_ci.submit.status import JobStatus, Reader, Seen


def explain_live(title: str, cluster: Cluster, fleet: Fleet | None = None, member: str | None = None) -> tuple[list[str], bool]:
    """Explain a Job, or a pod, of a namespace. With a `fleet` its model judges the pod too; `member` is the cluster's name there.

    Gives lines for people, and whether it has a pod that waits, or should have one. Raises ApiError if there is neither, and
    InputError for a cluster that the fleet does not have.
    """
    reader = Reader(cluster)
    job, looks = _objects(title, reader)
    open_pods = [pod for pod in looks.pods if text(pod, "status", "phase") not in ("Succeeded", "Failed")]
    waits = not (JobStatus(job, DEFAULT).ended if job else not open_pods) and not any(started(pod) for pod in open_pods)
    lines = list(_seen(job, looks, reader))
    if waits and fleet is not None:
        thing = open_pods[0] if open_pods else job
        pod = pod_of(f"{text(thing, 'kind')} {name(thing)}", thing)
        lines += explain(fleet, pod, member).lines() if pod is not None else ()
    elif waits:
        lines.append("pass --stack to compare the pod with the pools of its stack")
    return lines, waits


def _objects(title: str, reader: Reader) -> tuple[Object, Seen]:
    """(Job, what is seen of it), or (nothing, the pod of that name)."""
    if (job := reader.cluster.find(JOBS, title)) is None:
        return {}, Seen({}, [reader.cluster.get(PODS, title)])
    return job, reader.look(job)


def _seen(job: Object, looks: Seen, reader: Reader) -> Iterator[str]:
    """What the cluster says, in the words in which `follow` shows it."""
    status = JobStatus(job, DEFAULT, reader.refused)
    notes = status.learn(looks, 0)
    for thing in filter(None, (job, *looks.pods)):
        notes += status.learn_events(uid(thing), reader.events(uid(thing)))
    yield from (f"{note.who or name(job)}: {note.text}" for note in notes)
    if job:
        # Pods that gave their place to others are deleted, so only their events remain.
        for event in reader.listed(EVENTS, "fieldSelector", "reason=Preempted"):
            if (pod := text(event, "involvedObject", "name")).startswith(f"{name(job)}-"):
                yield f"{pod}: preempted: {text(event, 'message')}"
