"""Xid errors, which NVIDIA's driver reports for a GPU, by NVIDIA's table.

DCGM_FI_DEV_XID_ERRORS is not used: it keeps the last code until the exporter restarts, and each code is a series of its own.
DCGM_EXP_XID_ERRORS_COUNT counts the last five minutes, so it clears. It is a count over a window and takes no rate().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.facts.xid import APPLICATION, FATAL, UNCLEAR, XIDS
from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import Rule, alert, one_of, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_ERRORS = "max by (kubernetes_node, gpu, xid, exported_namespace, exported_pod) (DCGM_EXP_XID_ERRORS_COUNT)"


def xid_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The table as series, and alerts that join it, so each has the meaning of its code.

    There are none for a cluster without metrics of GPUs.
    """
    if not (cluster.pools or provider_of(cluster).gateway(cluster)):
        return
    for xid in XIDS.values():
        labels = {"xid": xid.code, "meaning": xid.meaning, "category": xid.category}
        yield record("gpu_ci:xid_info", "vector(1)", **labels, **({"action": xid.action} if xid.action else {}))
    yield _xid("GpuCiXidFatal", FATAL)
    yield _xid("GpuCiXidApplication", APPLICATION)
    yield _xid("GpuCiXidUnclear", UNCLEAR)
    yield alert("GpuCiXidUnknown", f"{_ERRORS} > 0 unless on (xid) gpu_ci:xid_info")


def _xid(name: str, categories: Iterable[str]) -> Rule:
    info = f'gpu_ci:xid_info{{category=~"{one_of(categories)}"}}'
    expr = f"{_ERRORS} * on (xid) group_left (meaning, action) {info} > 0"
    return alert(name, expr)
