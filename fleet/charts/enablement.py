"""What the charts that make GPUs schedulable are made of. A chart, and the component that installs it, read these settings."""

from typing import Annotated, ClassVar

from pydantic import Field, PlainSerializer

from fleet.charts.chart import Chart, manifests
from fleet.charts.device_plugin import GPU_NODES, PluginConfigs, device_plugin, plugin_configs
from fleet.facts.scheduling import GPU_TOLERATION, Toleration
from fleet.settings.gitops import GitOps
from fleet.settings.model import LabelKey, LabelValue, Model, RuntimeHandler
from fleet.settings.sharing import AnySharing

Tolerations = Annotated[tuple[Toleration, ...], PlainSerializer(manifests)]


class Access(Model):
    """How the containers of one kind of node get their GPUs."""

    sharing: AnySharing | None = None
    cdi: bool = False


class EnablementSettings(Model):
    """What both charts need. `access` has an entry for each kind of node that shares GPUs or uses CDI."""

    BY_OPERATOR: ClassVar[bool]

    tolerations: Tolerations = (GPU_TOLERATION,)
    access: tuple[Access, ...] = ()
    gitops: GitOps | None = None

    @property
    def configs(self) -> PluginConfigs | None:
        """The device plugin's configs, if any kind of node needs one."""
        return plugin_configs(self.access, by_operator=self.BY_OPERATOR)


class DevicePlugin(EnablementSettings):
    """NVIDIA's device plugin. `runtime_handler` is the container runtime that needs a RuntimeClass."""

    BY_OPERATOR = False

    runtime_handler: RuntimeHandler | None = None
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] = Field(default_factory=lambda: dict(GPU_NODES))

    @property
    def chart(self) -> Chart:
        """The chart."""
        return device_plugin(self.tolerations, self.configs, self.node_selector)
