"""Why a suspended Job waits. The source is Kueue's Workload object, if there is one."""

from __future__ import annotations

from fleet.facts.scheduling import QUEUE_LABEL
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.objects import Object, at, condition, explanation, parts, text, true_condition

_UNSEEN = "Kueue has not processed it yet"


def queue_of(job: Object) -> str:
    """The LocalQueue of a Job; empty if it has none."""
    return text(job, "metadata", "labels", QUEUE_LABEL)


def suspended(job: Object) -> bool:
    """Whether the Job controller creates no pods for now."""
    return at(job, "spec", "suspend") is True


def waits_for(job: Object, workload: Object | None, refused: SubmitError | None) -> str:
    """Why a suspended Job waits. `refused`: why Workloads cannot be read."""
    queue = queue_of(job)
    if not queue and workload is None:
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
