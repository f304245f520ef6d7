"""Each Helm chart as plain data, made by pure functions of the fleet: one module a chart."""

from fleet.charts.arc import (
    APP_SECRET,
    CONTROLLER,
    CONTROLLER_NAMESPACE,
    RUNNER_UID,
    arc_controller,
    runner_namespace,
    runner_set,
)
from fleet.charts.argo_cd import APPLICATION_HEALTH, ARGO_CD, argo_cd
from fleet.charts.chart import KUBE_SYSTEM, Chart, Level
from fleet.charts.cluster_autoscaler import AUTOSCALER, cluster_autoscaler
from fleet.charts.device_plugin import DEVICE_PLUGIN_NAMESPACE, device_plugin
from fleet.charts.gpu_operator import OPERATOR, OPERATOR_NAMESPACE, gpu_operator, runtime_class
from fleet.charts.kueue import KUEUE, KUEUE_NAMESPACE, kueue
from fleet.charts.plugin_configs import PLUGIN_CONFIG_DEFAULT, PluginConfigs, plugin_configs

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
    "OPERATOR",
    "OPERATOR_NAMESPACE",
    "PLUGIN_CONFIG_DEFAULT",
    "RUNNER_UID",
    "Chart",
    "Level",
    "PluginConfigs",
    "arc_controller",
    "argo_cd",
    "cluster_autoscaler",
    "device_plugin",
    "gpu_operator",
    "kueue",
    "plugin_configs",
    "runner_namespace",
    "runner_set",
    "runtime_class",
]
