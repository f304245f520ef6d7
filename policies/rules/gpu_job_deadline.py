"""gpu-job-deadline: a Job that takes GPUs has a deadline, is deleted when it is finished, and has a retry limit.

Judged: Jobs and CronJobs, their Patch variants and lists. ARC's runners are not Jobs: GitHub ends the jobs that they run.

The Job's `activeDeadlineSeconds` covers all its retries. The pod's field of the same name covers one try. Without
`backoffLimit` Kubernetes retries a Job six times, or without end if it has `backoffLimitPerIndex` (Kubernetes API reference,
JobSpec). A Job with an annotation of ArgoCD (`argocd.argoproj.io/…`) or Pulumi (`pulumi.com/…`) need not be deleted, because they
would create it again and so run it again. A finished Job has no node.
"""

from functools import partial

from .kinds import POD, fields, kind_of
from .pods import PodSpec, of_gpu_pods
from .read import Later, bound, keys, shown, walk, whole
from .record import steps
from .rule import Args, Mendings, Rule, facts, mending, setting

_SPECS = {"Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
JOBS = frozenset(token for token in POD if kind_of(token) in _SPECS)
_DECLARED = ("argocd.argoproj.io/", "pulumi.com/")
"""How the annotations begin that only a tool with a declared state reads."""


_TTL = "ttlSecondsAfterFinished"
_FIELDS = fields("job_limits")
"""Fields of a Job, each with the config property for its largest value, the API's least value, and what it means."""


def _faults(pod: PodSpec, args: Args, later: Later) -> Mendings:
    """A remedy adds missing fields, and no `backoffLimit` to a Job that counts retries per index. It keeps existing values."""
    path, config = _SPECS[kind_of(args.type)], args.config
    for name, (limit, least, meaning) in _FIELDS.items():
        with later:
            if (value := walk(pod.owner, *path, name)) is None and name == _TTL and _recreated(pod, path):
                continue
            most, number = bound(config, limit), whole(value)
            if number is None or not least <= number <= most:
                where, per_index = (
                    f"{pod.owner_path}{'.'.join(path)}.{name}",
                    partial(walk, pod.owner, *path, "backoffLimitPerIndex"),
                )
                keeps = value is not None or (name == "backoffLimit" and Later().get(per_index, True) is not None)
                fault = f"{where} is {shown(value)}: {meaning.format(most)} ({setting(limit)}); write {most} or less"
                yield fault, {} if keeps else {steps(where): most}


def _recreated(pod: PodSpec, path: tuple[str, ...]) -> bool:
    """Whether ArgoCD or Pulumi would create this Job again after its deletion. Raises UnknownError."""
    return path == _SPECS["Job"] and any(key.startswith(_DECLARED) for key in keys(walk(pod.owner, "metadata", "annotations")))


RULE = Rule(**facts(__name__), types=JOBS, **mending(of_gpu_pods(_faults)))
