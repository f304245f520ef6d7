"""Each Helm chart as plain data, made by pure functions of the settings: one module per chart.

A module may define two names that this package finds by itself. `NAMESPACE` is the namespace that holds this chart alone.
`plain_chart` returns the chart for a cluster; it is for charts that every cluster gets, and that need nothing but its settings.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from fleet.charts.arc import APP_SECRET, CONTROLLER, arc_controller, runner_set
from fleet.charts.arc import NAMESPACE as CONTROLLER_NAMESPACE
from fleet.charts.argo_cd import APPLICATION_HEALTH, ARGO_CD, argo_cd
from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod
from fleet.charts.cluster_autoscaler import AUTOSCALER, cluster_autoscaler
from fleet.charts.device_plugin import NAMESPACE as DEVICE_PLUGIN_NAMESPACE
from fleet.charts.device_plugin import device_plugin
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE
from fleet.charts.gpu_operator import OPERATOR, gpu_operator, runtime_class
from fleet.charts.kueue import KUEUE, kueue
from fleet.charts.kueue import NAMESPACE as KUEUE_NAMESPACE
from fleet.charts.plugin_configs import PLUGIN_CONFIG_DEFAULT, PluginConfigs, plugin_configs
from fleet.settings.cluster import Cluster

_MODULES = tuple(importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
NAMESPACES = frozenset(module.NAMESPACE for module in _MODULES if hasattr(module, "NAMESPACE"))
"""Namespaces that hold one chart each."""
PLAIN: tuple[Callable[[Cluster], Chart], ...] = tuple(module.plain_chart for module in _MODULES if hasattr(module, "plain_chart"))
"""Charts that every cluster gets whose provider has no add-on for it (`Cluster.provided`)."""

__all__ = [
    "APPLICATION_HEALTH",
    "APP_SECRET",
    "ARGO_CD",
    "AUTOSCALER",
    "CONTROLLER",
    "CONTROLLER_NAMESPACE",
    "DEVICE_PLUGIN_NAMESPACE",
    "KUBE_SYSTEM",
    "KUEUE",
    "KUEUE_NAMESPACE",
    "NAMESPACES",
    "OPERATOR",
    "OPERATOR_NAMESPACE",
    "PLAIN",
    "PLUGIN_CONFIG_DEFAULT",
    "Chart",
    "PluginConfigs",
    "Pod",
    "arc_controller",
    "argo_cd",
    "cluster_autoscaler",
    "device_plugin",
    "gpu_operator",
    "kueue",
    "plugin_configs",
    "runner_set",
    "runtime_class",
]
