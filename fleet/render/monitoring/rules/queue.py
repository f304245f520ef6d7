"""Queue time, full runner sets, missing listeners, runners that fail to start or live too long.

ARC observes a job's queue time when the job starts, as the time from its assignment to the scale set until a runner has it. A job
that never starts adds nothing (actions/actions-runner-controller#4431), so a second rule reads the gauges.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.render.monitoring.rules.rule import Rule, alert, by_value, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner, Runner

_START = 3600
"""Seconds that a pod may wait for its node and its job. The lifetime of a runner counts from the start of its job."""


def queue_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of the runner sets; none for a cluster without sets."""
    if not cluster.runners:
        return
    for name, quantile in (("p50", 0.5), ("p95", 0.95)):
        rate = "sum by (scale_set, le) (rate(gha_job_startup_duration_seconds_bucket[30m]))"
        yield record(f"gpu_ci:queue_seconds:{name}", f"histogram_quantile({quantile}, {rate})")
    yield record("gpu_ci:jobs_running", "sum by (scale_set) (gha_running_jobs)")
    yield record("gpu_ci:jobs_waiting", "sum by (scale_set) (gha_assigned_jobs) - gpu_ci:jobs_running")
    objectives = {name: alerts.objective(name) for name in cluster.runners}
    for objective, sets in by_value(objectives).items():
        yield alert(
            "GpuCiQueueSlow",
            f'gpu_ci:queue_seconds:p95{{scale_set=~"{sets}"}} > {objective}',
            text={"seconds": objective},
            objective=f"{objective}s",
        )
        yield alert(
            "GpuCiJobsNotStarting",
            f'gpu_ci:jobs_waiting{{scale_set=~"{sets}"}} > 0 '
            f"unless on (scale_set) sum by (scale_set) (increase(gha_started_jobs_total[{objective}s])) > 0 "
            # With a job on each runner that the set may have, the next job waits as it should.
            "unless on (scale_set) gpu_ci:jobs_running >= on (scale_set) max by (scale_set) (gha_max_runners)",
            objective,
            objective=f"{objective}s",
        )
    for most, sets in by_value({name: runner.span.max for name, runner in cluster.runners.items()}).items():
        yield alert(
            "GpuCiRunnersAtMaximum",
            f'sum by (scale_set) (gha_desired_runners{{scale_set=~"{sets}"}}) >= {most} and gpu_ci:jobs_waiting > 0',
            maximum=str(most),
        )
    for name in cluster.runners:
        yield alert("GpuCiListenerGone", f'absent(gha_max_runners{{scale_set="{name}"}})', scale_set=name)
    yield alert("GpuCiRunnersFail", "sum by (name) (gha_controller_failed_ephemeral_runners) > 0")
    # An idle runner of a set with a minimum has no end, and is not stuck.
    ending = {runner_namespace(name): _limit(alerts, runner) for name, runner in cluster.runners.items() if not runner.span.min}
    for limit, spaces in by_value(ending).items():
        yield alert(
            "GpuCiRunnerTooOld",
            f'max by (namespace, pod) (time() - kube_pod_created{{namespace=~"{spaces}"}}) > {limit}',
            text={"seconds": limit},
            limit=f"{limit}s",
        )


def _limit(alerts: Alerts, runner: Runner) -> int:
    """Seconds after which a runner's pod is too old: never before the reaper has deleted the runner, if it is a pod of a pool."""
    return max(alerts.runner_lifetime, runner.max_lifetime + _START) if isinstance(runner, PodRunner) else alerts.runner_lifetime
