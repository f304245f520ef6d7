"""Use of GPUs: utilization, memory, GPUs that are allocated and idle.

Every series has `kubernetes_node`, `gpu` and `pool`. `exported_namespace` and `exported_pod` name the pod that holds the GPU, and
are empty on a free GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.render.monitoring.rules.rule import Rule, alert, one_of, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE, runner_namespace

_GPU = "kubernetes_node, gpu, exported_namespace, exported_pod"
_WITH_POOL = "* on (kubernetes_node) group_left (pool) gpu_ci:node_pool"


def use_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of how GPUs are used; none for a cluster without pools."""
    if not cluster.pools:
        return
    # Profiling fields exist on data-center GPUs, and count MIG instances. GPU_UTIL exists on all others.
    active = f"(max by ({_GPU}) (DCGM_FI_PROF_GR_ENGINE_ACTIVE) or max by ({_GPU}) (DCGM_FI_DEV_GPU_UTIL) / 100)"
    used, all_of = f"sum by ({_GPU}) (DCGM_FI_DEV_FB_USED)", f"sum by ({_GPU}) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"
    yield record("gpu_ci:gpu_utilization", f"{active} {_WITH_POOL}")
    yield record("gpu_ci:gpu_memory_used_ratio", f"{used} / {all_of} {_WITH_POOL}")
    allocated = f'count by ({_GPU}, pool) (gpu_ci:gpu_utilization{{exported_pod!=""}})'
    yield record("gpu_ci:gpu_allocated", f"{allocated} or 0 * gpu_ci:gpu_utilization")
    seconds, busy = alerts.idle_for, _expected_idle(cluster)
    all_gpus, taken_gpus = (
        f"gpu_ci:gpu_utilization{{{', '.join(matchers)}}}" for matchers in (busy, ['exported_pod!=""', *busy])
    )
    # With `offset` a pod counts only after it has held the GPU for the whole time.
    yield alert(
        "GpuCiGpuIdle",
        f"avg_over_time({taken_gpus}[{seconds}s]) < {alerts.idle_below:g} and gpu_ci:gpu_utilization offset {seconds}s",
        text={"share": f"{alerts.idle_below:.0%}", "seconds": seconds},
    )
    yield alert(
        "GpuCiGpuMemoryHeld",
        f"max_over_time({all_gpus}[{seconds}s]) == 0 "
        f"and gpu_ci:gpu_utilization offset {seconds}s and on ({_GPU}) {used} > {alerts.memory_floor}",
        text={"seconds": seconds, "floor": alerts.memory_floor},
    )


def _expected_idle(cluster: Cluster) -> list[str]:
    """Matchers that leave out what may hold an idle GPU: waiting runners, placeholders, and workloads that keep running."""
    spaces = [runner_namespace(name) for name, runner in cluster.runners.items() if runner.span.min]
    spaces += [PLACEHOLDER_NAMESPACE] * cluster.has_placeholders
    standing = [name for name, workload in cluster.workloads.items() if workload.stands]
    return [f'exported_namespace!~"{one_of(spaces)}"'] * bool(spaces) + [f'exported_pod!~"({one_of(standing)})-.+"'] * bool(
        standing
    )
