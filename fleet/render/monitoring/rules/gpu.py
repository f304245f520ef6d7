"""GPUs: utilization, memory, idle GPUs, ECC errors, row remaps, temperature, throttling, and Xid errors by NVIDIA's table.

Every series of use has `kubernetes_node`, `gpu` and `pool`. `exported_namespace` and `exported_pod` name the pod that holds the
GPU, and are empty on a free GPU.
"""

from collections.abc import Iterator

from fleet.facts.xid import APPLICATION, FATAL, UNCLEAR, XIDS
from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import Rule, alert, one_of, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE, runner_namespace


def use_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of how GPUs are used; none for a cluster without pools."""
    if not cluster.gpu_pools:
        return
    yield from map(record, ("gpu_ci:gpu_utilization", "gpu_ci:gpu_memory_used_ratio", "gpu_ci:gpu_allocated"))
    seconds, busy = alerts.idle_for, _expected_idle(cluster)
    taken = ", ".join(('exported_pod!=""', *busy))
    share = f"{alerts.idle_below:.0%}"
    yield alert("GpuCiGpuIdle", matchers=taken, seconds=seconds, below=f"{alerts.idle_below:g}", share=share)
    yield alert("GpuCiGpuMemoryHeld", matchers=", ".join(busy), seconds=seconds, floor=alerts.memory_floor)


def _expected_idle(cluster: Cluster) -> list[str]:
    """Matchers that leave out what may hold an idle GPU: waiting runners, placeholders, and workloads that keep running."""
    spaces = [runner_namespace(name) for name, runner in cluster.runners.items() if runner.span.min]
    spaces += [PLACEHOLDER_NAMESPACE] * cluster.has_placeholders
    standing = [name for name, workload in cluster.workloads.items() if workload.stands]
    patterns = {"exported_namespace": one_of(spaces), "exported_pod": f"({one_of(standing)})-.+" if standing else ""}
    return [f'{label}!~"{pattern}"' for label, pattern in patterns.items() if pattern]


def fault_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of faulty GPUs; none for a cluster without metrics of GPUs."""
    if cluster.gpu_pools or provider_of(cluster).gateway(cluster):
        yield from map(alert, ("GpuCiEccUncorrectable", "GpuCiRowsRemapped", "GpuCiRowRemapFailed"))
        yield alert("GpuCiGpuHot", limit=alerts.temperature)
        yield alert("GpuCiGpuThrottled")


def xid_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """NVIDIA's table of Xid errors as series, and alerts that join it, so each has the meaning of its code.

    There are none for a cluster without metrics of GPUs.
    DCGM_FI_DEV_XID_ERRORS is not used: it keeps the last code until the exporter restarts, and each code is a series of its own.
    DCGM_EXP_XID_ERRORS_COUNT counts the last five minutes, so it clears. It is a count over a window and takes no rate().
    """
    if not (cluster.gpu_pools or provider_of(cluster).gateway(cluster)):
        return
    for xid in XIDS.values():
        labels = {"xid": xid.code, "meaning": xid.meaning, "category": xid.category}
        yield record("gpu_ci:xid_info", labels=labels | ({"action": xid.action} if xid.action else {}))
    for name, categories in (("Fatal", FATAL), ("Application", APPLICATION), ("Unclear", UNCLEAR)):
        yield alert(f"GpuCiXid{name}", categories=one_of(categories))
    yield alert("GpuCiXidUnknown")
