"""How long runners take to start, by phase: recorded from the times of pods, nodes and EphemeralRunners.

Each result is about the runners that existed in the last hour, so a runner class has few series and no pod has one. A phase
that a runner did not have, such as a boot on a node that was ready, does not count. docs/monitoring.md explains the phases.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.kube_state_metrics import JOB_STARTED, RUNNER_CREATED
from fleet.render.monitoring.rules.rule import Rule, one_of, record, renamed
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace

PHASE = "gpu_ci:start_phase_seconds"
_ON = "on (namespace, pod)"
_KUBELET = " + ".join(
    f"kubelet_node_startup_{part}_duration_seconds" for part in ("pre_kubelet", "pre_registration", "registration")
)
"""From the start of the kernel to the node object. A kubelet that starts again has 0."""


def start_rules(cluster: Cluster, _alerts: Alerts) -> Iterator[Rule]:
    """The rules of the runner sets; none for a cluster without sets."""
    if not cluster.runners:
        return
    phases = _phases(cluster)
    for phase, seconds in phases.items():
        for name, quantile in (("p50", 0.5), ("p95", 0.95)):
            yield record(f"{PHASE}:{name}", f"quantile by (scale_set) ({quantile}, {_of_an_hour(seconds)})", phase=phase)
    for node, phase in (("new", "plugin"), ("ready", "schedule")):
        yield record("gpu_ci:starts", f"count by (scale_set) ({_of_an_hour(phases[phase])})", node=node)


def _phases(cluster: Cluster) -> dict[str, str]:
    """The seconds of each phase by pod. The words are those of `gpu-ci start`, where both have the phase."""
    requested, created, scheduled = map(_of_pod, (RUNNER_CREATED, "kube_pod_created", "kube_pod_status_scheduled_time"))
    started = _of_pod('kube_pod_container_state_started{container="runner"}')
    # The pod waited for its node if the node is younger.
    new = f"({_of_node('kube_node_created')} > {_ON} {created})"
    boot = _of_node(f"({_KUBELET}) > 0")
    phases = {
        "pod": f"{created} - {requested}",
        "schedule": f"{scheduled} - {created} unless {_ON} {new}",
        "capacity": f"{new} - {_ON} {created} - {_ON} {boot}",
        "boot": f"{boot} and {_ON} {new}",
        "plugin": f"{scheduled} - {_ON} {new}",
        "pull": f"{started} - {scheduled}",
    }
    # A runner of a set with a minimum waits for its job. That wait does not count as start.
    if at_once := [runner_namespace(name) for name, runner in cluster.runners.items() if not runner.span.min]:
        job = _of_pod(f'{JOB_STARTED}{{namespace=~"{one_of(at_once)}"}}')
        phases |= {"register": f"{job} - {started}", "total": f"{job} - {requested}"}
    return phases


def _of_pod(series: str) -> str:
    return f"max by (namespace, pod) ({series})"


def _of_node(series: str) -> str:
    """A series of nodes, for each pod on the node."""
    return f"max by (namespace, pod, node) (kube_pod_info) * on (node) group_left () max by (node) ({series})"


def _of_an_hour(seconds: str) -> str:
    """The seconds of each runner that existed in the last hour, by runner set. Other pods have no EphemeralRunner."""
    runners = f"max_over_time(({seconds} and {_ON} {RUNNER_CREATED})[1h:1m])"
    return renamed(runners, "scale_set", "namespace", runner_namespace("(.+)"))
