"""What the charts that make GPUs schedulable are made of. A chart, and the component that installs it, read these settings."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainSerializer

from fleet.charts.chart import Chart, manifests
from fleet.charts.device_plugin import GPU_NODES, PluginConfigs, device_plugin, plugin_configs
from fleet.charts.gpu_operator import gpu_operator
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import GPU_TOLERATION, Toleration
from fleet.settings.gitops import GitOps
from fleet.settings.model import LabelKey, LabelValue, Model, RuntimeHandler
from fleet.settings.operator import OperatorSettings
from fleet.settings.sharing import AnySharing

Tolerations = Annotated[tuple[Toleration, ...], PlainSerializer(manifests)]


class Access(Model):
    """How the containers of one kind of node get their GPUs."""

    sharing: AnySharing | None = None
    cdi: bool = False


class _Enablement(Model):
    """What both charts need. `access` has an entry for each kind of node that shares GPUs or uses CDI."""

    BY_OPERATOR: ClassVar[bool]

    tolerations: Tolerations = (GPU_TOLERATION,)
    access: tuple[Access, ...] = ()
    gitops: GitOps | None = None

    @property
    def configs(self) -> PluginConfigs | None:
        """The device plugin's configs, if any kind of node needs one."""
        return plugin_configs(self.access, by_operator=self.BY_OPERATOR)


class DevicePlugin(_Enablement):
    """NVIDIA's device plugin. `runtime_handler` is the container runtime that needs a RuntimeClass."""

    BY_OPERATOR = False

    runtime_handler: RuntimeHandler | None = None
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] = Field(default_factory=lambda: dict(GPU_NODES))

    @property
    def chart(self) -> Chart:
        """The chart."""
        return device_plugin(self.tolerations, self.configs, self.node_selector)


class GpuOperatorSettings(OperatorSettings, _Enablement):
    """NVIDIA's GPU operator for nodes of one kind of image."""

    BY_OPERATOR = True

    install_driver: bool = False
    install_toolkit: bool = False
    device_plugin: bool = True
    driver_root: str = ""
    counters: bool = False
    dcgm_engine: str = ""
    cdi: bool = False
    mig_strategy: Literal["none", "single", "mixed"] = "none"
    controller_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)

    @property
    def chart(self) -> Chart:
        """The chart."""
        return gpu_operator(
            NodeImage("", not self.install_driver, not self.install_toolkit, not self.device_plugin, (), self.driver_root),
            self,
            cdi=self.cdi,
            tolerations=self.tolerations,
            mig=self.mig_strategy,
            configs=self.configs,
            selector=self.controller_node_selector,
            counters=self.counters,
            engine=self.dcgm_engine,
        )
