"""Configs of NVIDIA's device plugin, one for each kind of pool, in a ConfigMap whose name contains a hash of its content.

The plugin's pods do not notice a changed ConfigMap (NVIDIA/gpu-operator, time-slicing). So a changed ConfigMap gets another name,
and Kubernetes recreates the pods. Format: NVIDIA/k8s-device-plugin v0.20.0, api/config/v1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleet.facts.scheduling import GPU_RESOURCE
from fleet.settings.sharing import GpuAccess, Replicated, config_name

PLUGIN_CONFIG_DEFAULT = "environment"
"""The config of nodes without the label. With it the NVIDIA runtime reads a container's GPUs from its environment."""
_FIELDS = {"time-slicing": "timeSlicing", "mps": "mps"}


@dataclass(frozen=True, slots=True)
class PluginConfigs:
    """Files by the name in the nodes' label. Nodes without the label get `default`.

    `cdi` says whether some nodes get their GPUs by the Container Device Interface.
    """

    files: dict[str, str]
    cdi: bool
    default: str = PLUGIN_CONFIG_DEFAULT

    @property
    def name(self) -> str:
        """Name of the ConfigMap, with a hash of its content."""
        digest = hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()
        return f"device-plugin-configs-{digest[:10]}"

    @property
    def labels(self) -> list[str]:
        """Values of the nodes' label that select a config, without the default."""
        return [name for name in self.files if name != self.default]

    def manifest(self, namespace: str) -> dict[str, Any]:
        """The ConfigMap, in the namespace of the plugin's pods."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": namespace},
            "data": self.files,
        }


def plugin_configs(pools: Iterable[GpuAccess], *, by_operator: bool) -> PluginConfigs | None:
    """The configs that some pools need. None if the plugin's defaults are right for all pools.

    The operator sets by variables how containers get GPUs, and they override every config. So with the operator only sharing
    needs a config.
    """
    kinds = {config_name(pool): pool for pool in pools}
    named = {name: pool for name, pool in kinds.items() if name}
    if not any(pool.sharing for pool in named.values()) if by_operator else not named:
        return None
    files = {name: _file(pool, by_operator) for name, pool in sorted(named.items())}
    return PluginConfigs(
        {PLUGIN_CONFIG_DEFAULT: _text(None if by_operator else "envvar"), **files}, any(pool.cdi for pool in named.values())
    )


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
