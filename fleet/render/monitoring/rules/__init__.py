"""Alerts and recording rules of a cluster, generated from its settings."""

from __future__ import annotations

from typing import Any

from fleet.providers.fleet import Fleet
from fleet.render.monitoring.rules.ends import end_rules
from fleet.render.monitoring.rules.faults import fault_rules
from fleet.render.monitoring.rules.gpu import use_rules
from fleet.render.monitoring.rules.machines import machine_rules
from fleet.render.monitoring.rules.nodes import node_rules
from fleet.render.monitoring.rules.pods import pod_rules
from fleet.render.monitoring.rules.queue import queue_rules
from fleet.render.monitoring.rules.rule import group
from fleet.render.monitoring.rules.sets import set_rules
from fleet.render.monitoring.rules.spending import spending_rules
from fleet.render.monitoring.rules.starts import start_rules
from fleet.render.monitoring.rules.xid import xid_rules
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
    topics = [
        rules_group for topic, rules in _TOPICS.items() for rules_group in group(topic, rules(cluster, cluster.monitoring.alerts))
    ]
    return [*topics, *group("ends", end_rules(cluster, fleet.github))]
