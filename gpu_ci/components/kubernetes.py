"""Components for any Kubernetes cluster: `pip install 'gpu-ci[kubernetes]'`."""

from components.kubernetes.arc_runner_set import ArcRunnerSet, ArcRunnerSetArgs
from components.kubernetes.enablement import DevicePluginStack, DevicePluginStackArgs, GpuOperator, GpuOperatorArgs

__all__ = ["ArcRunnerSet", "ArcRunnerSetArgs", "DevicePluginStack", "DevicePluginStackArgs", "GpuOperator", "GpuOperatorArgs"]
