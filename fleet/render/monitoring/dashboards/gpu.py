"""The dashboard of the GPUs: what grafana.com dashboard 12239 shows, by pool, runner class, job or GPU, and panels for jobs."""

from __future__ import annotations

from fleet.render.monitoring.dashboards.panels import (
    AUTO,
    Board,
    Panel,
    Variable,
    number,
    of_pool,
    of_runner_class,
    table,
)
from fleet.render.monitoring.rules.rule import renamed
from fleet.settings.cluster import Cluster

_VIEWS = {"pool": "pool", "runner class": "scale_set", "job": "exported_pod", "GPU": "kubernetes_node, gpu"}
_RATIO = "percentunit"


def _chosen(metric: str) -> str:
    """The series of the pools and jobs that are chosen at the top. While every job is chosen, idle GPUs are among them."""
    return of_runner_class(of_pool(f'{metric}{{exported_pod=~"$job"}}'))


_HEAT, _WATT, _CLOCK = map(_chosen, ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK"))
_BUSY, _TENSOR, _USED = map(_chosen, ("gpu_ci:gpu_utilization", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_FB_USED"))
_GPUS = (
    # The panels of dashboard 12239, as NVIDIA/dcgm-exporter has them in grafana/dcgm-exporter-dashboard.json.
    Panel("Temperature", "The hottest GPU.", {AUTO: f"max by ($by) ({_HEAT})"}, "celsius", 18),
    number("Average temperature", "The mean of the chosen GPUs.", {"": f"avg({_HEAT})"}, "celsius"),
    Panel("Power", "The sum of the GPUs.", {AUTO: f"sum by ($by) ({_WATT})"}, "watt", 18),
    number("Total power", "The sum of the chosen GPUs.", {"": f"sum({_WATT})"}, "watt"),
    Panel("SM clock", "The mean of the GPUs.", {AUTO: f"1000000 * avg by ($by) ({_CLOCK})"}, "hertz"),
    Panel(
        "Utilization",
        "The mean share of time in which a kernel ran. Most multiprocessors of a GPU may be idle at 100 %.",
        {AUTO: f"avg by ($by) ({_BUSY})"},
        _RATIO,
    ),
    Panel(
        "Tensor cores",
        "The mean share of cycles in which the tensor cores worked. GeForce GPUs do not report it.",
        {AUTO: f"avg by ($by) ({_TENSOR})"},
        _RATIO,
    ),
    Panel("Framebuffer memory in use", "The sum of the GPUs.", {AUTO: f"sum by ($by) ({_USED})"}, "mbytes"),
)

_JOB = '{exported_pod!="", exported_pod=~"$job"}'
_BY, _LEGEND = "by (exported_namespace, exported_pod)", "{{exported_namespace}} {{exported_pod}}"
_BATCH = "Free memory and idle multiprocessors leave room for a larger batch."
_RUNNERS = 'max_over_time(kube_customresource_ephemeralrunner_job_info{name=~"$job"}[$__range])'
_JOBS = (
    Panel(
        "Memory in use by job",
        f"The fullest GPU of the job, as a share of its memory. {_BATCH}",
        {_LEGEND: f"max {_BY} (gpu_ci:gpu_memory_used_ratio{_JOB})"},
        _RATIO,
        8,
        limit=0.95,
    ),
    Panel(
        "Memory in use by job, MiB",
        "The sum of the job's GPUs.",
        {_LEGEND: f"sum {_BY} (DCGM_FI_DEV_FB_USED{_JOB})"},
        "mbytes",
        8,
    ),
    Panel(
        "SM activity by job",
        f"The mean share of the multiprocessors that had work. GeForce GPUs do not report it. {_BATCH}",
        {_LEGEND: f"avg {_BY} (DCGM_FI_PROF_SM_ACTIVE{_JOB})"},
        _RATIO,
        8,
    ),
    table(
        "Jobs in the shown time",
        f"Peak memory and mean activity of each job, to choose a batch size. {_BATCH}",
        {
            # The pod of a runner has the runner's name.
            "": f"max by (exported_pod, repository) ({renamed(_RUNNERS, 'exported_pod', 'name')})",
            "memory peak": f"max by (exported_pod) (max_over_time(gpu_ci:gpu_memory_used_ratio{_JOB}[$__range]))",
            "SM activity": f"avg by (exported_pod) (avg_over_time(DCGM_FI_PROF_SM_ACTIVE{_JOB}[$__range]))",
            "utilization": f"avg by (exported_pod) (avg_over_time(gpu_ci:gpu_utilization{_JOB}[$__range]))",
        },
        _RATIO,
    ),
)


def board(cluster: Cluster) -> Board:
    """The dashboard of one cluster."""
    variables = (
        Variable("by", values=_VIEWS, several=False),
        Variable("pool", values={name: name for name in cluster.pools}),
        Variable("job", 'label_values(DCGM_FI_DEV_FB_USED{exported_pod!=""}, exported_pod)'),
    )
    return Board("gpu-ci-gpu", "GPU", (*_GPUS, *_JOBS), variables)
