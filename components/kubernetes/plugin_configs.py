"""The device plugin's configs: their arguments, and the ConfigMap."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.plugin_configs import PluginConfigs
from fleet.settings.model import Model
from fleet.settings.sharing import AnySharing


class Access(Model):
    """How the containers of one kind of node get their GPUs, as an argument of a component."""

    sharing: AnySharing | None = None
    cdi: bool = False


def config_map(
    logical_name: str, configs: PluginConfigs | None, home: kubernetes.core.v1.Namespace, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """The ConfigMap, if there are configs. New content has a new name, so the old one is deleted only after it exists."""
    if configs is None:
        return []
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=configs.name, namespace=home.metadata.name)
    opts = pulumi.ResourceOptions(parent=parent)
    return [kubernetes.core.v1.ConfigMap(logical_name, metadata=metadata, data=configs.files, opts=opts)]
