"""The sweeps of a cluster."""

from __future__ import annotations

from fleet.charts.arc import place_in
from fleet.charts.sweeps import QUARANTINE, REAPER, SCHEDULER, sweep_pods
from fleet.facts.scheduling import HEALTH_ANNOTATION, QUARANTINE_TAINT, STARTUP_GATE
from fleet.facts.xid import ENGINE_LOST, HEALTHY
from fleet.render.sweeps.sweep import Sweep
from fleet.settings.cluster import Cluster
from fleet.settings.health import MISSING_FOR, Health
from fleet.settings.namespaces import runner_namespace

IDLE = 900
"""Seconds for which a runner may wait for a job, while its set has the minimum 0: then ARC starts it because a job waits."""
_READ = ["list", "watch"]
_ARC = "actions.github.com"


def sweeps(cluster: Cluster) -> tuple[Sweep, ...]:
    """The sweeps of a cluster, as `sweep_pods` counts them."""
    makers = {REAPER.name: reaper, SCHEDULER.name: scheduler, QUARANTINE.name: quarantine}
    return tuple(makers[pod.name](cluster) for pod in sweep_pods(cluster))


def of_pools(cluster: Cluster) -> str:
    """The label selector of all nodes of the cluster's pools, and perhaps more; empty for all nodes.

    A sweep reads no other nodes. Each pool may have its own selector, so only the keys that all have are of use.
    """
    selectors = [pool.node_selector(name) for name, pool in cluster.pools.items()]
    keys = sorted(set.intersection(*map(set, selectors))) if selectors else []
    values = {key: sorted({selector[key] for selector in selectors}) for key in keys}
    return ",".join(f"{key} in ({','.join(options)})" for key, options in values.items() if all(options))


def quarantine(cluster: Cluster) -> Sweep:
    """Quarantines GPU nodes of the cluster's pools, and opens their startup gate."""
    health = cluster.health or Health()
    pools = {
        # All types of a pool have the same GPUs.
        name: {"selector": pool.node_selector(name), "resource": pool.resource, "units": pool.units(pool.machines[0])}
        for name, pool in cluster.pools.items()
    }
    settings = {
        "every": 20,
        "quarantine": QUARANTINE_TAINT.key,
        "gate": STARTUP_GATE.key,
        "annotation": HEALTH_ANNOTATION,
        "healthyReasons": (*HEALTHY, ENGINE_LOST),
        "rejectedPods": health.rejected_pods,
        "rejectedWithin": 600,
        "startWithin": health.start_within,
        "missingFor": MISSING_FOR,
        "liftAfter": health.lift_after,
        "maxShare": health.max_share,
        "nodes": of_pools(cluster),
        "pools": pools,
    }
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": [*_READ, "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": _READ},
    ]
    return Sweep(QUARANTINE, "quarantine", settings, cluster_rules=rules)


def reaper(cluster: Cluster) -> Sweep:
    """Deletes EphemeralRunners of the cluster's pod runners.

    It leaves out launchers of OCI machines: each has the lifetime of its own machine, and a new launcher pod may use the
    registration again.
    """
    runners = {runner_namespace(name): runner for name, runner in cluster.pod_runners.items()}
    limits = {namespace: {"lifetime": runner.max_lifetime, "idle": IDLE} for namespace, runner in runners.items()}
    controller = place_in(cluster).controller_namespace
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": _READ}
    rules = [
        {"apiGroups": [_ARC], "resources": ["ephemeralrunners"], "verbs": [*_READ, "delete"]},
        {"apiGroups": [_ARC], "resources": ["autoscalingrunnersets"], "verbs": _READ},
        pods,
    ]
    return Sweep(
        REAPER,
        "reaper",
        {"limits": limits, "quarantine": QUARANTINE_TAINT.key, "nodes": of_pools(cluster), "controller": controller},
        cluster_rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": _READ}],
        # The pods of listeners are beside the controller. Only its listener knows whether a runner has a job.
        rules=dict.fromkeys(runners, rules) | {controller: [pods]},
    )


def scheduler(cluster: Cluster) -> Sweep:
    """Sets `minRunners` of the runner sets whose class has schedules. Their charts leave that field out."""
    sets = {
        runner_namespace(name): {"name": name, "usual": runner.scale.min, **runner.schedules.model_dump(mode="json")}
        for name, runner in cluster.pod_runners.items()
        if runner.schedules is not None
    }
    return Sweep(
        SCHEDULER,
        "scheduler",
        {"sets": sets},
        rules={
            namespace: [
                {
                    "apiGroups": [_ARC],
                    "resources": ["autoscalingrunnersets"],
                    "resourceNames": [schedule["name"]],
                    "verbs": [*_READ, "patch"],
                }
            ]
            for namespace, schedule in sets.items()
        },
    )
