"""The device plugin's configs in the cluster."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.plugin_configs import PluginConfigs


def config_map(
    logical_name: str, configs: PluginConfigs | None, home: kubernetes.core.v1.Namespace, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """The ConfigMap, if there is anything to tell. A new content has a new name: the new one is made before the old one goes."""
    if configs is None:
        return []
    return [
        kubernetes.core.v1.ConfigMap(
            logical_name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=configs.name, namespace=home.metadata.name),
            data=configs.files,
            opts=pulumi.ResourceOptions(parent=parent),
        )
    ]
