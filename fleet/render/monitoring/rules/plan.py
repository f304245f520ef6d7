"""What a plan knows before: reservations that end, spending above the plan, and last good days of versions.

The series and alerts of last good days need no plan and no network.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time

from fleet.prove.ends import of_cluster
from fleet.render.monitoring.rules.rule import Rule, alert, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub


def spending_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """An alert for each reservation whose end the settings have, and one for the whole cluster."""
    for name, pool in cluster.pools.items():
        if pool.reservation is not None and (last_day := pool.reservation.last_day) is not None:
            end = datetime.fromisoformat(last_day).replace(tzinfo=UTC)
            start = int(end.timestamp()) - alerts.reservation_notice
            yield alert("GpuCiReservationEnds", labels={"pool": name}, start=start, day=last_day)
    yield alert("GpuCiSpendingAbovePlan")


def end_rules(cluster: Cluster, github: GitHub) -> Iterator[Rule]:
    """The series of a cluster, and its alerts 14 and 3 days before; 9 and 3 days where the day is only possible."""
    # Every release in our table counts: a rendered rule must not depend on the day on which it is rendered.
    lives = dict.fromkeys(use.life for use in of_cluster(cluster, github, date.max))
    for life in lives:
        day = life.last or life.may_end
        if day is not None:
            start = int(datetime.combine(day, time(), UTC).timestamp())
            labels = {"what": life.what, "known": "yes" if life.last else "no"}
            yield record("gpu_ci:end_timestamp_seconds", labels=labels, start=start)
    for known, days in (("yes", 14), ("no", 9)):
        yield alert("GpuCiVersionEndsSoon", labels={"known": known}, seconds=days * 86_400)
    yield alert("GpuCiVersionEndsNow")
