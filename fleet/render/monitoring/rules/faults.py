"""Faults of GPUs: ECC errors, row remaps, temperature, throttling. `xid.py` has NVIDIA's error codes."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import Rule, alert, one_of
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_GPU = "kubernetes_node, gpu"
_SLOWED = ("hw_slowdown", "hw_thermal", "sw_thermal", "hw_power_brake")
"""Clock events that slow a GPU because something is wrong. `gpu_idle` and `power_cap` are normal."""


def fault_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of faulty GPUs; none for a cluster without metrics of GPUs."""
    if not (cluster.pools or provider_of(cluster).gateway(cluster)):
        return
    yield from _memory()
    yield alert(
        "GpuCiGpuHot", f"max by ({_GPU}) (DCGM_FI_DEV_GPU_TEMP) > {alerts.temperature}", text={"limit": alerts.temperature}
    )
    yield alert(
        "GpuCiGpuThrottled", f'max by ({_GPU}, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"{one_of(_SLOWED)}"}}) > 0'
    )


def _memory() -> Iterator[Rule]:
    """Errors of GPU memory. The series of a GPU changes with its pod, so the maximum comes before increase()."""
    yield alert("GpuCiEccUncorrectable", f"increase(max by ({_GPU}) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL)[1h:1m]) > 0")
    yield alert("GpuCiRowsRemapped", f"increase(max by ({_GPU}) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS)[1h:1m]) > 0")
    yield alert("GpuCiRowRemapFailed", f"max by ({_GPU}) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0")
