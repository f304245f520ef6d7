"""Last good days: a series for each thing that ends, and alerts before its day. They need no plan and no network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time

from fleet.prove.ends import of_cluster
from fleet.render.monitoring.rules.rule import Rule, alert, record
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub

DAY = 86_400
END = "gpu_ci:end_timestamp_seconds"
"""Start of the last good day, in UTC. `known` is "no" for a runner whose next release is not in our table: its day is the
earliest possible one."""


def end_rules(cluster: Cluster, github: GitHub) -> Iterator[Rule]:
    """The series of a cluster, and its alerts 14 and 3 days before; 9 and 3 days where the day is only possible."""
    # Every release in our table counts: a rendered rule must not depend on the day on which it is rendered.
    lives = dict.fromkeys(use.life for use in of_cluster(cluster, github, date.max))
    for life in lives:
        day = life.last or life.may_end
        if day is not None:
            start = int(datetime.combine(day, time(), UTC).timestamp())
            yield record(END, f"vector({start})", what=life.what, known="yes" if life.last else "no")
    for known, days in (("yes", 14), ("no", 9)):
        yield alert("GpuCiVersionEndsSoon", f'{END}{{known="{known}"}} - time() <= {days * DAY}', known=known)
    yield alert("GpuCiVersionEndsNow", f"{END} - time() <= {3 * DAY}")
