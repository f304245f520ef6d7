"""Values of NVIDIA's device plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import Chart, Pod, manifests, published, requests
from fleet.charts.plugin_configs import PluginConfigs
from fleet.facts.pods import CONFINED
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_TOLERATION, Toleration

NAMESPACE = "nvidia-device-plugin"
PLUGIN_POD = Pod("nvidia-device-plugin", 50, 100, on="GPU nodes")
"""The chart requests nothing by default, so the requests are this project's."""
MPS_POD = Pod("nvidia-mps-control-daemon", PLUGIN_POD.cpu, PLUGIN_POD.memory, on="GPU nodes", strategy="mps")
"""The chart gives the control daemon of MPS what it gives the plugin (templates/daemonset-mps-control-daemon.yml)."""


def device_plugin(tolerations: Sequence[Toleration] = (GPU_TOLERATION,), configs: PluginConfigs | None = None) -> Chart:
    """NVIDIA's device plugin: the one advertiser of `nvidia.com/gpu` on nodes whose image has driver and toolkit.

    `tolerations` are those of the cluster's provider. `configs` are needed if some pool shares its GPUs or gets them by the
    Container Device Interface: its nodes name theirs by the label `nvidia.com/device-plugin.config`. The side car that reads the
    label requests nothing here (templates/daemonset-device-plugin.yml).
    """
    on_gpu_nodes = {"key": GPU_PRESENT_LABEL, "operator": "In", "values": ["true"]}
    return published(
        "nvidia-device-plugin",
        "nvidia-device-plugin",
        NAMESPACE,
        {
            # Stated, though close to the defaults: the default affinity also accepts labels that only NFD sets.
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [on_gpu_nodes]}]
                    }
                }
            },
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *manifests(tolerations)],
            # No limit: the control daemon of MPS has the same, and the server that a node's clients share is in its container.
            "resources": requests(PLUGIN_POD),
            "gfd": {"enabled": False},
        }
        | (_told(configs) if configs else {}),
        [PLUGIN_POD, MPS_POD],
        folder="infrastructure/controllers/device-plugin",
        # The plugin mounts the kubelet's socket folder from the host, which only this level allows.
        pod_security="privileged",
    )


def _told(configs: PluginConfigs) -> dict[str, Any]:
    """The values that several configs need (NVIDIA/k8s-device-plugin v0.20.0, docs/cdi.md and the chart's templates).

    A value `deviceListStrategy` would become an environment variable, which beats every config: only the configs have it.
    """
    return {
        "config": {"name": configs.name, "default": configs.default},
        # With configs that may set MIG or volume mounts the chart adds the capability SYS_ADMIN: ours set neither.
        "migStrategy": "none",
        "securityContext": CONFINED,
    } | (
        # The plugin writes each node's CDI specification from the driver's files, which it finds below this mount.
        {"nvidiaDriverRoot": "/"} if configs.cdi else {}
    )
