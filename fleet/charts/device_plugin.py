"""Values of NVIDIA's device plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import Chart, Pod, manifests, requests
from fleet.charts.plugin_configs import PluginConfigs
from fleet.facts.pods import CONFINED
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_TOLERATION, Toleration

NAMESPACE = "nvidia-device-plugin"
PLUGIN_POD = Pod("nvidia-device-plugin", 50, 100, on="GPU nodes")
"""The chart has no requests by default, so this project sets them."""
MPS_POD = Pod("nvidia-mps-control-daemon", PLUGIN_POD.cpu, PLUGIN_POD.memory, on="GPU nodes", strategy="mps")
"""The chart gives the control daemon of MPS the plugin's requests (templates/daemonset-mps-control-daemon.yml)."""


def device_plugin(tolerations: Sequence[Toleration] = (GPU_TOLERATION,), configs: PluginConfigs | None = None) -> Chart:
    """NVIDIA's device plugin. It alone advertises `nvidia.com/gpu` on nodes whose image has the driver and the toolkit.

    `tolerations` are those of the cluster's provider. `configs` are needed if a pool shares its GPUs or gets them by the
    Container Device Interface. The pool's nodes name their config by the label `nvidia.com/device-plugin.config`. The sidecar
    that reads the label has no requests (templates/daemonset-device-plugin.yml).
    """
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": GPU_PRESENT_LABEL, "operator": "In", "values": ["true"]}]}]}
    return Chart(
        "nvidia-device-plugin",
        "nvidia-device-plugin",
        NAMESPACE,
        {
            # This is close to the default affinity. The default also accepts labels that only NFD sets.
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, *manifests(tolerations)],
            # No limit: the control daemon of MPS would get the same one, and the MPS server of a node runs in its container.
            "resources": requests(PLUGIN_POD),
            "gfd": {"enabled": False},
        }
        | (_with_configs(configs) if configs else {}),
        (PLUGIN_POD, MPS_POD),
        folder="infrastructure/controllers/device-plugin",
        # The plugin mounts the kubelet's socket folder from the host. Only this level allows that.
        pod_security="privileged",
    )


def _with_configs(configs: PluginConfigs) -> dict[str, Any]:
    """The values that several configs need (NVIDIA/k8s-device-plugin v0.20.0, docs/cdi.md and the chart's templates).

    A value `deviceListStrategy` would become an environment variable and override every config. So only the configs set it.
    """
    return {
        "config": {"name": configs.name, "default": configs.default},
        # The chart adds the capability SYS_ADMIN for configs that may set MIG or volume mounts. These configs set neither.
        "migStrategy": "none",
        "securityContext": CONFINED,
    } | (
        # The plugin writes each node's CDI specification from the driver's files, which are below this mount.
        {"nvidiaDriverRoot": "/"} if configs.cdi else {}
    )
