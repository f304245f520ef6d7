"""The objects of a sweep: a small Python program that watches a cluster's objects and repairs them.

A sweep is one pod on the system pool. It has the rights that its rules name and no others, and no port. It reaches the ports 443
and 6443 of any address, also of the internet, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from fleet.charts.arc import controller_of
from fleet.charts.chart import Pod, part, resources
from fleet.charts.sweeps import NAMESPACE, QUARANTINE, REAPER, SCHEDULER, sweep_pods
from fleet.facts.manifest import Manifest, manifest, role, rule, service_account, single
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.record import Record
from fleet.facts.scheduling import HEALTH_ANNOTATION, QUARANTINE_TAINT, STARTUP_GATE
from fleet.facts.versions import IMAGES
from fleet.facts.xid import ENGINE_LOST, HEALTHY
from fleet.render import isolation
from fleet.settings.cluster import Cluster
from fleet.settings.health import MISSING_FOR, Health
from fleet.settings.namespaces import jobs_namespace, runner_namespace

_PACKAGE = __name__.rpartition(".")[0]
_PROGRAM = "/program"
_SETTINGS = "settings.json"
_UID = 65534
"""The user `nobody` of the image."""


class Sweep(Record):
    """A sweep. `pod` has its name and requests. `module` of this package runs, with the path of its settings as argument.

    `settings` become JSON. `cluster_rules` are RBAC rules for the whole cluster, `rules` those for a namespace, which must exist
    before.
    """

    pod: Pod
    module: str
    settings: Mapping[str, Any]
    cluster_rules: Sequence[Manifest] = ()
    rules: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of all its objects."""
        return self.pod.name


def home() -> tuple[Manifest, ...]:
    """The namespace of all sweeps, and its network policy: no ingress, and egress to the ports of API servers alone.

    A sweep finds the API server by its address, so it needs no DNS. The policy names no addresses, so it also lets a sweep reach
    these ports on the internet: the address of the API server of EKS and OKE is unknown before the cluster exists, and with
    Cilium an address range has neither nodes nor the API server (cilium/cilium#20550). Metadata services have port 80.
    """
    egress = [{"ports": [{"protocol": "TCP", "port": port} for port in isolation.API_PORTS]}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": egress}
    return isolation.namespace(NAMESPACE, "restricted"), isolation.wall("sweeps", NAMESPACE, spec)


def sweep_objects(sweep: Sweep, selector: Mapping[str, str]) -> tuple[Manifest, ...]:
    """The objects of a sweep in the order of creation, without `home`. `selector` are the labels of the system pool's nodes."""
    files = {_SETTINGS: json.dumps(sweep.settings, indent=2, sort_keys=True)}
    modules = ("__init__", "api", sweep.module)
    files |= {f"{module}.py": Path(__file__).with_name(f"{module}.py").read_text(encoding="ascii") for module in modules}
    program = manifest("v1", "ConfigMap", sweep.name, NAMESPACE) | {"data": files}
    runs = single(sweep.name, NAMESPACE, files, _pod(sweep, selector, files))
    return service_account(sweep.name, NAMESPACE), *_rights(sweep), program, runs


def _rights(sweep: Sweep) -> list[Manifest]:
    """The roles with their bindings. A namespace has its own binding, so a sweep has no right in any other."""
    spaces = ({"": sweep.cluster_rules} if sweep.cluster_rules else {}) | dict(sweep.rules)
    return [entry for space, rules in spaces.items() for entry in role(sweep.name, NAMESPACE, space, rules)]


def _pod(sweep: Sweep, selector: Mapping[str, str], files: Mapping[str, str]) -> Manifest:
    # The paths make the modules a package, as they are here.
    package = _PACKAGE.replace(".", "/")
    items = [{"key": key, "path": f"{package}/{key}" if key.endswith(".py") else key} for key in files]
    program = {"name": sweep.name, "image": IMAGES["python"].reference, "module": f"{_PACKAGE}.{sweep.module}"}
    user, closed = {"runAsUser": _UID, "runAsGroup": _UID}, CONFINED | {"readOnlyRootFilesystem": True}
    given: dict[str, Any] = {"confined": closed, "security": CONFINED_POD | user, "sizes": resources(sweep.pod)}
    return part(__file__, "pod", items=items, selector=dict(selector), **program, **given)


# -- the sweeps of a cluster --------------------------------------------------------------------------------------------

IDLE = 900
"""Seconds for which a runner may wait for a job, while its set has the minimum 0: then ARC starts it because a job waits."""
_READ = ("list", "watch")


def sweeps(cluster: Cluster) -> tuple[Sweep, ...]:
    """The sweeps of a cluster, as `sweep_pods` counts them."""
    makers = {REAPER.name: reaper, SCHEDULER.name: scheduler, QUARANTINE.name: quarantine}
    return tuple(makers[pod.name](cluster) for pod in sweep_pods(cluster))


def of_pools(cluster: Cluster, *more: Mapping[str, str]) -> str:
    """The label selector of all nodes of the cluster's pools, of those of the selectors `more`, and perhaps of others.

    It is empty for all nodes. A sweep reads no other nodes. Each pool may have its own selector, so only the keys that all have
    are of use.
    """
    selectors = [*(pool.node_selector(name) for name, pool in cluster.pools.items()), *more]
    keys = sorted(set.intersection(*map(set, selectors))) if selectors else []
    values = {key: sorted({selector[key] for selector in selectors}) for key in keys}
    return ",".join(f"{key} in ({','.join(options)})" for key, options in values.items() if all(options))


def quarantine(cluster: Cluster) -> Sweep:
    """Quarantines GPU nodes of the cluster's pools, and opens their startup gate."""
    health = cluster.health or Health()
    pools = {
        # All types of a pool have the same GPUs.
        name: {"selector": pool.node_selector(name), "resource": pool.resource, "units": pool.units(pool.machines[0])}
        for name, pool in cluster.gpu_pools.items()
    }
    keys: dict[str, Any] = {"quarantine": QUARANTINE_TAINT.key, "gate": STARTUP_GATE.key, "annotation": HEALTH_ANNOTATION}
    times = {"every": 20, "rejectedWithin": 600, "missingFor": MISSING_FOR}
    times |= {"startWithin": health.start_within, "liftAfter": health.lift_after}
    most = {"healthyReasons": (*HEALTHY, ENGINE_LOST), "rejectedPods": health.rejected_pods, "maxShare": health.max_share}
    settings = {**keys, **times, **most, "nodes": of_pools(cluster), "pools": pools}
    return Sweep(QUARANTINE, "quarantine", settings, cluster_rules=[_rule("nodes", *_READ, "patch"), _rule("events", *_READ)])


def reaper(cluster: Cluster) -> Sweep:
    """Deletes EphemeralRunners of the cluster's pod runners.

    It leaves out launchers of OCI machines: each has the lifetime of its own machine, and a new launcher pod may use the
    registration again.
    """
    runners = {runner_namespace(name): runner for name, runner in cluster.pod_runners.items()}
    limits = {namespace: {"lifetime": runner.max_lifetime, "idle": IDLE} for namespace, runner in runners.items()}
    controller = controller_of(cluster).namespace
    pods = _rule("pods", *_READ)
    rules = [_rule("ephemeralrunners", *_READ, "delete"), _rule("autoscalingrunnersets", *_READ), pods]
    in_containers = {name: runner for name, runner in cluster.pod_runners.items() if runner.in_containers}
    jobs = {runner_namespace(name): jobs_namespace(name) for name in in_containers}
    # The runners of such classes may be on the system pool.
    on_system = [cluster.system_selector] if any(runner.on_system_pool for runner in in_containers.values()) else []
    pools = of_pools(cluster, *on_system)
    settings = {"limits": limits, "quarantine": QUARANTINE_TAINT.key, "nodes": pools, "controller": controller, "jobs": jobs}
    # The pods of listeners are beside the controller. Only its listener knows whether a runner has a job.
    rights = dict.fromkeys(runners, rules) | {controller: [pods]}
    # No rule of RBAC has labels. A list of Secrets can have what is in them: the registry passwords of jobs.
    rights |= {space: [_rule(kind, *_READ, "delete") for kind in ("pods", "secrets")] for space in jobs.values()}
    return Sweep(REAPER, "reaper", settings, [_rule("nodes", *_READ)], rights)


def scheduler(cluster: Cluster) -> Sweep:
    """Sets `minRunners` of the runner sets whose class has schedules. Their charts leave that field out."""
    sets = {
        runner_namespace(name): {"usual": runner.scale.min, **runner.schedules.model_dump(mode="json")}
        for name, runner in cluster.pod_runners.items()
        if runner.schedules is not None
    }
    # A generation of a set has a name of its own, and the namespace has no other set.
    rules = {namespace: [_rule("autoscalingrunnersets", *_READ, "patch")] for namespace in sets}
    return Sweep(SCHEDULER, "scheduler", {"sets": sets}, rules=rules)


def _rule(resource: str, *verbs: str) -> Manifest:
    """A rule of RBAC. Runners and their sets are ARC's."""
    return rule(resource, *verbs, group="actions.github.com" if "runner" in resource else "")
