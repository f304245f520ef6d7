"""Values of NVIDIA's device plugin, and its configs: one for each kind of pool, in a ConfigMap named by a hash of its content.

The plugin's pods do not notice a changed ConfigMap (NVIDIA/gpu-operator, time-slicing). So a changed ConfigMap gets another name,
and Kubernetes recreates the pods. Format: NVIDIA/k8s-device-plugin v0.20.0, api/config/v1.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, fixed, manifests, requests
from fleet.facts.pods import CONFINED
from fleet.facts.record import Record
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_RESOURCE, GPU_TOLERATION, HOST_LABEL, Toleration
from fleet.settings.sharing import GpuAccess, Replicated, config_name

DEVICE_PLUGIN = NAMESPACE = "nvidia-device-plugin"
OPERATOR_NAMESPACE = "gpu-operator"
OTHER_ADVERTISERS = {
    OPERATOR_NAMESPACE: {"app": "nvidia-device-plugin-daemonset"},
    KUBE_SYSTEM: {"k8s-app": "nvidia-gpu-device-plugin"},
}
"""Labels of the device plugins of the operator and of OKE's add-on, by namespace (NVIDIA/gpu-operator v26.7.0,
assets/state-device-plugin/0500_daemonset.yaml; OguzPastirmaci/misc, oke-multiple-device-plugins/time-slicing, 2026-11-27)."""
PLUGIN_POD = Pod(DEVICE_PLUGIN, 50, 100, on="GPU nodes")
"""The chart has no requests by default, so this project sets them."""
MPS_POD = Pod("nvidia-mps-control-daemon", PLUGIN_POD.cpu, PLUGIN_POD.memory, on="GPU nodes", strategy="mps")
"""The chart gives the control daemon of MPS the plugin's requests (templates/daemonset-mps-control-daemon.yml)."""


PLUGIN_CONFIG_DEFAULT = "environment"
"""The config of nodes without the label. With it the NVIDIA runtime reads a container's GPUs from its environment."""
_FIELDS = {"time-slicing": "timeSlicing", "mps": "mps"}


class PluginConfigs(Record):
    """Files by the name in the nodes' label. Nodes without the label get `default`.

    `cdi` says whether some nodes get their GPUs by the Container Device Interface.
    """

    files: dict[str, str]
    cdi: bool
    default: str = PLUGIN_CONFIG_DEFAULT

    @property
    def name(self) -> str:
        """Name of the ConfigMap, with a hash of its content."""
        return f"device-plugin-configs-{hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()[:10]}"

    @property
    def labels(self) -> list[str]:
        """Values of the nodes' label that select a config, without the default."""
        return [name for name in self.files if name != self.default]


def plugin_configs(pools: Iterable[GpuAccess], *, by_operator: bool) -> PluginConfigs | None:
    """The configs that some pools need. None if the plugin's defaults are right for all pools.

    The operator sets by variables how containers get GPUs, and they override every config. So with the operator only sharing
    needs a config.
    """
    named = {name: pool for pool in pools if (name := config_name(pool))}
    if not any(pool.sharing for pool in named.values()) if by_operator else not named:
        return None
    files = {name: _file(pool, by_operator) for name, pool in sorted(named.items())}
    first = _text(None if by_operator else "envvar")
    return PluginConfigs({PLUGIN_CONFIG_DEFAULT: first, **files}, any(pool.cdi for pool in named.values()))


def _file(pool: GpuAccess, by_operator: bool) -> str:
    sharing = pool.sharing if isinstance(pool.sharing, Replicated) else None
    return _text(None if by_operator else "cdi-cri" if pool.cdi else "envvar", sharing)


def _text(strategy: str | None, sharing: Replicated | None = None) -> str:
    """One file. Flags are written as JSON, which is valid YAML."""
    lines = ["version: v1"]
    if strategy is not None:
        lines += ["flags:", "  migStrategy: none", "  plugin:", f"    deviceListStrategy: {strategy}"]
    if sharing is not None:
        lines += [
            "sharing:",
            f"  {_FIELDS[sharing.strategy]}:",
            f"    renameByDefault: {json.dumps(sharing.rename)}",
            f"    failRequestsGreaterThanOne: {json.dumps(not sharing.allow_several)}",
            "    resources:",
            f"      - name: {GPU_RESOURCE}",
            f"        replicas: {sharing.replicas}",
        ]
    return "\n".join(lines)


GPU_NODES: Mapping[str, str] = MappingProxyType({GPU_PRESENT_LABEL: "true"})
"""A label of nodes with GPUs. Pools of a stack have it, and GPU feature discovery sets it."""


def device_plugin(
    tolerations: Sequence[Toleration] = (GPU_TOLERATION,),
    configs: PluginConfigs | None = None,
    selector: Mapping[str, str] = GPU_NODES,
) -> Chart:
    """NVIDIA's device plugin. It alone advertises `nvidia.com/gpu` on nodes whose image has the driver and the toolkit.

    It runs on nodes with the labels of `selector`. `tolerations` are those of the cluster's provider. `configs` are needed if a
    pool shares its GPUs or gets them by the Container Device Interface. The pool's nodes name their config by the label
    `nvidia.com/device-plugin.config`. The sidecar that reads the label has no requests (templates/daemonset-device-plugin.yml).

    Its pod and that of another advertiser never share a node: the scheduler keeps the anti-affinity of a new pod and of pods that
    run. So the second one waits until the first is gone, in both directions.
    """
    others = [
        {"topologyKey": HOST_LABEL, "namespaces": [namespace], "labelSelector": {"matchLabels": labels}}
        for namespace, labels in OTHER_ADVERTISERS.items()
    ]
    labels = [{"key": key, "operator": "In", "values": [value]} for key, value in selector.items()]
    critical = {"key": "CriticalAddonsOnly", "operator": "Exists"}
    placed = {"labels": labels, "others": others, "resources": requests(PLUGIN_POD)}
    values = fixed(DEVICE_PLUGIN, tolerations=[critical, *manifests(tolerations)], **placed)
    values |= _with_configs(configs) if configs else {}
    folder, pods = "infrastructure/controllers/device-plugin", (PLUGIN_POD, MPS_POD)
    # The plugin mounts the kubelet's socket folder from the host. Only this level allows that.
    return Chart(DEVICE_PLUGIN, DEVICE_PLUGIN, NAMESPACE, values, pods, folder, pod_security="privileged")


def _with_configs(configs: PluginConfigs) -> dict[str, Any]:
    """The values that several configs need (NVIDIA/k8s-device-plugin v0.20.0, docs/cdi.md and the chart's templates).

    A value `deviceListStrategy` would become an environment variable and override every config. So only the configs set it.
    """
    # The plugin writes each node's CDI specification from the driver's files, which are below this mount.
    mounted = {"nvidiaDriverRoot": "/"} if configs.cdi else {}
    config = {"name": configs.name, "default": configs.default}
    # The chart adds the capability SYS_ADMIN for configs that may set MIG or volume mounts. These configs set neither.
    return {"config": config, "migStrategy": "none", "securityContext": CONFINED} | mounted
