"""Series as the exporters of a cluster and the recording rules write them: an hour of samples, one each minute.

Node a is a T4 that a job uses. Node b has four A10G, of which one is lost; its job uses one, and it has every kind of error. The
exporter of node c does not answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fleet.settings.namespaces import runner_namespace

START = 1_700_000_000
MINUTES = 60
END = START + MINUTES * 60
"""Seconds since 1970."""

Labels = dict[str, str]
Series = tuple[str, Labels, float]

A, B, C = (
    "ip-10-0-1-10.us-west-2.compute.internal",
    "ip-10-0-1-11.us-west-2.compute.internal",
    "ip-10-0-1-12.us-west-2.compute.internal",
)
NODES = {A: ("t4", "g4dn.2xlarge", 1), B: ("a10g", "g5.12xlarge", 4), C: ("a10g", "g5.12xlarge", 4)}
GPUS = [(A, "0"), (B, "0"), (B, "1"), (B, "2")]
JOBS = {
    (A, "0"): ("gpu-t4", "gpu-t4-x7k2p-runner-4fj9d", "example/vision"),
    (B, "0"): ("gpu-a10g", "gpu-a10g-m2c8v-runner-q5w7z", "example/speech"),
}
KSM = {"job": "kube-state-metrics", "instance": "10.0.2.4:8080"}
PEAKS = {("gpu_ci:gpu_memory_used_ratio", 20): 0.9}
"""The value of a metric in one minute. In all other minutes a series has the same value."""


def text() -> str:
    """All samples in OpenMetrics."""
    lines = [
        f"{name}{{{_written(labels)}}} {float(PEAKS.get((name, minute), value))} {START + minute * 60}\n"
        for name, labels, value in series()
        for minute in range(MINUTES + 1)
    ]
    return "".join([*lines, "# EOF\n"])


def _written(labels: Labels) -> str:
    return ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items())


def series() -> list[Series]:
    """Every series with its value."""
    return [*_listeners(), *_dcgm(), *_kubernetes(), *_recorded(), *_kueue()]


def _listeners() -> Iterator[Series]:
    for name, busy in (("gpu-t4", 1), ("gpu-t4-b", 0), ("gpu-a10g", 1)):
        labels = {
            "scale_set": name,
            "name": name,
            "namespace": "arc-systems",
            "exported_namespace": runner_namespace(name),
            "organization": "example",
            "job": "arc-listener",
            "instance": f"10.0.2.{len(name)}:8080",
        }
        yield "gha_desired_runners", labels, busy
        yield "gha_max_runners", labels, 2


_VALUES = {
    "DCGM_FI_DEV_GPU_TEMP": 61,
    "DCGM_FI_DEV_POWER_USAGE": 68,
    "DCGM_FI_DEV_SM_CLOCK": 1590,
    "DCGM_FI_DEV_FB_USED": 9000,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.2,
    "DCGM_FI_PROF_SM_ACTIVE": 0.4,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 3,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 1,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
}


def _dcgm() -> Iterator[Series]:
    for node, gpu in GPUS:
        labels = {
            "gpu": gpu,
            "UUID": f"GPU-{node}-{gpu}",
            "pci_bus_id": f"00000000:00:1{gpu}.0",
            "device": f"nvidia{gpu}",
            "modelName": "NVIDIA A10G",
            "Hostname": node,
            "kubernetes_node": node,
            "namespace": "gpu-operator",
            "pod": "nvidia-dcgm-exporter-7xk2p",
            "container": "nvidia-dcgm-exporter",
            "job": "nvidia-dcgm-exporter",
            "instance": f"{node}:9400",
        } | _pod(node, gpu)
        for name, value in _VALUES.items():
            yield name, labels, value
        window = labels | {"window_size_in_ms": "300000"}
        yield "DCGM_EXP_XID_ERRORS_COUNT", window | ({"xid": "94"} if (node, gpu) == (B, "0") else {}), 1
        yield "DCGM_EXP_CLOCK_EVENTS_COUNT", window | {"clock_event": "sw_thermal"}, 2
        yield "DCGM_EXP_CLOCK_EVENTS_COUNT", window | {"clock_event": "gpu_idle"}, 5
        yield "DCGM_EXP_GPU_HEALTH_STATUS", labels | {"health_watch": "MEM", "health_error_code": ""}, 0


def _pod(node: str, gpu: str) -> Labels:
    """The labels of the pod that holds a GPU."""
    if (node, gpu) not in JOBS:
        return {}
    scale_set, pod, _ = JOBS[node, gpu]
    return {"exported_namespace": runner_namespace(scale_set), "exported_pod": pod, "exported_container": "runner"}


def _kubernetes() -> Iterator[Series]:
    for node, (pool, machine, gpus) in NODES.items():
        own = KSM | {"node": node}
        yield "kube_node_labels", own | {"label_gpu_ci_pool": pool, "label_node_kubernetes_io_instance_type": machine}, 1
        yield "kube_node_status_allocatable", own | {"resource": "nvidia_com_gpu", "unit": "integer"}, gpus
        yield "kube_node_spec_unschedulable", own, 0
        for status in ("true", "false", "unknown"):
            yield "kube_node_status_condition", own | {"condition": "Ready", "status": status}, status == "true"
    yield "kube_node_labels", KSM | {"node": "ip-10-0-1-9", "label_gpu_ci_pool": "system"}, 1
    yield "kube_node_labels", KSM | {"node": "ip-10-0-1-8"}, 1
    for (node, _), (scale_set, pod, repository) in JOBS.items():
        of_pod = KSM | {"namespace": runner_namespace(scale_set), "pod": pod, "uid": pod}
        yield "kube_pod_info", of_pod | {"node": node}, 1
        yield "kube_pod_status_reason", of_pod | {"reason": "UnexpectedAdmissionError"}, node == B
        yield "kube_pod_status_phase", of_pod | {"phase": "Pending"}, node == B
        kind = {"customresource_group": "actions.github.com", "customresource_kind": "EphemeralRunner"}
        runner = KSM | kind | {"namespace": runner_namespace(scale_set), "name": pod, "repository": repository}
        yield "kube_customresource_ephemeralrunner_job_info", runner, 1
    waiting = KSM | {
        "namespace": "vision",
        "pod": "train-0",
        "uid": "train-0",
        "container": "train",
        "reason": "ImagePullBackOff",
    }
    yield "kube_pod_container_status_waiting_reason", waiting, 1


def _recorded() -> Iterator[Series]:
    for name in ("gpu-t4", "gpu-t4-b", "gpu-a10g"):
        for record, value in (("queue_seconds:p50", 30), ("queue_seconds:p95", 900), ("jobs_waiting", 1), ("jobs_running", 1)):
            yield f"gpu_ci:{record}", {"scale_set": name}, value
        for phase, seconds in (("boot", 60), ("pull", 240), ("total", 330)):
            for quantile, more in (("p50", 0), ("p95", 30)):
                yield f"gpu_ci:start_phase_seconds:{quantile}", {"scale_set": name, "phase": phase}, seconds + more
        for age, count in (("new", 1), ("ready", 3)):
            yield "gpu_ci:starts", {"scale_set": name, "node": age}, count
    for node, gpu in GPUS:
        labels = {"kubernetes_node": node, "gpu": gpu, "pool": NODES[node][0]}
        labels |= {key: value for key, value in _pod(node, gpu).items() if key != "exported_container"}
        yield "gpu_ci:gpu_utilization", labels, 0.5
        yield "gpu_ci:gpu_memory_used_ratio", labels, 0.6
    for node, (pool, machine, _) in NODES.items():
        yield "gpu_ci:node_pool", {"kubernetes_node": node, "pool": pool}, 1
        found = sum(each == node for each, _ in GPUS)
        yield "gpu_ci:node_gpus", {"kubernetes_node": node, "pool": pool}, found
        labels = {"node": node, "pool": pool, "instance_type": machine, "capacity": "on-demand"}
        yield "gpu_ci:node_usd_per_hour", labels, 1.5
        yield "gpu_ci:idle_usd_per_hour", {"pool": pool}, 0.5
    for (node, _), (scale_set, _, repository) in JOBS.items():
        of_class = {"scale_set": scale_set, "pool": NODES[node][0]}
        job = of_class | {"repository": repository, "namespace": runner_namespace(scale_set)}
        yield "gpu_ci:job_usd_per_hour", job, 0.6
        yield "gpu_ci:start_usd_per_hour", of_class, 0.1
    yield "gpu_ci:job_usd_per_hour", {"namespace": "vision", "pool": "t4"}, 0.2
    for team, usd in (("default", 0.6), ("team-b", 0.6), ("vision", 0.2), ("other", 0)):
        yield "gpu_ci:team_usd_per_hour", {"team": team}, usd
    for part in ("shared", "planned_idle", "planned_worst"):
        yield f"gpu_ci:{part}_usd_per_hour", {}, 0.25


def _kueue() -> Iterator[Series]:
    own = {"cluster_queue": "vision", "replica_role": "leader", "job": "kueue", "instance": "10.0.2.9:8443"}
    yield "kueue_pending_workloads", own | {"status": "active"}, 2
    yield "kueue_admitted_active_workloads", own, 1
