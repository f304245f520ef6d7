"""Values of NVIDIA's DCGM exporter, where no GPU operator runs one.

Facts: NVIDIA/dcgm-exporter 4.5.3-4.8.2, chart 4.8.2.
"""

import hashlib
from collections.abc import Sequence

from fleet.charts.chart import Chart, Pod, fixed, manifests, requests
from fleet.facts.scheduling import GPU_TOLERATION, Toleration
from fleet.facts.tables import text

DCGM_EXPORTER = "dcgm-exporter"
NAMESPACE = DCGM_EXPORTER
EXPORTER_POD = Pod(DCGM_EXPORTER, 100, 512, on="GPU nodes")
"""It uses 400 to 500 MiB for any number of GPUs (NVIDIA/dcgm-exporter#609, pytorch/ci-infra#1011)."""
COUNTERS = text("dcgm-counters.csv")
"""Everything that an exporter collects, in its own format."""
CHANGED = hashlib.sha256(COUNTERS.encode()).hexdigest()[:10]
"""A hash of the counters. The exporter reads its file only when it starts."""
INTERVAL = {"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}
"""Milliseconds between two readings of the GPUs. The default is 30 s: a scrape every 15 s would read each value twice."""
ENGINE_PORT = 5555


def counters() -> list[tuple[str, str]]:
    """(DCGM field, type in Prometheus) of everything that an exporter collects."""
    rows = (line.split(",") for line in COUNTERS.splitlines() if not line.startswith("#"))
    return [(name.strip(), kind.strip()) for name, kind, *_ in rows]


def remote_engine(address: str) -> dict[str, str]:
    """The variable that makes the exporter use a DCGM engine of its node instead of its own.

    Two engines that read profiling fields of one GPU fail (NVIDIA/DCGM#56, #106).
    """
    return {"name": "DCGM_REMOTE_HOSTENGINE_INFO", "value": address}


def dcgm_exporter(
    tolerations: Sequence[Toleration] = (GPU_TOLERATION,), *, engine_on_nodes: bool = False, runtime_class: str = ""
) -> Chart:
    """The exporter on GPU nodes, with the counters of `dcgm-counters.csv`, read every 15 s.

    `tolerations` are those of the cluster's provider. `engine_on_nodes`: whether the nodes run a DCGM engine, which listens on
    port 5555 of the node. `runtime_class` is the RuntimeClass that a pod must name to see GPUs, or empty.
    """
    address = {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    # Kubernetes replaces $(HOST_IP) only if the variable is defined before.
    engine = [address, remote_engine(f"$(HOST_IP):{ENGINE_PORT}")] if engine_on_nodes else []
    placed = {"runtime_class": runtime_class or None, "tolerations": manifests(tolerations), **requests(EXPORTER_POD)}
    values = fixed(DCGM_EXPORTER, changed=CHANGED, counters=COUNTERS, env=[INTERVAL, *engine], **placed)
    folder, pods = "infrastructure/monitoring", (EXPORTER_POD,)
    # The exporter reads the kubelet's list of pods and GPUs from the host, and profiling needs a capability.
    return Chart(DCGM_EXPORTER, DCGM_EXPORTER, NAMESPACE, values, pods, folder, pod_security="privileged")
