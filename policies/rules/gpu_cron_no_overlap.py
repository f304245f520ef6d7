"""gpu-cron-no-overlap: a CronJob that takes GPUs starts no run while an earlier run is still active.

Judged: CronJobs of every API version, their Patch variants and lists. Without `concurrencyPolicy` Kubernetes allows runs to
overlap (API reference, CronJobSpec).
"""

from .kinds import POD, kind_of
from .pods import PodSpec, of_gpu_pods
from .read import Faults, Later, shown, text, walk
from .rule import Args, Rule, facts

CRON_JOBS = frozenset(token for token in POD if kind_of(token) == "CronJob")


def _faults(pod: PodSpec, _: Args, later: Later) -> Faults:
    with later:
        policy = walk(pod.owner, "spec", "concurrencyPolicy")
        if text(policy) not in ("Forbid", "Replace"):
            yield (
                f"{pod.owner_path}spec.concurrencyPolicy is {shown(policy)}: if a run takes longer than the schedule's "
                "interval, a second run starts and takes more GPUs; write Forbid, or Replace to end the earlier run"
            )


RULE = Rule(**facts(__name__), types=CRON_JOBS, check=of_gpu_pods(_faults))
