"""The components of charts that make GPUs schedulable: NVIDIA's device plugin, and NVIDIA's GPU operator.

The SDK infers the package's schema from annotations, so this module does not use `from __future__ import annotations`.
"""

from typing import Any, TypedDict, TypeVar

import pulumi
import pulumi_kubernetes as kubernetes

from components.arguments import settings
from components.component import PackagedComponent
from components.kubernetes.args import GitOpsArgs, GpuAccessArgs, TolerationArgs
from components.kubernetes.deliver import deliver
from components.kubernetes.namespaces import namespace
from fleet.charts.enablement import DevicePlugin
from fleet.charts.gpu_operator import GpuOperatorSettings
from fleet.facts.scheduling import RUNTIME_CLASS

Settings = TypeVar("Settings", DevicePlugin, GpuOperatorSettings)


class Enablement(PackagedComponent[Settings]):
    """A chart that makes GPUs schedulable, in its own namespace."""

    VALIDATE = True
    """Whether Helm checks the chart's manifests against the kinds that the cluster has now."""
    AWAITS = True
    """Whether the release is ready only when its pods are."""

    def declare(self, name: str, args: Settings) -> None:
        chart, configs = args.chart, args.configs
        self.home = namespace(f"{name}-namespace", chart, parent=self, depends_on=self._after)
        needed: list[pulumi.Resource] = [self.home]
        if configs is not None:
            # New content has a new name, so the old one is deleted only after it exists.
            meta = kubernetes.meta.v1.ObjectMetaArgs(name=configs.name, namespace=self.home.metadata.name)
            needed.append(kubernetes.core.v1.ConfigMap(f"{name}-configs", metadata=meta, data=configs.files, opts=self._child))
        git = args.gitops
        depends_on = [*needed, *self._after]
        deliver(f"{name}-chart", chart, git=git, parent=self, depends_on=depends_on, validate=self.VALIDATE, awaits=self.AWAITS)
        self.namespace_name: pulumi.Output[str] = self.home.metadata.name
        self.config_names: pulumi.Output[list[str]] = pulumi.Output.from_input(configs.labels if configs else [])


class DevicePluginStackArgs(TypedDict, total=False):
    """Arguments of DevicePluginStack. The component's providers must have the cluster's Kubernetes provider."""

    tolerations: list[TolerationArgs]
    """Tolerations of the DaemonSet. Default: nvidia.com/gpu, Exists, NoSchedule."""
    access: list[GpuAccessArgs]
    """How the containers of each kind of node get their GPUs, if some kinds share GPUs or use the Container Device Interface. A
    node names its kind by the label nvidia.com/device-plugin.config, with a name of `configNames`."""
    node_selector: dict[str, str]
    """Labels of the nodes with GPUs, such as `node.kubernetes.io/instance-type: g6.2xlarge`. Default: `nvidia.com/gpu.present:
    "true"`, which GPU feature discovery sets."""
    runtime_handler: str
    """Container runtime of the nodes that gets the RuntimeClass nvidia. Default: no RuntimeClass."""
    gitops: GitOpsArgs
    """Declare an ArgoCD Application instead of a Helm release."""


class DevicePluginStack(Enablement[DevicePlugin]):
    """The DaemonSet that advertises `nvidia.com/gpu`, in its own namespace."""

    # Its pods wait until those of another advertiser are gone, and Pulumi deletes that one only after this release.
    AWAITS = False

    namespace_name: pulumi.Output[str]
    """The DaemonSet's namespace."""
    config_names: pulumi.Output[list[str]]
    """Values of the label nvidia.com/device-plugin.config that select a config, without the default."""

    def __init__(self, name: str, args: DevicePluginStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> DevicePlugin:
        return settings(DevicePlugin, inputs)

    def declare(self, name: str, args: DevicePlugin) -> None:
        super().declare(name, args)
        if args.runtime_handler:
            handler, metadata = args.runtime_handler, kubernetes.meta.v1.ObjectMetaArgs(name=RUNTIME_CLASS)
            opts = self._below(*self._after, delete_before_replace=True)
            kubernetes.node.v1.RuntimeClass(f"{name}-runtime-class", metadata=metadata, handler=handler, opts=opts)


class DriverArgs(TypedDict, total=False):
    """The driver that the operator installs."""

    version: str
    """Default: the version of the pinned operator."""
    repository: str
    """Registry path of the driver image, without tag. Default: NVIDIA's public one. vGPU guests need a private one."""
    pull_secrets: list[str]
    """Names of image pull secrets in the operator's namespace."""
    license_secret: str
    """Name of the secret with client_configuration_token.tok and gridd.conf, for vGPU guests."""


class ContainerdArgs(TypedDict, total=False):
    """The node's containerd, for the toolkit that the operator installs."""

    config: str
    """Path of its configuration file on the host."""
    socket: str
    """Path of its socket on the host."""
    default_runtime: bool
    """Whether nvidia is the runtime of pods without a runtime class. Default: true."""


class GpuOperatorArgs(TypedDict, total=False):
    """Arguments of GpuOperator. The component's providers must have the cluster's Kubernetes provider.

    The defaults are for node images with driver and container toolkit, such as the AL2023 NVIDIA image of EKS.
    """

    install_driver: bool
    """Whether the operator installs the driver, because the node image has none. Default: false."""
    install_toolkit: bool
    """Whether the operator installs the container toolkit. Default: false."""
    device_plugin: bool
    """Whether the operator runs the device plugin. Default: true."""
    driver_root: str
    """Folder of the driver on the host, if it is not /."""
    driver: DriverArgs
    """The driver, with `installDriver`."""
    containerd: ContainerdArgs
    """Where containerd is, with `installToolkit`."""
    service_monitor: bool
    """Whether the DCGM exporter gets a ServiceMonitor. The cluster must have that kind. Default: false."""
    counters: bool
    """Whether the DCGM exporter reads this project's counters, with XID and ECC errors, every 15 seconds. Default: the image's
    counters, every 30 seconds."""
    dcgm_engine: str
    """Address of a DCGM engine that every GPU node runs already, such as localhost:5555. Default: the exporter starts its own."""
    cdi: bool
    """Whether all containers get GPUs by the Container Device Interface. Default: false."""
    mig_strategy: str
    """How MIG slices are named: none, single or mixed. Default: none."""
    tolerations: list[TolerationArgs]
    """Tolerations of the DaemonSets. Default: nvidia.com/gpu, Exists, NoSchedule."""
    access: list[GpuAccessArgs]
    """How the containers of each kind of node share GPUs. The label nvidia.com/device-plugin.config of a node names its
    kind, one of `configNames`."""
    controller_node_selector: dict[str, str]
    """Node selector of the operator and of node feature discovery. Default: any node."""
    gitops: GitOpsArgs
    """Declare an ArgoCD Application instead of a Helm release."""


class GpuOperator(Enablement[GpuOperatorSettings]):
    """The operator in its own namespace. Create the secrets that its arguments name (pull, license) in that namespace.

    It creates the RuntimeClass `nvidia`, so none is declared here.
    """

    # An upgrade may use fields that only the chart's own pre-upgrade hook adds to the cluster's CRDs.
    VALIDATE = False

    namespace_name: pulumi.Output[str]
    """The namespace of operator and operands."""
    config_names: pulumi.Output[list[str]]
    """Values of the label nvidia.com/device-plugin.config that select a config, without the default."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> GpuOperatorSettings:
        return settings(GpuOperatorSettings, inputs)
