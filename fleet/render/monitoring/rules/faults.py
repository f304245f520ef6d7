"""Faults of GPUs: Xid errors, ECC errors, row remaps, temperature, throttling.

DCGM_FI_DEV_XID_ERRORS is not used: it keeps the last code until the exporter restarts, and each code is a series of its own.
DCGM_EXP_XID_ERRORS_COUNT counts the last five minutes, so it clears. It is a count over a window and takes no rate().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.facts.xid import APPLICATION, FATAL, UNCLEAR, XIDS
from fleet.render.monitoring.rules.rule import Rule, Severity, alert, one_of, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_GPU = "kubernetes_node, gpu"
_BY_XID = f"max by ({_GPU}, xid, exported_namespace, exported_pod)"
_HERE = "GPU {{ $labels.gpu }} of {{ $labels.kubernetes_node }}"
_SLOWED = ("hw_slowdown", "hw_thermal", "sw_thermal", "hw_power_brake")
"""Clock events that slow a GPU because something is wrong. `gpu_idle` and `power_cap` are normal."""


def fault_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of faulty GPUs; none for a cluster without pools."""
    if not cluster.pools:
        return
    yield from _xids()
    yield from _memory()
    yield alert(
        "GpuCiGpuHot",
        "warning",
        f"max by ({_GPU}) (DCGM_FI_DEV_GPU_TEMP) > {alerts.temperature}",
        600,
        f"{_HERE} is hot",
        f"Its temperature was above {alerts.temperature} °C for 10 minutes.",
    )
    yield alert(
        "GpuCiGpuThrottled",
        "warning",
        f'max by ({_GPU}, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"{one_of(_SLOWED)}"}}) > 0',
        600,
        f"{_HERE} is slowed down: {{{{ $labels.clock_event }}}}",
        "Heat or the power supply lowers its clock for more than 10 minutes.",
    )


def _xids() -> Iterator[Rule]:
    """NVIDIA's table as series, and the alerts that join it: so each alert has the meaning of its code."""
    for xid in XIDS.values():
        labels = {"xid": xid.code, "meaning": xid.meaning, "category": xid.category}
        yield record("gpu_ci:xid_info", "vector(1)", **labels, **({"action": xid.action} if xid.action else {}))
    what = f"Xid {{{{ $labels.xid }}}} on {_HERE}"
    meaning = "{{ $labels.meaning }}. NVIDIA's action: {{ $labels.action }}."
    yield _xid("GpuCiXidFatal", "critical", FATAL, what, meaning)
    # The fault is in the job's program and the GPU is healthy, so nobody is paged.
    yield _xid("GpuCiXidApplication", "info", APPLICATION, what, meaning + " Pod: {{ $labels.exported_pod }}.")
    yield _xid("GpuCiXidUnclear", "warning", UNCLEAR, what, "{{ $labels.meaning }}. The kernel log has the details.")
    yield alert(
        "GpuCiXidUnknown",
        "warning",
        f"{_BY_XID} (DCGM_EXP_XID_ERRORS_COUNT) > 0 unless on (xid) gpu_ci:xid_info",
        0,
        what,
        "NVIDIA's catalog does not have the code. The kernel log has the details.",
    )


def _xid(name: str, severity: Severity, categories: Iterable[str], summary: str, description: str) -> Rule:
    info = f'gpu_ci:xid_info{{category=~"{one_of(categories)}"}}'
    expr = f"{_BY_XID} (DCGM_EXP_XID_ERRORS_COUNT) * on (xid) group_left (meaning, action) {info} > 0"
    return alert(name, severity, expr, 0, summary, description)


def _memory() -> Iterator[Rule]:
    """Errors of GPU memory. The series of a GPU changes with its pod, so the maximum comes before increase()."""
    yield alert(
        "GpuCiEccUncorrectable",
        "critical",
        f"increase(max by ({_GPU}) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL)[1h:1m]) > 0",
        0,
        f"{_HERE} has uncorrectable memory errors",
        "A double-bit ECC error happened in the last hour. The results of jobs on the GPU may be wrong.",
    )
    yield alert(
        "GpuCiRowsRemapped",
        "warning",
        f"increase(max by ({_GPU}) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS)[1h:1m]) > 0",
        0,
        f"{_HERE} replaces rows of its memory",
        "The GPU marked a row of its memory as bad in the last hour. The remap takes effect at the next reset.",
    )
    yield alert(
        "GpuCiRowRemapFailed",
        "critical",
        f"max by ({_GPU}) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0",
        0,
        f"{_HERE} has no spare rows of memory",
        "The GPU could not replace a bad row of its memory. NVIDIA replaces such GPUs.",
    )
