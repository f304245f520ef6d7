"""gpu-cron-no-overlap: a CronJob that takes GPUs starts no run while an earlier run is still active.

Judged: CronJobs of every API version, their Patch variants and lists. Without `concurrencyPolicy` Kubernetes allows runs to
overlap (API reference, CronJobSpec).
"""

from .kinds import POD, kind_of
from .pods import PodSpec, of_gpu_pods
from .read import Faults, Later, text, walk
from .rule import Args, Rule, facts, said

CRON_JOBS = frozenset(token for token in POD if kind_of(token) == "CronJob")


def _faults(pod: PodSpec, _: Args, later: Later) -> Faults:
    with later:
        if text(policy := walk(pod.owner, "spec", "concurrencyPolicy")) not in ("Forbid", "Replace"):
            yield said("cron_overlap", pod=pod, policy=policy)


RULE = Rule(**facts(__name__), types=CRON_JOBS, check=of_gpu_pods(_faults))
