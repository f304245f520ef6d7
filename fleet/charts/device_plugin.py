"""Values of NVIDIA's device plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import CONFINED, Chart, manifests, published, resources
from fleet.scheduling import GPU_PRESENT_LABEL, GPU_TOLERATION, PLUGIN_CONFIG_CDI, Toleration
from fleet.versions import DAEMONSETS

DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"

PLUGIN_CONFIG_DEFAULT = "environment"
"""The config of nodes without a label of their own: the NVIDIA runtime reads which GPUs a container gets from its environment."""


def device_plugin(tolerations: Sequence[Toleration] = (GPU_TOLERATION,), *, cdi: bool = False) -> Chart:
    """NVIDIA's device plugin: the one advertiser of `nvidia.com/gpu` on nodes whose image brings driver and toolkit.

    `tolerations` are those of the cluster's provider. `cdi` says that the nodes of some pool get their GPUs by the Container
    Device Interface: those carry the label `nvidia.com/device-plugin.config=cdi`.
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
            "resources": resources(ours.cpu, ours.memory),
            "gfd": {"enabled": False},
        }
        | (_two_configs() if cdi else {}),
        # The plugin mounts the kubelet's socket folder from the host, which only this level allows.
        pod_security="privileged",
    )


def _two_configs() -> dict[str, Any]:
    """What CDI needs besides (NVIDIA/k8s-device-plugin v0.20.0, docs/cdi.md and the chart's templates).

    A value `deviceListStrategy` would become an environment variable, which beats every config: only the configs have it.
    """
    return {
        "config": {
            "default": PLUGIN_CONFIG_DEFAULT,
            "map": {PLUGIN_CONFIG_DEFAULT: _config("envvar"), PLUGIN_CONFIG_CDI: _config("cdi-cri")},
        },
        # The plugin writes each node's CDI specification from the driver's files, which it finds below this mount.
        "nvidiaDriverRoot": "/",
        # With configs that may set MIG or volume mounts the chart adds the capability SYS_ADMIN: ours set neither.
        "migStrategy": "none",
        "securityContext": CONFINED,
    }


def _config(strategy: str) -> str:
    """A config file of the plugin's version v1, which hands devices over by one strategy."""
    return f"version: v1\nflags:\n  migStrategy: none\n  plugin:\n    deviceListStrategy: {strategy}"
