"""Alerts and recording rules of a cluster, generated from its settings."""

from __future__ import annotations

from typing import Any

from fleet.providers.fleet import Fleet
from fleet.render.monitoring.rules.gpu import fault_rules, use_rules, xid_rules
from fleet.render.monitoring.rules.nodes import node_rules, pod_rules
from fleet.render.monitoring.rules.plan import end_rules, spending_rules
from fleet.render.monitoring.rules.runners import machine_rules, queue_rules, set_rules, start_rules
from fleet.settings.cluster import Cluster

_TOPICS = {
    "queue": queue_rules,
    "sets": set_rules,
    "nodes": node_rules,
    "pods": pod_rules,
    "use": use_rules,
    "faults": fault_rules,
    "xid": xid_rules,
    "machines": machine_rules,
    "spending": spending_rules,
    "starts": start_rules,
}
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
