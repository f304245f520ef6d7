"""Money: reservations that end, spending above the plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from fleet.render.monitoring.rules.rule import Rule, alert
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster


def spending_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """An alert for each reservation whose end the settings have, and one for the whole cluster."""
    for name, pool in cluster.pools.items():
        if pool.reservation is not None and (last_day := pool.reservation.last_day) is not None:
            end = datetime.fromisoformat(last_day).replace(tzinfo=UTC)
            yield alert(
                "GpuCiReservationEnds",
                f"vector(time()) >= {int(end.timestamp()) - alerts.reservation_notice}",
                text={"day": last_day},
                pool=name,
            )
    # A cent more than the plan: sums of floats are not exact.
    spent = "sum(gpu_ci:node_usd_per_hour) + sum(gpu_ci:shared_usd_per_hour)"
    yield alert("GpuCiSpendingAbovePlan", f"{spent} > sum(gpu_ci:planned_worst_usd_per_hour) + 0.01")
