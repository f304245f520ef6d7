"""Runner sets: queue time, full and stopped sets, missing listeners, runners that fail, live too long or start slowly.

ARC observes a job's queue time when the job starts, as the time from its assignment to the scale set until a runner has it. A job
that never starts adds nothing (actions/actions-runner-controller#4431), so a second rule reads the gauges.
"""

from collections.abc import Iterator

from fleet.charts.arc import controller_of
from fleet.providers.phases import prepare_timeout
from fleet.providers.registry import provider_of
from fleet.render.arc import freeing_command
from fleet.render.monitoring.rules.rule import PHASES, Rule, alert, by_value, one_of, record, spaces_of
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import jobs_namespace, runner_namespace
from fleet.settings.runner import PodRunner, Runner

_START = 3600
"""Seconds that a pod may wait for its node and its job. The lifetime of a runner counts from the start of its job."""


def queue_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of the runner sets; none for a cluster without sets."""
    if not cluster.runners:
        return
    yield from map(record, ("gpu_ci:queue_seconds:p50", "gpu_ci:queue_seconds:p95", "gpu_ci:jobs_running", "gpu_ci:jobs_waiting"))
    for seconds, sets in by_value({name: alerts.objective(name) for name in cluster.runners}).items():
        labels = {"objective": f"{seconds}s"}
        yield alert("GpuCiQueueSlow", labels=labels, sets=sets, seconds=seconds)
        yield alert("GpuCiJobsNotStarting", seconds, labels, sets=sets)
    for most, sets in by_value({name: runner.span.max for name, runner in cluster.runners.items()}).items():
        yield alert("GpuCiRunnersAtMaximum", labels={"maximum": str(most)}, sets=sets)
    yield from (alert("GpuCiListenerGone", labels={"scale_set": name}) for name in cluster.runners)
    yield alert("GpuCiListenerRestarts", arc=controller_of(cluster).namespace)
    yield alert("GpuCiRunnersFail")
    # An idle runner of a set with a minimum has no end, and is not stuck.
    ending = {
        space: _limit(alerts, runner)
        for name, runner in cluster.runners.items()
        for space in spaces_of(name, runner)
        if not (runner.span.min and space == runner_namespace(name))
    }
    for seconds, spaces in by_value(ending).items():
        yield alert("GpuCiRunnerTooOld", labels={"limit": f"{seconds}s"}, spaces=spaces, seconds=seconds)


def container_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The rule of jobs in containers whose pods do not start; none without such a class.

    ARC counts such a job as started once its runner has it, so no rule of queue times sees that its GPU node boots.
    """
    of_sets = {name: prepare_timeout(cluster, runner) for name, runner in cluster.pod_runners.items() if runner.in_containers}
    for seconds, sets in by_value(of_sets).items():
        labels = {"timeout": f"{seconds}s"}
        yield alert("GpuCiJobPodSlow", labels=labels, spaces=jobs_namespace(f"({sets})"), seconds=seconds // 2)


def _limit(alerts: Alerts, runner: Runner) -> int:
    """Seconds after which a runner's pod is too old: never before the reaper has deleted the runner, if it is a pod of a pool."""
    return max(alerts.runner_lifetime, runner.max_lifetime + _START) if isinstance(runner, PodRunner) else alerts.runner_lifetime


def set_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The rule of runner sets that ARC has stopped for good; none for a cluster without sets.

    A runner that ends with exit code 7 makes its set `Outdated`. ARC 0.14.2 then deletes the set's listener, runners and
    registration at GitHub, and stays there: only another spec of the set, or a patch of its status, starts it again
    (actions-runner-controller@gha-runner-scale-set-0.14.2 controllers/actions.github.com/ephemeralrunner_controller.go:373 and
    autoscalingrunnerset_controller.go:168-269; #4595, #4596).
    """
    if cluster.runners:
        free = freeing_command("{{ $labels.namespace }}", "{{ $labels.name }}")
        yield alert("GpuCiRunnerSetOutdated", spaces=one_of(map(runner_namespace, cluster.runners)), command=free)


def machine_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The rule of sets of OCI machines that run jobs and push no metrics; none for a cluster without any.

    A machine lives for one job, so the alert is about the set. A set with places elsewhere may be silent.
    """
    if (pushing := provider_of(cluster).gateway(cluster)) is not None and pushing.complete:
        yield alert("GpuCiMachinesSilent", sets=one_of(pushing.complete))


def start_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """How long runners take to start, by phase: from the times of pods, nodes and EphemeralRunners; none without sets."""
    if not cluster.runners:
        return
    at_once = one_of(runner_namespace(name) for name, runner in cluster.runners.items() if not runner.span.min)
    values = {"namespace": runner_namespace("(.+)"), "at_once": at_once, "pods": "<of_runners>"}
    if any(runner.needs_container for runner in cluster.runners.values()):
        for quantile in ("p50", "p95"):
            of_jobs = {"pods": "<of_jobs>", "namespace": jobs_namespace("(.+)"), "spaces": jobs_namespace(".+")}
            yield record(f"gpu_ci:start_phase_seconds:{quantile}", labels={"phase": "job"}, **of_jobs)
    for phase, seconds in PHASES.items():
        if at_once or phase not in ("register", "total"):
            for quantile in ("p50", "p95"):
                yield record(f"gpu_ci:start_phase_seconds:{quantile}", labels={"phase": phase}, phase=seconds, **values)
    for node, phase in (("new", "plugin"), ("ready", "schedule")):
        yield record("gpu_ci:starts", labels={"node": node}, phase=PHASES[phase], **values)
