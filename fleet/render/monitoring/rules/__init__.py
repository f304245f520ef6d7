"""Alerts and recording rules of a cluster, generated from its settings.

The rules about what a plan knows in advance are here: reservations that end, spending above the plan, and last good days of
versions. They need no network.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

from fleet.prove.ends import of_cluster
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.rules.nodes import fault_rules, node_rules, pod_rules, use_rules, xid_rules
from fleet.render.monitoring.rules.rule import Rule, alert, record
from fleet.render.monitoring.rules.runners import container_rules, machine_rules, queue_rules, set_rules, start_rules
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub


def spending_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """An alert for each reservation whose end the settings have, and one for the whole cluster."""
    for name, pool in cluster.pools.items():
        if pool.reservation is not None and (last_day := pool.reservation.last_day) is not None:
            start = int(datetime.fromisoformat(last_day).replace(tzinfo=UTC).timestamp()) - alerts.reservation_notice
            yield alert("GpuCiReservationEnds", labels={"pool": name}, start=start, day=last_day)
    yield alert("GpuCiSpendingAbovePlan")


def end_rules(cluster: Cluster, github: GitHub) -> Iterator[Rule]:
    """The series of a cluster, and its alerts 14 and 3 days before; 9 and 3 days where the day is only possible."""
    # Every release in our table counts: a rendered rule must not depend on the day on which it is rendered.
    for life in dict.fromkeys(use.life for use in of_cluster(cluster, github, date.max)):
        if (day := life.last or life.may_end) is not None:
            start = int(datetime.combine(day, time(), UTC).timestamp())
            labels = {"what": life.what, "known": "yes" if life.last else "no"}
            yield record("gpu_ci:end_timestamp_seconds", labels=labels, start=start)
    for known, days in (("yes", 14), ("no", 9)):
        yield alert("GpuCiVersionEndsSoon", labels={"known": known}, seconds=days * 86_400)
    yield alert("GpuCiVersionEndsNow")


_OF_RUNNERS = {"queue": queue_rules, "sets": set_rules, "containers": container_rules}
_OF_NODES = {"nodes": node_rules, "pods": pod_rules, "use": use_rules, "faults": fault_rules, "xid": xid_rules}
_TOPICS = _OF_RUNNERS | _OF_NODES | {"machines": machine_rules, "spending": spending_rules, "starts": start_rules}
"""The rules of each topic. Those of `use` read series that those of `nodes` record, and those of `machines` series of `queue`."""


def rule_groups(fleet: Fleet, cluster_name: str) -> list[dict[str, Any]]:
    """The groups of a PrometheusRule, as plain data. None for a cluster without monitoring.

    Every rule is about something that the cluster has. Every alert has the label `severity`. Alertmanager also sees `cluster`,
    an external label of Prometheus, so a rule does not set it.
    """
    cluster: Cluster = fleet.clusters[cluster_name]
    if cluster.monitoring is None:
        return []
    rules = {topic: list(rules_of(cluster, cluster.monitoring.alerts)) for topic, rules_of in _TOPICS.items()}
    rules["ends"] = list(end_rules(cluster, fleet.github))
    # Prometheus evaluates the rules of a group in order.
    return [{"name": f"gpu-ci-{topic}", "interval": "1m", "rules": listed} for topic, listed in rules.items() if listed]
