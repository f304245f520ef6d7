"""Values of NVIDIA's device plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import CONFINED, Chart, manifests, published, requests
from fleet.charts.plugin_configs import PluginConfigs
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_TOLERATION, Toleration
from fleet.facts.versions import DAEMONSETS

DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"


def device_plugin(tolerations: Sequence[Toleration] = (GPU_TOLERATION,), configs: PluginConfigs | None = None) -> Chart:
    """NVIDIA's device plugin: the one advertiser of `nvidia.com/gpu` on nodes whose image brings driver and toolkit.

    `tolerations` are those of the cluster's provider. `configs` are there where some pool shares its GPUs or gets them by the
    Container Device Interface: its nodes name theirs by the label `nvidia.com/device-plugin.config`.
    """
    ours = DAEMONSETS["nvidia-device-plugin"]
    on_gpu_nodes = {"key": GPU_PRESENT_LABEL, "operator": "In", "values": ["true"]}
    return published(
        "nvidia-device-plugin",
        "nvidia-device-plugin",
        DEVICE_PLUGIN_NAMESPACE,
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
            "resources": requests(ours.cpu, ours.memory),
            "gfd": {"enabled": False},
        }
        | (_told(configs) if configs else {}),
        # The plugin mounts the kubelet's socket folder from the host, which only this level allows.
        pod_security="privileged",
    )


def _told(configs: PluginConfigs) -> dict[str, Any]:
    """What several configs need besides (NVIDIA/k8s-device-plugin v0.20.0, docs/cdi.md and the chart's templates).

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
