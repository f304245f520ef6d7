"""The ConfigMap of the device plugin's configs."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.device_plugin import PluginConfigs


def config_map(
    logical_name: str, configs: PluginConfigs | None, home: kubernetes.core.v1.Namespace, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """The ConfigMap, if there are configs. New content has a new name, so the old one is deleted only after it exists."""
    if configs is None:
        return []
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=configs.name, namespace=home.metadata.name)
    opts = pulumi.ResourceOptions(parent=parent)
    return [kubernetes.core.v1.ConfigMap(logical_name, metadata=metadata, data=configs.files, opts=opts)]
