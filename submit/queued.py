"""What a Job that is held back waits for: Kueue's Workload says it, where there is one."""

from __future__ import annotations

from fleet.facts.scheduling import QUEUE_LABEL
from submit.errors import ApiError, SubmitError
from submit.objects import Object, condition, holds, parts, said, text

_UNSEEN = "Kueue has not looked at it yet"


def queue_of(job: Object) -> str:
    """The LocalQueue that a Job names; nothing where it names none."""
    return text(job, "metadata", "labels", QUEUE_LABEL)


def suspended(job: Object) -> bool:
    """Whether the Job is held back: its pods are not made."""
    found = job.get("spec")
    return isinstance(found, dict) and found.get("suspend") is True


def waits_for(job: Object, workload: Object | None, barred: SubmitError | None) -> str:
    """Why a suspended Job waits. `barred`: why Workloads cannot be read."""
    queue = queue_of(job)
    if not queue and workload is None:
        return "suspended: it starts when somebody sets its spec.suspend to false"
    if isinstance(barred, ApiError) and barred.code == 404:
        return f"suspended for queue {queue}, and the cluster has no Kueue to start it"
    if workload is None:
        why = "there is no right to read why" if barred else _UNSEEN
    elif (evicted := holds(workload, "Evicted")) is not None:
        why = f"evicted: {said(evicted)}"
    else:
        why = _unadmitted(workload)
    return f"queued{f' in {queue}' if queue else ''}: {why}"


def _unadmitted(workload: Object) -> str:
    """What keeps a Workload from running: quota, or checks after it."""
    quota = condition(workload, "QuotaReserved")
    if quota is None or quota.get("status") != "True":
        return said(quota) if quota else _UNSEEN
    checks = [f"{text(check, 'name')} ({text(check, 'state')})" for check in parts(workload, "status", "admissionChecks")]
    reserved = f"it has its quota of {text(workload, 'status', 'admission', 'clusterQueue')}"
    return f"{reserved} and waits for {', '.join(checks)}" if checks else f"{reserved} and is about to start"


def admitted(workload: Object | None) -> str:
    """That Kueue lets the Job run, and by which cluster queue; nothing while it does not."""
    if workload is None or holds(workload, "Admitted") is None:
        return ""
    return f"admitted by {text(workload, 'status', 'admission', 'clusterQueue')}"
