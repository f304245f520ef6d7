"""The sweeps of a cluster."""

from __future__ import annotations

from fleet.charts.sweeps import REAPER, sweep_pods
from fleet.render.sweeps.sweep import Sweep
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner

IDLE = 900
"""Seconds for which a runner may wait for a job, if its class keeps none ready: ARC starts it because a job waits."""


def sweeps(cluster: Cluster) -> tuple[Sweep, ...]:
    """The sweeps of a cluster, as `sweep_pods` counts them."""
    made = {REAPER.name: reaper(cluster)}
    return tuple(made[pod.name] for pod in sweep_pods(cluster))


def reaper(cluster: Cluster) -> Sweep:
    """Deletes EphemeralRunners of the cluster's pod runners.

    Launchers of OCI machines are no part of it: each has the lifetime of its own machine, and a new launcher pod may use the
    registration again.
    """
    runners = {runner_namespace(name): each for name, each in cluster.runners.items() if isinstance(each, PodRunner)}
    limits = {
        namespace: {"lifetime": each.max_lifetime} | ({} if each.scale.min else {"idle": IDLE})
        for namespace, each in runners.items()
    }
    return Sweep(
        REAPER,
        "reaper",
        {"limits": limits},
        cluster_rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
        rules=[
            {"apiGroups": ["actions.github.com"], "resources": ["ephemeralrunners"], "verbs": ["list", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        ],
        namespaces=tuple(runners),
    )
