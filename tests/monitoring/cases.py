"""Cases of every alert and recording rule of `tests/monitoring/fleet.py`.

Each alert has a sample just below its threshold, at it and just above it, and a check one minute before and after its `for` ends.
It has a time at which it has resolved, and series that differ from a firing one in one label only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.facts.xid import XIDS
from tests.monitoring.promtool import Case, Suite

SILENT: list[Mapping[str, str]] = []


def series(metric: str, **labels: str) -> str:
    """A series in promtool's notation."""
    return f"{metric}{{{', '.join(f'{key}={value!r}'.replace(chr(39), chr(34)) for key, value in labels.items())}}}"


# -- queue -------------------------------------------------------------------------------------------------------------


def _waits(scale_set: str, low: int, high: int, samples: str) -> dict[str, str]:
    """Queue times that are all between two buckets."""
    name = "gha_job_startup_duration_seconds_bucket"
    buckets = {str(low): "0x100", str(high): samples, "3600": samples, "+Inf": samples}
    return {series(name, scale_set=scale_set, le=le): each for le, each in buckets.items()}


def _set(
    name: str, assigned: str, running: str = "1x100", started: str = "5x100", desired: str = "1x100", most: str = "9x100"
) -> dict[str, str]:
    """The gauges of a runner set."""
    samples = {
        "gha_assigned_jobs": assigned,
        "gha_running_jobs": running,
        "gha_started_jobs_total": started,
        "gha_desired_runners": desired,
        "gha_max_runners": most,
    }
    return {series(metric, scale_set=name): each for metric, each in samples.items()}


def _pods_of(namespace: str, pod: str, minutes: Iterable[int]) -> dict[str, str]:
    """Pods of one name: one starts at each of the minutes, and is gone a minute later."""
    return {
        series(
            "kube_pod_created", namespace=namespace, pod=pod, uid=str(minute)
        ): f"{f'_x{minute} ' if minute else ''}{60 * minute} stale"
        for minute in minutes
    }


_SOME = "0+1x20 20x80"
"""A job a minute for 20 minutes, then none."""

QUEUE = (
    Case(
        "queue time above, at and below the objective",
        # The 95th percentile of values between 590 and 610 is 609. Beyond the last bucket but one it is that bucket: 600.
        _waits("gpu-t4", 590, 610, _SOME) | _waits("gpu-keep", 580, 600, _SOME) | _waits("gpu-p4", 590, 610, _SOME),
        {
            "GpuCiQueueSlow": {
                5: SILENT,
                6: [
                    {"scale_set": "gpu-t4", "objective": "600s"},
                    {"scale_set": "gpu-p4", "objective": "300s"},
                ],
                45: [
                    {"scale_set": "gpu-t4", "objective": "600s"},
                    {"scale_set": "gpu-p4", "objective": "300s"},
                ],
                55: SILENT,
            }
        },
        {
            ("gpu_ci:queue_seconds:p50", 10): {
                series("gpu_ci:queue_seconds:p50", scale_set="gpu-t4"): 600,
                series("gpu_ci:queue_seconds:p50", scale_set="gpu-keep"): 590,
                series("gpu_ci:queue_seconds:p50", scale_set="gpu-p4"): 600,
            },
            ('gpu_ci:queue_seconds:p95{scale_set="gpu-t4"}', 10): {series("gpu_ci:queue_seconds:p95", scale_set="gpu-t4"): 609},
            ('gpu_ci:queue_seconds:p50{scale_set="gpu-t4"} > 0', 45): {
                series("gpu_ci:queue_seconds:p50", scale_set="gpu-t4"): 600
            },
            ("gpu_ci:queue_seconds:p50 > 0", 55): {},
        },
    ),
    Case(
        "queue time exactly at the objective",
        {
            series("gha_job_startup_duration_seconds_bucket", scale_set=name, le=le): samples
            for name, last in (("gpu-t4", "600"), ("gpu-p4", "300"))
            for le, samples in ((last, "0x100"), ("+Inf", _SOME))
        },
        {"GpuCiQueueSlow": {10: SILENT}},
    ),
    Case(
        "queue time between the two objectives",
        _waits("gpu-t4", 310, 400, _SOME) | _waits("gpu-p4", 310, 400, _SOME),
        {"GpuCiQueueSlow": {10: [{"scale_set": "gpu-p4", "objective": "300s"}]}},
    ),
    Case(
        "queue time below the shorter objective",
        _waits("gpu-p4", 200, 290, _SOME),
        {"GpuCiQueueSlow": {10: SILENT}},
    ),
    Case(
        "sets in which no job waits",
        _set("gpu-t4", "2x100", running="2x100", desired="2x100") | _set("gpu-p4", "3x100", running="3x100", desired="3x100"),
        {"GpuCiJobsNotStarting": {20: SILENT}, "GpuCiRunnersAtMaximum": {20: SILENT}},
    ),
    Case(
        "jobs wait and none starts, then one starts",
        _set("gpu-t4", "2x100", started="5x19 6x80") | _set("gpu-keep", "1x100") | _set("gpu-p4", "2x100", started="5x19 6x80"),
        {
            "GpuCiJobsNotStarting": {
                4: SILENT,
                5: [{"scale_set": "gpu-p4", "objective": "300s"}],
                9: [{"scale_set": "gpu-p4", "objective": "300s"}],
                10: [
                    {"scale_set": "gpu-t4", "objective": "600s"},
                    {"scale_set": "gpu-p4", "objective": "300s"},
                ],
                22: SILENT,
                28: SILENT,
                # No longer in the range of five minutes, then not in that of ten.
                33: [{"scale_set": "gpu-p4", "objective": "300s"}],
                38: [{"scale_set": "gpu-p4", "objective": "300s"}],
                42: [
                    {"scale_set": "gpu-t4", "objective": "600s"},
                    {"scale_set": "gpu-p4", "objective": "300s"},
                ],
            }
        },
        {
            ("gpu_ci:jobs_waiting", 3): {
                series("gpu_ci:jobs_waiting", scale_set="gpu-t4"): 1,
                series("gpu_ci:jobs_waiting", scale_set="gpu-keep"): 0,
                series("gpu_ci:jobs_waiting", scale_set="gpu-p4"): 1,
            },
            ('gpu_ci:jobs_running{scale_set="gpu-t4"}', 3): {series("gpu_ci:jobs_running", scale_set="gpu-t4"): 1},
        },
    ),
    Case(
        "full sets, in which the next job waits as it should, and a set that stops to be full",
        _set("gpu-t4", "3x100", running="2x100", desired="2x100", most="2x100")
        | _set("gpu-keep", "3x100", running="2x100", desired="2x100", most="1x100")
        # A job ends at minute 20. The set still asks for its maximum of runners, and none takes the job that waits.
        | _set("gpu-p4", "4x19 3x80", running="3x19 2x80", desired="3x100", most="3x100"),
        {"GpuCiJobsNotStarting": {24: SILENT, 25: [{"scale_set": "gpu-p4"}], 60: [{"scale_set": "gpu-p4"}]}},
    ),
    Case(
        "a set of several repositories is one set",
        {
            f'gha_{what}_jobs{{scale_set="gpu-t4", repository="{repository}"}}': samples
            for repository in ("a", "b")
            for what, samples in (("assigned", "3x20"), ("running", "1x20"))
        },
        values={("gpu_ci:jobs_waiting", 5): {series("gpu_ci:jobs_waiting", scale_set="gpu-t4"): 4}},
    ),
    Case(
        "runner sets at and below their maximum",
        _set("gpu-t4", "3x20 2x80", running="2x100", desired="2x100")
        | _set("gpu-keep", "2x100", desired="1x100")
        | _set("gpu-p4", "4x100", running="3x100", desired="3x100"),
        {
            "GpuCiRunnersAtMaximum": {
                14: SILENT,
                15: [{"scale_set": "gpu-t4", "maximum": "2"}, {"scale_set": "gpu-p4", "maximum": "3"}],
                # It has its maximum of runners and no job waits.
                25: [{"scale_set": "gpu-p4", "maximum": "3"}],
            }
        },
    ),
    Case(
        "another set's maximum",
        _set("gpu-keep", "9x100", desired="5x100") | _set("gpu-p4", "9x100", desired="2x100"),
        {"GpuCiRunnersAtMaximum": {20: [{"scale_set": "gpu-keep", "maximum": "2"}]}},
    ),
    Case(
        "listeners go and come back",
        {
            series("gha_max_runners", scale_set="gpu-t4"): "2x4 stale _x24 2x70",
            series("gha_max_runners", scale_set="gpu-p4"): "3x39 stale _x24 3x70",
            series("gha_max_runners", scale_set="gpu-keep"): "2x69 stale _x24 2x70",
        },
        {
            "GpuCiListenerGone": {
                14: SILENT,
                15: [{"scale_set": "gpu-t4"}],
                35: SILENT,
                49: SILENT,
                50: [{"scale_set": "gpu-p4"}],
                79: SILENT,
                80: [{"scale_set": "gpu-keep"}],
                99: SILENT,
            }
        },
    ),
    Case(
        "listeners that ARC makes again each minute, six and five times, and one that it makes every third minute",
        {
            **_pods_of("arc-systems", "gpu-t4-1234abcd-listener", range(6)),
            **_pods_of("arc-systems", "gpu-p4-1234abcd-listener", range(5)),
            **_pods_of("arc-systems", "gpu-keep-1234abcd-listener", range(0, 60, 3)),
            **_pods_of("arc-systems", "arc-controller", range(6)),
            **_pods_of("ai", "gpu-t4-1234abcd-listener", range(6)),
        },
        {
            "GpuCiListenerRestarts": {
                4: SILENT,
                5: [{"namespace": "arc-systems", "pod": "gpu-t4-1234abcd-listener"}],
                9: [{"namespace": "arc-systems", "pod": "gpu-t4-1234abcd-listener"}],
                11: SILENT,
                50: SILENT,
            }
        },
    ),
    Case(
        "runners fail to start",
        {
            series(
                "gha_controller_failed_ephemeral_runners", name="gpu-t4", exported_namespace="runners-gpu-t4"
            ): "0x4 1x14 0x20",
            series("gha_controller_failed_ephemeral_runners", name="gpu-p4", exported_namespace="runners-gpu-p4"): "0x100",
        },
        {"GpuCiRunnersFail": {9: SILENT, 10: [{"name": "gpu-t4"}], 19: [{"name": "gpu-t4"}], 20: SILENT}},
    ),
    Case(
        "runners older than 90 minutes, or than two hours where their class has a lifetime of one",
        {
            series("kube_pod_created", namespace="runners-gpu-t4", pod="old", uid="1"): "0x110 stale",
            series("kube_pod_created", namespace="runners-gpu-p4", pod="old", uid="2"): "0x140 stale",
            series("kube_pod_created", namespace="runners-gpu-p4", pod="young", uid="3"): "1800x150",
            series("kube_pod_created", namespace="runners-gpu-p4-jobs", pod="gone-workflow", uid="6"): "900x160",
            series("kube_pod_created", namespace="runners-gpu-keep", pod="ready", uid="4"): "0x150",
            series("kube_pod_created", namespace="arc-systems", pod="listener", uid="5"): "0x150",
        },
        {
            "GpuCiRunnerTooOld": {
                95: SILENT,
                96: [{"namespace": "runners-gpu-t4", "pod": "old", "limit": "5400s"}],
                112: SILENT,
                125: SILENT,
                126: [{"namespace": "runners-gpu-p4", "pod": "old", "limit": "7200s"}],
                140: [{"namespace": "runners-gpu-p4", "pod": "old", "limit": "7200s"}],
                142: [{"namespace": "runners-gpu-p4-jobs", "pod": "gone-workflow", "limit": "7200s"}],
            }
        },
    ),
)


# -- jobs in containers ------------------------------------------------------------------------------------------------


def _job_pod(namespace: str, pod: str, created: int, pending: str, phase: str = "Pending") -> dict[str, str]:
    """A pod that was made at a time, and whether it has the phase."""
    return {
        series("kube_pod_created", namespace=namespace, pod=pod, uid=pod): f"{created}x60",
        series("kube_pod_status_phase", namespace=namespace, pod=pod, uid=pod, phase=phase): pending,
    }


CONTAINERS = (
    Case(
        "a job's pod that waits for longer than 780 s, and pods that run, are of a step, or of others",
        _job_pod("runners-gpu-p4-jobs", "a-workflow", 0, "1x19 0x40")
        | _job_pod("runners-gpu-p4-jobs", "b-workflow", 0, "0x60")
        | _job_pod("runners-gpu-p4-jobs", "c-workflow", 0, "1x60", "Running")
        | _job_pod("runners-gpu-p4-jobs", "a-step-0a1b2c3d", 0, "1x60")
        | _job_pod("research", "d-workflow", 0, "1x60"),
        {
            "GpuCiJobPodSlow": {
                13: SILENT,
                14: [{"namespace": "runners-gpu-p4-jobs", "timeout": "1560s"}],
                19: [{"namespace": "runners-gpu-p4-jobs", "timeout": "1560s"}],
                20: SILENT,
            }
        },
    ),
)


# -- sets --------------------------------------------------------------------------------------------------------------


def _phase(space: str, name: str, samples: str, phase: str = "Outdated") -> dict[str, str]:
    """A runner set that has a phase. kube-state-metrics' own pod is in the labels `pod` and `instance`."""
    labels = {"namespace": space, "name": name, "phase": phase, "customresource_kind": "AutoscalingRunnerSet", "pod": "ksm-0"}
    return {series("kube_customresource_autoscalingrunnerset_info", **labels): samples}


_STOPPED = [{"namespace": "runners-gpu-t4", "name": "gpu-t4"}]

SETS = (
    Case(
        "a set that GitHub's refusal has stopped, and that a person frees",
        _phase("runners-gpu-t4", "gpu-t4", "_x5 1x30 stale")
        | _phase("runners-gpu-t4", "gpu-t4", "1x4 stale _x30 1x20", "Running")
        | _phase("runners-gpu-p4", "gpu-p4", "1x60", "Pending")
        | _phase("runners-gpu-keep", "gpu-keep", "1x60", "Running")
        | _phase("of-somebody-else", "gpu-t4", "1x60"),
        {"GpuCiRunnerSetOutdated": {9: SILENT, 10: _STOPPED, 35: _STOPPED, 37: SILENT}},
    ),
    Case(
        "a set that is Outdated for less than five minutes, after which a newer image has freed it",
        _phase("runners-gpu-t4", "gpu-t4", "_x5 1x3 stale"),
        {"GpuCiRunnerSetOutdated": {8: SILENT, 10: SILENT, 20: SILENT}},
    ),
)


# -- nodes and pods ----------------------------------------------------------------------------------------------------


def _node(name: str, pool: str, samples: str = "1x100") -> dict[str, str]:
    """A node as kube-state-metrics shows it; an empty pool for a node without our label."""
    labels = {"node": name} | ({"label_gpu_ci_pool": pool} if pool else {})
    cpu = series("kube_node_status_allocatable", node=name, resource="cpu", unit="core")
    return {series("kube_node_labels", **labels): samples, cpu: "96x100"}


def _temperatures(node: str, count: int, samples: str = "50x100") -> dict[str, str]:
    """The temperature of each GPU of a node."""
    return {
        series("DCGM_FI_DEV_GPU_TEMP", kubernetes_node=node, gpu=str(gpu), UUID=f"{node}{gpu}"): samples for gpu in range(count)
    }


def _allocatable(node: str, samples: str, resource: str = "nvidia_com_gpu") -> dict[str, str]:
    return {series("kube_node_status_allocatable", node=node, resource=resource, unit="integer"): samples}


def _missing(node: str, pool: str, signal: str, expected: str) -> dict[str, str]:
    return {"kubernetes_node": node, "pool": pool, "signal": signal, "expected": expected}


_QUARANTINE = "status-taint.cluster-autoscaler.kubernetes.io/gpu-ci-quarantine"
_GATE = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-ci-gpus"
NODES = (
    Case(
        "GPUs missing by the exporter",
        _node("whole", "p4")
        | _temperatures("whole", 8)
        | _node("seven", "p4")
        | _temperatures("seven", 7)
        # The GPU 7 comes back after half an hour.
        | {series("DCGM_FI_DEV_GPU_TEMP", kubernetes_node="seven", gpu="7", UUID="seven7"): "_x30 50x70"}
        | _node("gone", "p4")
        | _node("one", "t4")
        | _temperatures("one", 1)
        | _node("none", "t4")
        | _node("shares", "sliced")
        | _temperatures("shares", 1)
        | _node("controllers", "system")
        | _node("foreign", ""),
        {
            "GpuCiGpuMissing": {
                14: SILENT,
                15: [
                    _missing("seven", "p4", "exporter", "8 GPUs"),
                    _missing("gone", "p4", "exporter", "8 GPUs"),
                    _missing("none", "t4", "exporter", "1 GPUs"),
                    *(
                        _missing(node, pool, "kubelet", expected)
                        for node, pool, expected in (
                            ("whole", "p4", "8 nvidia.com/gpu"),
                            ("seven", "p4", "8 nvidia.com/gpu"),
                            ("gone", "p4", "8 nvidia.com/gpu"),
                            ("one", "t4", "1 nvidia.com/gpu"),
                            ("none", "t4", "1 nvidia.com/gpu"),
                            ("shares", "sliced", "4 nvidia.com/gpu.shared"),
                        )
                    ),
                ],
            }
        },
        {
            ('gpu_ci:node_gpus{pool="p4"}', 10): {
                series("gpu_ci:node_gpus", kubernetes_node="whole", pool="p4"): 8,
                series("gpu_ci:node_gpus", kubernetes_node="seven", pool="p4"): 7,
                series("gpu_ci:node_gpus", kubernetes_node="gone", pool="p4"): 0,
            },
            ('gpu_ci:node_gpus{kubernetes_node="seven"}', 40): {
                series("gpu_ci:node_gpus", kubernetes_node="seven", pool="p4"): 8,
            },
            ("gpu_ci:node_pool", 10): {
                series("gpu_ci:node_pool", kubernetes_node=node, pool=pool): 1
                for node, pool in (
                    ("whole", "p4"),
                    ("seven", "p4"),
                    ("gone", "p4"),
                    ("one", "t4"),
                    ("none", "t4"),
                    ("shares", "sliced"),
                )
            },
        },
    ),
    Case(
        "GPUs missing by the kubelet",
        {
            key: samples
            for node, pool, gpus in (
                ("whole", "p4", 8),
                ("seven", "p4", 8),
                ("zero", "p4", 8),
                ("one", "t4", 1),
                ("out", "t4", 1),
            )
            for key, samples in (_node(node, pool) | _temperatures(node, gpus)).items()
        }
        | _node("shares", "sliced")
        | _temperatures("shares", 1)
        | _node("three", "sliced")
        | _temperatures("three", 1)
        | _node("controllers", "system")
        | _allocatable("whole", "8x100")
        | _allocatable("seven", "7x25 8x70")
        | _allocatable("zero", "0x100")
        | _allocatable("one", "1x100")
        # A label of another resource on a node of another pool.
        | _allocatable("one", "1x100", "nvidia_com_gpu_shared")
        | _allocatable("shares", "4x100", "nvidia_com_gpu_shared")
        | _allocatable("three", "3x100", "nvidia_com_gpu_shared"),
        {
            "GpuCiGpuMissing": {
                14: SILENT,
                15: [
                    _missing("seven", "p4", "kubelet", "8 nvidia.com/gpu"),
                    _missing("zero", "p4", "kubelet", "8 nvidia.com/gpu"),
                    _missing("out", "t4", "kubelet", "1 nvidia.com/gpu"),
                    _missing("three", "sliced", "kubelet", "4 nvidia.com/gpu.shared"),
                ],
                30: [
                    _missing("zero", "p4", "kubelet", "8 nvidia.com/gpu"),
                    _missing("out", "t4", "kubelet", "1 nvidia.com/gpu"),
                    _missing("three", "sliced", "kubelet", "4 nvidia.com/gpu.shared"),
                ],
            }
        },
    ),
    Case(
        "Ready nodes that reject pods",
        {
            key: samples
            for node, count, reason, value in (
                ("hole", 4, "UnexpectedAdmissionError", 1),
                ("three", 3, "UnexpectedAdmissionError", 1),
                ("sick", 4, "UnexpectedAdmissionError", 1),
                ("full", 4, "Evicted", 1),
                ("fine", 4, "UnexpectedAdmissionError", 0),
            )
            for pod in range(count)
            for key, samples in (
                (series("kube_pod_status_reason", namespace="n", pod=f"{node}-{pod}", reason=reason), f"{value}x2 stale"),
                (series("kube_pod_info", namespace="n", pod=f"{node}-{pod}", node=node, uid="u"), "1x2 stale"),
                # Before it had a node.
                (series("kube_pod_info", namespace="n", pod=f"{node}-{pod}", node="", uid="u"), "1 stale"),
            )
        }
        | {
            series("kube_node_status_condition", node=node, condition=condition, status=status): f"{value}x40"
            for node in ("hole", "three", "sick", "full", "fine")
            for condition, status, value in (
                ("Ready", "true", int(node != "sick")),
                ("Ready", "false", int(node == "sick")),
                ("MemoryPressure", "true", int(node == "sick")),
            )
        },
        {"GpuCiNodeRejectsPods": {1: [{"node": "hole"}], 12: [{"node": "hole"}], 20: SILENT}},
    ),
    Case(
        "nodes in quarantine and behind the gate",
        {
            series("kube_node_spec_taint", node=node, key=key, value=value, effect="NoSchedule"): samples
            for node, key, value, samples in (
                ("sick", _QUARANTINE, "gpus-missing", "1x40 stale"),
                ("stays", _GATE, "pending", "1x40 stale"),
                ("healed", _QUARANTINE, "gpus-missing", "1x29 stale"),
                ("not", _QUARANTINE, "gpus-missing", "0x100"),
                ("other", "nvidia.com/gpu", "true", "1x100"),
                ("near", "gpu-ci-gpus", "true", "1x100"),
            )
        },
        {
            "GpuCiNodeQuarantined": {
                29: SILENT,
                30: [
                    {"node": "sick", "key": _QUARANTINE, "value": "gpus-missing"},
                    {"node": "stays", "key": _GATE, "value": "pending"},
                ],
                50: SILENT,
            }
        },
    ),
    Case(
        "spot nodes that leave with and without a runner",
        _node("spot", "t4", "1x9 stale")
        # These leave at other minutes.
        | _node("empty", "t4", "1x12 stale")
        | _node("done", "t4", "1x14 stale")
        | _node("other", "t4", "1x16 stale")
        | _node("reserved", "p4", "1x17 stale")
        | _node("cordoned", "t4", "_x19 1x80")
        | _node("kept", "t4")
        | _node("reserved-cordoned", "p4")
        | {
            series("kube_node_spec_unschedulable", node=node): samples
            for node, samples in (("cordoned", "_x19 0 1x9 0x70"), ("kept", "0x100"), ("reserved-cordoned", "1x100"))
        }
        | {
            key: samples
            for node, namespace, running, since in (
                ("spot", "runners-gpu-t4", 1, 8),
                ("done", "runners-gpu-t4", 0, 8),
                ("other", "research", 1, 8),
                ("reserved", "runners-gpu-p4", 1, 8),
                ("cordoned", "runners-gpu-t4", 1, 18),
                ("kept", "runners-gpu-t4", 1, 8),
                ("reserved-cordoned", "runners-gpu-p4", 1, 8),
            )
            for key, samples in (
                (series("kube_pod_info", namespace=namespace, pod=node, node=node, uid="u"), f"_x{since} 1x40"),
                (
                    series("kube_pod_status_phase", namespace=namespace, pod=node, phase="Running", uid="u"),
                    f"_x{since} {running}x40",
                ),
                (
                    series("kube_pod_status_phase", namespace=namespace, pod=node, phase="Succeeded", uid="u"),
                    f"_x{since} {1 - running}x40",
                ),
            )
        },
        {
            "GpuCiSpotNodeLost": {
                9: SILENT,
                10: [{"pool": "t4"}],
                11: SILENT,
                13: SILENT,
                15: SILENT,
                17: SILENT,
                18: SILENT,
                19: SILENT,
                20: [{"pool": "t4"}],
                29: [{"pool": "t4"}],
                30: SILENT,
            }
        },
    ),
    Case(
        "pods with and without GPUs that wait",
        {
            series("kube_pod_status_unschedulable", namespace="research", pod="train", uid="1"): "1x25 0x20",
            series("kube_pod_status_unschedulable", namespace="web", pod="page", uid="2"): "1x60",
            series("kube_pod_status_unschedulable", namespace="vision", pod="fits", uid="3"): "0x60",
            # The pool has all the nodes that it may have.
            series("kube_pod_status_unschedulable", namespace="gpu-placeholders", pod="t4-0", uid="4"): "1x60",
            series(
                "kube_pod_container_status_waiting_reason", namespace="research", pod="typo", reason="ImagePullBackOff"
            ): "1x60",
            series("kube_pod_container_status_waiting_reason", namespace="web", pod="page", reason="ImagePullBackOff"): "1x60",
            series("kube_pod_container_status_waiting_reason", namespace="vision", pod="fits", reason="ErrImagePull"): "0x60",
        }
        | {
            series("kube_pod_container_resource_requests", namespace=namespace, pod=pod, resource=resource): "1x60"
            for namespace, pod, resource in (
                ("research", "train", "nvidia_com_gpu"),
                ("research", "train", "cpu"),
                ("research", "typo", "nvidia_com_mig_1g_5gb"),
                ("vision", "fits", "nvidia_com_gpu"),
                ("gpu-placeholders", "t4-0", "nvidia_com_gpu"),
                ("web", "page", "cpu"),
            )
        },
        {
            "GpuCiPodsPending": {
                19: SILENT,
                20: [
                    {"namespace": "research", "reason": "Unschedulable"},
                    {"namespace": "research", "reason": "ImagePullBackOff"},
                ],
                26: [{"namespace": "research", "reason": "ImagePullBackOff"}],
            }
        },
    ),
)


# -- GPUs --------------------------------------------------------------------------------------------------------------

_UTIL, _ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_USED, _FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"


def _gpu(metric: str, gpu: int | str, pod: str = "", namespace: str = "runners-gpu-t4", **more: str) -> str:
    """A series of one GPU of the node n1, which is in the pool t4."""
    owner = {"exported_namespace": namespace, "exported_pod": pod} if pod else {}
    return series(metric, kubernetes_node="n1", gpu=str(gpu), **owner, **more)


def _pushed(name: str, samples: str) -> dict[str, str]:
    """What a machine of a set pushed, as the gateway writes it."""
    own = {"kubernetes_node": f"{name}/inst-1", "gpu": "0", "instance": "inst-1", "runner_class": name}
    return {series("DCGM_FI_DEV_GPU_TEMP", **own): samples}


def _of_gpu(gpu: int | str, pod: str = "", namespace: str = "runners-gpu-t4", **more: str) -> dict[str, str]:
    """The labels of an alert about one GPU of n1."""
    owner = {"exported_namespace": namespace, "exported_pod": pod} if pod else {}
    return {"kubernetes_node": "n1", "gpu": str(gpu), **owner, **more}


USE = (
    Case(
        "utilization and memory of a GPU",
        _node("n1", "t4")
        | {
            _gpu(_ENGINE, 0, "a", UUID="x"): "0.5x20",
            _gpu(_UTIL, 0, "a", UUID="x"): "90x20",
            _gpu(_UTIL, 1, UUID="y"): "25x20",
            # Two MIG instances of a pod.
            _gpu(_ENGINE, 2, "b", GPU_I_ID="1"): "0.25x20",
            _gpu(_ENGINE, 2, "b", GPU_I_ID="2"): "0.75x20",
            _gpu(_USED, 0, "a", UUID="x"): "4096x20",
            _gpu(_FREE, 0, "a", UUID="x"): "12288x20",
            series(_UTIL, kubernetes_node="unknown", gpu="0"): "50x20",
        },
        values={
            ("gpu_ci:gpu_utilization", 5): {
                _gpu("gpu_ci:gpu_utilization", 0, "a", pool="t4"): 0.5,
                _gpu("gpu_ci:gpu_utilization", 1, pool="t4"): 0.25,
                _gpu("gpu_ci:gpu_utilization", 2, "b", pool="t4"): 0.75,
            },
            ("gpu_ci:gpu_memory_used_ratio", 5): {_gpu("gpu_ci:gpu_memory_used_ratio", 0, "a", pool="t4"): 0.25},
            ("gpu_ci:gpu_allocated", 5): {
                _gpu("gpu_ci:gpu_allocated", 0, "a", pool="t4"): 1,
                _gpu("gpu_ci:gpu_allocated", 1, pool="t4"): 0,
                _gpu("gpu_ci:gpu_allocated", 2, "b", pool="t4"): 1,
            },
        },
    ),
    Case(
        "GPUs that pods hold and do not use",
        _node("n1", "t4")
        | {
            _gpu(_ENGINE, 0, "idle"): "0.04x69 0.9x30",
            _gpu(_ENGINE, 1, "at-it"): "0.0625x100",
            _gpu(_ENGINE, 2, "little"): "0.1x100",
            _gpu(_ENGINE, 3, "stopped"): "0.9x20 0.04x80",
            _gpu(_ENGINE, 4): "0x100",
            _gpu(_ENGINE, 5, "ready", "runners-gpu-keep"): "0x100",
            _gpu(_ENGINE, 6, "ollama-7d9f", "ai"): "0x100",
        },
        {
            "GpuCiGpuIdle": {
                29: SILENT,
                30: [_of_gpu(0, "idle", pool="t4")],
                49: [_of_gpu(0, "idle", pool="t4")],
                52: [_of_gpu(0, "idle", pool="t4"), _of_gpu(3, "stopped", pool="t4")],
                72: [_of_gpu(3, "stopped", pool="t4")],
            }
        },
    ),
    Case(
        "GPUs without utilization that hold memory",
        _node("n1", "t4")
        | {
            key: samples
            for gpu, pod, namespace, used, utilization in (
                (0, "hung", "runners-gpu-t4", 1025, "0x59 1x40"),
                (1, "at-it", "runners-gpu-t4", 1024, "0x100"),
                (2, "paused", "runners-gpu-t4", 4096, "0x9 1 0x90"),
                (3, "small", "runners-gpu-t4", 900, "0x100"),
                (4, "", "", 2000, "0x100"),
                (5, "ready", "runners-gpu-keep", 4096, "0x100"),
                (6, "ollama-7d9f", "ai", 4096, "0x100"),
                (7, "slow", "runners-gpu-t4", 4096, "1x100"),
            )
            for key, samples in (
                (_gpu(_UTIL, gpu, pod, namespace), utilization),
                (_gpu(_USED, gpu, pod, namespace), f"{used}x100"),
            )
        },
        {
            "GpuCiGpuMemoryHeld": {
                29: SILENT,
                30: [_of_gpu(0, "hung", pool="t4"), _of_gpu(4, pool="t4")],
                39: [_of_gpu(0, "hung", pool="t4"), _of_gpu(4, pool="t4")],
                42: [_of_gpu(0, "hung", pool="t4"), _of_gpu(2, "paused", pool="t4"), _of_gpu(4, pool="t4")],
                62: [_of_gpu(2, "paused", pool="t4"), _of_gpu(4, pool="t4")],
            }
        },
    ),
)

_ALERT_OF = {
    "gpu-reset": "GpuCiXidFatal",
    "node-reboot": "GpuCiXidFatal",
    "hardware": "GpuCiXidFatal",
    "application": "GpuCiXidApplication",
    "software": "GpuCiXidUnclear",
    "undecided": "GpuCiXidUnclear",
    "information": "",
}
_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"


def _xids(alert: str) -> list[dict[str, str]]:
    """The alerts of that name when every code of NVIDIA's table happened on a GPU."""
    found = [xid for xid in XIDS.values() if _ALERT_OF[xid.category] == alert]
    return [
        _of_gpu(0, "job", xid=xid.code, meaning=xid.meaning, **({"action": xid.action} if xid.action else {})) for xid in found
    ]


XIDS_OF_A_GPU = (
    Case(
        "every Xid of NVIDIA's table, and one that it does not have",
        {_gpu(_COUNT, 0, "job", xid=code, window_size_in_ms="300000"): "0x3 1x4 stale" for code in [*XIDS, "999"]}
        # Without errors the exporter has a series without a code.
        | {_gpu(_COUNT, 1, window_size_in_ms="300000"): "0x20"},
        {
            **{
                alert: {3: SILENT, 4: _xids(alert), 8: _xids(alert), 9: SILENT}
                for alert in ("GpuCiXidFatal", "GpuCiXidApplication", "GpuCiXidUnclear")
            },
            "GpuCiXidUnknown": {3: SILENT, 4: [_of_gpu(0, "job", xid="999")], 8: [_of_gpu(0, "job", xid="999")], 9: SILENT},
        },
    ),
)

FAULTS = (
    *(
        Case(
            f"{metric} rises once, while the pod of the GPU ends",
            {
                _gpu(metric, 0, "job"): "0x9 stale",
                _gpu(metric, 0): "_x10 1x120",
                _gpu(metric, 1): "3x130",
            },
            {alert: {9: SILENT, 11: [_of_gpu(0)], 60: [_of_gpu(0)], 75: SILENT}},
        )
        for alert, metric in (
            ("GpuCiEccUncorrectable", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
            ("GpuCiRowsRemapped", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        )
    ),
    Case(
        "a row remap fails",
        {_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0): "0x4 1x5 0x5", _gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1): "0x20"},
        {"GpuCiRowRemapFailed": {4: SILENT, 5: [_of_gpu(0)], 11: SILENT}},
    ),
    Case(
        "a hot GPU of a machine, as the gateway writes its series",
        _pushed("oci-vm", "90x20 70x10"),
        {"GpuCiGpuHot": {9: SILENT, 10: [{"kubernetes_node": "oci-vm/inst-1", "gpu": "0"}], 25: SILENT}},
    ),
    Case(
        "hot GPUs",
        {_gpu("DCGM_FI_DEV_GPU_TEMP", 0): "86x20 85x20", _gpu("DCGM_FI_DEV_GPU_TEMP", 1): "85x40"},
        {"GpuCiGpuHot": {9: SILENT, 10: [_of_gpu(0)], 21: SILENT}},
    ),
    Case(
        "throttled GPUs",
        {
            _gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", gpu, clock_event=event): samples
            for gpu, event, samples in (
                (0, "hw_thermal", "1x20 0x20"),
                (1, "gpu_idle", "1x40"),
                (2, "power_cap", "1x40"),
                (3, "hw_slowdown", "0x40"),
            )
        },
        {"GpuCiGpuThrottled": {9: SILENT, 10: [_of_gpu(0, clock_event="hw_thermal")], 21: SILENT}},
    ),
)


# -- money -------------------------------------------------------------------------------------------------------------


def _spent(nodes: str) -> dict[str, str]:
    """A plan of 10 USD an hour, of which 2 are shared and 3 are a node's."""
    return {
        series("gpu_ci:node_usd_per_hour", node="a"): nodes,
        series("gpu_ci:node_usd_per_hour", node="b"): "3x60",
        "gpu_ci:shared_usd_per_hour": "2x60",
        "gpu_ci:planned_worst_usd_per_hour": "10x60",
    }


SPENDING = (
    Case(
        "a reservation that ends in 23 hours",
        {"up": "1x70"},
        {"GpuCiReservationEnds": {59: SILENT, 60: [{"pool": "p4"}], 70: [{"pool": "p4"}]}},
    ),
    Case(
        "spending above the plan",
        _spent("5.015x20 5x20"),
        {"GpuCiSpendingAbovePlan": {14: SILENT, 15: [{}], 21: SILENT}},
    ),
    Case(
        "spending exactly a cent above a plan of nothing",
        {
            "gpu_ci:node_usd_per_hour": "0.01x60",
            "gpu_ci:shared_usd_per_hour": "0x60",
            "gpu_ci:planned_worst_usd_per_hour": "0x60",
        },
        {"GpuCiSpendingAbovePlan": {20: SILENT}},
    ),
    Case("spending within a cent of the plan", _spent("5.0075x60"), {"GpuCiSpendingAbovePlan": {20: SILENT}}),
)


# -- starts ------------------------------------------------------------------------------------------------------------

_BOOT = "kubelet_node_startup_{}_duration_seconds"
_PHASES = ("pod", "schedule", "capacity", "boot", "plugin", "pull", "register", "total")


def _start(
    pod: str, name: str, wanted: int, created: int, node: int, scheduled: int, started: int, job: int, boot: tuple[float, ...]
) -> dict[str, str]:
    """A runner that exists for three minutes, on a node of its own. `boot` are the seconds of the parts of the boot."""
    of_pod = {"namespace": f"runners-{name}", "pod": pod}
    times: dict[str, float] = {
        series("kube_customresource_ephemeralrunner_created", **of_pod): wanted,
        series("kube_customresource_ephemeralrunner_job_started", **of_pod): job,
        series("kube_pod_created", **of_pod, uid=pod): created,
        series("kube_pod_info", **of_pod, uid=pod, node=pod): 1,
        series("kube_pod_status_scheduled_time", **of_pod, uid=pod): scheduled,
        series("kube_pod_container_state_started", **of_pod, uid=pod, container="runner"): started,
        series("kube_pod_container_state_started", **of_pod, uid=pod, container="proxy"): started + 1,
        series("kube_node_created", node=pod): node,
    }
    for part, seconds in zip(("pre_kubelet", "pre_registration", "registration"), boot, strict=True):
        times[series(_BOOT.format(part), node=pod, metrics_path="/metrics")] = seconds
    return {each: f"{seconds}x3 stale" for each, seconds in times.items()}


_STARTS = (
    # The node a is younger than its pod, and so are d and e. Kubelet of d has started again.
    _start("a", "gpu-t4", 60, 62, 200, 290, 410, 425, (30, 8, 2))
    | _start("b", "gpu-t4", 100, 106, 0, 126, 130, 135, (30, 8, 2))
    | _start("c", "gpu-t4", 290, 300, 300, 340, 360, 385, (30, 8, 2))
    | _start("d", "gpu-t4", 400, 404, 504, 544, 604, 639, (0, 0, 0))
    | _start("e", "gpu-t4", 700, 708, 808, 858, 938, 983, (1, 0.25, 0.25))
    # A set with a minimum: its runner is ready before the job exists.
    | _start("f", "gpu-keep", 3, 6, 0, 13, 22, 3600, (30, 8, 2))
)


def _phases(name: str, values: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    return {
        series("gpu_ci:start_phase_seconds:" + name, scale_set=scale_set, phase=phase): value
        for scale_set, found in values.items()
        for phase, value in zip(_PHASES, found, strict=False)
    }


STARTS: tuple[Case, ...] = (
    Case(
        "runners on new and on ready nodes, in the last hour and before",
        _STARTS
        # A pod that is not a runner, on a new node.
        | {
            key: samples
            for key, samples in _start("web", "none", 1, 5, 9, 20, 30, 40, (1, 1, 1)).items()
            if "ephemeralrunner" not in key
        },
        values={
            ('gpu_ci:start_phase_seconds:p50{scale_set="gpu-t4"}', 50): _phases(
                "p50", {"gpu-t4": (6, 30, 98.25, 20.75, 50, 60, 25, 239)}
            ),
            ('round(gpu_ci:start_phase_seconds:p95{scale_set="gpu-t4"}, 0.001)', 50): {
                key.replace("gpu_ci:start_phase_seconds:p95", ""): value
                for key, value in _phases("p95", {"gpu-t4": (9.6, 39, 98.475, 38.075, 86, 112, 43, 348.6)}).items()
            },
            ('gpu_ci:start_phase_seconds:p50{scale_set!="gpu-t4"}', 50): {
                series("gpu_ci:start_phase_seconds:p50", scale_set="gpu-keep", phase=phase): value
                for phase, value in (("pod", 3), ("schedule", 7), ("pull", 9))
            },
            ('gpu_ci:start_phase_seconds:p95{scale_set!="gpu-t4"}', 50): {
                series("gpu_ci:start_phase_seconds:p95", scale_set="gpu-keep", phase=phase): value
                for phase, value in (("pod", 3), ("schedule", 7), ("pull", 9))
            },
            ("gpu_ci:starts", 50): {
                series("gpu_ci:starts", scale_set="gpu-t4", node="new"): 3,
                series("gpu_ci:starts", scale_set="gpu-t4", node="ready"): 2,
                series("gpu_ci:starts", scale_set="gpu-keep", node="ready"): 1,
            },
            **{(f"gpu_ci:{name}", 70): {} for name in ("start_phase_seconds:p50", "start_phase_seconds:p95", "starts")},
        },
    ),
)


def _job_started(
    pod: str, created: int, started: int, container: str = "job", space: str = "runners-gpu-p4-jobs"
) -> dict[str, str]:
    """The pod of a job in a container, which exists for three minutes."""
    of_pod = {"namespace": space, "pod": pod, "uid": pod}
    times = {
        series("kube_pod_created", **of_pod): created,
        series("kube_pod_container_state_started", **of_pod, container=container): started,
    }
    return {key: f"{seconds}x3 stale" for key, seconds in times.items()}


STARTS += (
    Case(
        "jobs in containers, a service, and a container of another namespace that is called job",
        _job_started("a-workflow", 60, 360)
        | _job_started("b-workflow", 100, 500)
        | _job_started("c-workflow", 100, 900, "redis")
        | _job_started("d", 100, 900, space="research"),
        values={
            ("gpu_ci:start_phase_seconds:p50", 50): {
                series("gpu_ci:start_phase_seconds:p50", scale_set="gpu-p4", phase="job"): 350
            },
            ("gpu_ci:start_phase_seconds:p95", 50): {
                series("gpu_ci:start_phase_seconds:p95", scale_set="gpu-p4", phase="job"): 395
            },
            **{(f"gpu_ci:start_phase_seconds:{quantile}", 70): {} for quantile in ("p50", "p95")},
        },
    ),
)


# -- machines ----------------------------------------------------------------------------------------------------------


def _jobs(name: str, samples: str) -> dict[str, str]:
    """Running jobs of a set."""
    return {series("gpu_ci:jobs_running", scale_set=name): samples}


SILENT_SETS = (
    Case(
        "jobs run and no machine pushes, until one does",
        _jobs("oci-vm", "1x40") | _jobs("oci-job", "1x40") | _pushed("oci-vm", "_x20 40x20") | _pushed("oci-job", "40x40"),
        {"GpuCiMachinesSilent": {14: SILENT, 15: [{"scale_set": "oci-vm"}], 19: [{"scale_set": "oci-vm"}], 21: SILENT}},
    ),
    Case(
        "no job runs, machines may be elsewhere, a node is not a machine",
        _jobs("oci-vm", "0x40") | _jobs("oci-away", "1x40") | _jobs("gpu-t4", "1x40"),
        {"GpuCiMachinesSilent": {20: SILENT}},
    ),
    Case(
        "a node's series are not a machine's",
        _jobs("oci-job", "1x40") | {series("DCGM_FI_DEV_GPU_TEMP", kubernetes_node="n", gpu="0"): "40x40"},
        {"GpuCiMachinesSilent": {20: [{"scale_set": "oci-job"}]}},
    ),
)


# -- ends --------------------------------------------------------------------------------------------------------------


def _ends(what: str, samples: str, known: str = "yes") -> dict[str, str]:
    """The last good day of something pinned, in seconds."""
    return {series("gpu_ci:end_timestamp_seconds", what=what, known=known): samples}


def _end(what: str, known: str = "yes") -> Mapping[str, str]:
    """The labels of its alert."""
    return {"what": what, "known": known}


_RESERVED = _end("reservation cr-0123456789abcdef0 of pool p4")
"""The reservation of the fleet ends a day after the time 0."""

ENDS = (
    Case(
        "a last good day that is 14, 9 and 3 days away, and one that moves",
        # Each is 20 minutes more than the days of its alert.
        _ends("known", "1210800x60") | _ends("possible", "778800x60", "no") | _ends("near", "260400x30 1300000x30"),
        {
            "GpuCiVersionEndsSoon": {
                19: [_end("near"), _RESERVED],
                20: [_end("known"), _end("possible", "no"), _end("near"), _RESERVED],
                40: [_end("known"), _end("possible", "no"), _RESERVED],
            },
            "GpuCiVersionEndsNow": {19: [_RESERVED], 20: [_end("near"), _RESERVED], 40: [_RESERVED]},
        },
    ),
    Case(
        "a possible day has 9 days and a known one 14",
        _ends("possible", "1000000x10", "no") | _ends("known", "1000000x10"),
        {"GpuCiVersionEndsSoon": {5: [_end("known"), _RESERVED]}},
    ),
)


# -- seed 001 ----------------------------------------------------------------------------------------------------------

SEED = Case(
    "the three queries of seed 001",
    {
        series(metric, kubernetes_node=node, gpu="0", UUID="GPU-1", modelName="Tesla T4"): f"{value}x10"
        for node, values in (("gpu-node-1", (87, 9021, 64)), ("gpu-node-2", (1, 2, 3)))
        for metric, value in zip((_UTIL, _USED, "DCGM_FI_DEV_GPU_TEMP"), values, strict=True)
    },
    values={
        (f'{metric}{{kubernetes_node="gpu-node-1"}}', 5): {
            series(metric, kubernetes_node="gpu-node-1", gpu="0", UUID="GPU-1", modelName="Tesla T4"): value
        }
        for metric, value in ((_UTIL, 87), (_USED, 9021), ("DCGM_FI_DEV_GPU_TEMP", 64))
    },
)

SUITES = (
    Suite(("queue",), QUEUE),
    Suite(("sets",), SETS),
    Suite(("containers",), CONTAINERS),
    Suite(("nodes", "pods"), NODES),
    Suite(("nodes", "use"), USE),
    Suite(("faults",), FAULTS),
    Suite(("xid",), XIDS_OF_A_GPU),
    Suite(("machines",), SILENT_SETS),
    Suite(("spending",), SPENDING),
    Suite(("starts",), STARTS, every=10),
    Suite(("ends",), ENDS),
    Suite((), (SEED,)),
)
"""All cases. promtool evaluates every rule in every minute of every case, so each case has only the groups that it needs.
Those of the starts read an hour in steps of a minute, so they run every 10 minutes."""
