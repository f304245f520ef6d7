"""The dashboard of the GPUs: what grafana.com dashboard 12239 shows, by pool, runner class, job or GPU, and panels for jobs."""

from __future__ import annotations

from fleet.render.monitoring.dashboards.panels import AUTO, Board, Panel, Variable, of_pool, of_runner_class, renamed
from fleet.settings.cluster import Cluster

_VIEWS = (("pool", "pool"), ("runner class", "scale_set"), ("job", "exported_pod"), ("GPU", "kubernetes_node, gpu"))
_JOB = '{exported_pod!="", exported_pod=~"$job"}'
_BATCH = "Free memory and idle multiprocessors leave room for a larger batch."


def board(cluster: Cluster) -> Board:
    """The dashboard of one cluster."""
    variables = (
        Variable(name="by", label="by", values=_VIEWS, several=False),
        Variable(name="pool", label="pool", values=tuple((name, name) for name in cluster.pools)),
        Variable(name="job", label="job", query='label_values(DCGM_FI_DEV_FB_USED{exported_pod!=""}, exported_pod)'),
    )
    return Board(uid="gpu-ci-gpu", title="GPU", panels=(*_gpus(), *_jobs()), variables=variables)


def _gpus() -> tuple[Panel, ...]:
    """The panels of dashboard 12239, as NVIDIA/dcgm-exporter has them in grafana/dcgm-exporter-dashboard.json."""
    temperature, power = _chosen("DCGM_FI_DEV_GPU_TEMP"), _chosen("DCGM_FI_DEV_POWER_USAGE")
    clock, tensor = _chosen("DCGM_FI_DEV_SM_CLOCK"), _chosen("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")
    busy, memory = _chosen("gpu_ci:gpu_utilization"), _chosen("DCGM_FI_DEV_FB_USED")
    return (
        _lines("Temperature", "The hottest GPU.", "celsius", f"max by ($by) ({temperature})", span=18),
        _number("Average temperature", "The mean of the chosen GPUs.", "celsius", f"avg({temperature})"),
        _lines("Power", "The sum of the GPUs.", "watt", f"sum by ($by) ({power})", span=18),
        _number("Total power", "The sum of the chosen GPUs.", "watt", f"sum({power})"),
        _lines("SM clock", "The mean of the GPUs.", "hertz", f"1000000 * avg by ($by) ({clock})"),
        _lines(
            "Utilization",
            "The mean share of time in which a kernel ran. Most multiprocessors of a GPU may be idle at 100 %.",
            "percentunit",
            f"avg by ($by) ({busy})",
        ),
        _lines(
            "Tensor cores",
            "The mean share of cycles in which the tensor cores worked. GeForce GPUs do not report it.",
            "percentunit",
            f"avg by ($by) ({tensor})",
        ),
        _lines("Framebuffer memory in use", "The sum of the GPUs.", "mbytes", f"sum by ($by) ({memory})"),
    )


def _jobs() -> tuple[Panel, ...]:
    job, legend = "by (exported_namespace, exported_pod)", "{{exported_namespace}} {{exported_pod}}"
    runners = 'max_over_time(kube_customresource_ephemeralrunner_job_info{name=~"$job"}[$__range])'
    return (
        Panel(
            title="Memory in use by job",
            text=f"The fullest GPU of the job, as a share of its memory. {_BATCH}",
            unit="percentunit",
            span=8,
            limit=0.95,
            queries=((legend, f"max {job} (gpu_ci:gpu_memory_used_ratio{_JOB})"),),
        ),
        Panel(
            title="Memory in use by job, MiB",
            text="The sum of the job's GPUs.",
            unit="mbytes",
            span=8,
            queries=((legend, f"sum {job} (DCGM_FI_DEV_FB_USED{_JOB})"),),
        ),
        Panel(
            title="SM activity by job",
            text=f"The mean share of the multiprocessors that had work. GeForce GPUs do not report it. {_BATCH}",
            unit="percentunit",
            span=8,
            queries=((legend, f"avg {job} (DCGM_FI_PROF_SM_ACTIVE{_JOB})"),),
        ),
        Panel(
            title="Jobs in the shown time",
            text=f"Peak memory and mean activity of each job, to choose a batch size. {_BATCH}",
            kind="table",
            unit="percentunit",
            span=24,
            queries=(
                # The pod of a runner has the runner's name.
                ("", f"max by (exported_pod, repository) ({renamed(runners, 'exported_pod', 'name')})"),
                ("memory peak", f"max by (exported_pod) (max_over_time(gpu_ci:gpu_memory_used_ratio{_JOB}[$__range]))"),
                ("SM activity", f"avg by (exported_pod) (avg_over_time(DCGM_FI_PROF_SM_ACTIVE{_JOB}[$__range]))"),
                ("utilization", f"avg by (exported_pod) (avg_over_time(gpu_ci:gpu_utilization{_JOB}[$__range]))"),
            ),
        ),
    )


def _chosen(metric: str) -> str:
    """The series of the pools and jobs that are chosen at the top. While every job is chosen, idle GPUs are among them."""
    return of_runner_class(of_pool(f'{metric}{{exported_pod=~"$job"}}'))


def _lines(title: str, text: str, unit: str, query: str, span: int = 12) -> Panel:
    return Panel(title=title, text=text, unit=unit, span=span, queries=((AUTO, query),))


def _number(title: str, text: str, unit: str, query: str) -> Panel:
    return Panel(title=title, text=text, kind="number", unit=unit, span=6, queries=(("", query),))
