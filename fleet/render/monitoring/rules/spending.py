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
                "warning",
                f"vector(time()) >= {int(end.timestamp()) - alerts.reservation_notice}",
                0,
                f"The reservation of pool {name} ends on {last_day}",
                "Its nodes do not start after that day.",
                pool=name,
            )
    # A cent more than the plan: sums of floats are not exact.
    spent = "sum(gpu_ci:node_usd_per_hour) + sum(gpu_ci:shared_usd_per_hour)"
    yield alert(
        "GpuCiSpendingAbovePlan",
        "warning",
        f"{spent} > sum(gpu_ci:planned_worst_usd_per_hour) + 0.01",
        900,
        "The cluster costs more than its plan allows",
        "The running nodes cost more per hour than the worst case of `python -m gpu_ci plan`.",
    )
