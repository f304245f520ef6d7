"""Values of NVIDIA's GPU operator, by kind of node image.

A cluster has one ClusterPolicy, so driver, toolkit and CDI are on or off for all its nodes (docs/cdi.md). The operator creates
the RuntimeClass `nvidia` itself; nothing else may create it.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from fleet.charts.chart import Chart, Pod, fixed, manifests, pods_of, requests
from fleet.charts.dcgm_exporter import CHANGED, COUNTERS, EXPORTER_POD, INTERVAL, remote_engine
from fleet.charts.device_plugin import MPS_POD, OPERATOR_NAMESPACE, PLUGIN_POD
from fleet.charts.enablement import EnablementSettings
from fleet.facts.manifest import filled
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import RUNTIME_CLASS
from fleet.settings.model import LabelKey, LabelValue
from fleet.settings.operator import Containerd, Driver, OperatorSettings

OPERATOR = "gpu-operator"
NAMESPACE = OPERATOR_NAMESPACE
_PODS = pods_of(OPERATOR)


class GpuOperatorSettings(OperatorSettings, EnablementSettings):
    """NVIDIA's GPU operator for nodes of one kind of image. It installs the parts that the image lacks.

    `cdi` is the setting that all pools share. `mig_strategy` is how MIG slices are named. `controller_node_selector` is the node
    selector of the controllers. `counters`: whether the DCGM exporter collects this project's counters, every 15 s. `dcgm_engine`
    is the address of a DCGM engine that every GPU node runs already.
    """

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
        """The chart. Operands have requests but no limits, because a limit that is too small would stop all GPUs of a node."""
        configs, counted, engine = self.configs, self.counters, self.dcgm_engine
        given: dict[str, Any] = {
            "selector": dict(self.controller_node_selector),
            "tolerations": manifests(self.tolerations),
            "driver": _driver(self.driver) if self.install_driver else {"enabled": False},
            "toolkit": _toolkit(self.containerd) if self.install_toolkit else {"enabled": False},
            "config": {"create": False, "name": configs.name, "default": configs.default} if configs else None,
            "restart": [{"name": "WITH_REBOOT", "value": "true"}] if self.mig_strategy != "none" else None,
            "counters": {"create": True, "name": f"gpu-ci-counters-{CHANGED}", "data": COUNTERS} if counted else None,
            "env": [*([INTERVAL] if counted else []), *([remote_engine(engine)] if engine else [])] or None,
            "paths": {"driverInstallDir": self.driver_root} if self.driver_root else None,
        }
        given |= {"cdi": self.cdi, "monitor": self.service_monitor, "plugin": self.device_plugin, "network": bool(engine) or None}
        given |= {"mig": self.mig_strategy, "cuts": self.mig_strategy != "none"}
        sizes = {f"of-{pod.name}": requests(pod) for pod in (*_PODS.values(), PLUGIN_POD, EXPORTER_POD)}
        values = fixed(OPERATOR, **given, **sizes)
        # Operands and node feature discovery mount folders of the host. Only this level allows that.
        folder, pods = f"infrastructure/controllers/{OPERATOR}", tuple(_pods(self))
        return Chart(OPERATOR, OPERATOR, NAMESPACE, values, pods, folder, pod_security="privileged")


def _pods(made: GpuOperatorSettings) -> Iterator[Pod]:
    """The operator's pods.

    With configs the plugin, feature discovery and the control daemon of MPS have a second container, config-manager. The operator
    gives all containers of a pod the same requests (NVIDIA/gpu-operator v26.7.0 controllers/object_controls.go). The MIG manager
    runs only on nodes whose GPUs support MIG. Here it counts on all GPU nodes of a cluster that uses it.
    """
    containers = 2 if made.configs is not None else 1
    installed = {"driver": made.install_driver, "toolkit": made.install_toolkit, "mig-manager": made.mig_strategy != "none"}
    yield from (pod for name, pod in _PODS.items() if installed.get(name, name != "gfd"))
    plugin = (PLUGIN_POD, MPS_POD) if made.device_plugin else ()
    yield from (pod.times(containers) for pod in (*plugin, _PODS["gfd"]))
    yield EXPORTER_POD


def runtime_class(image: NodeImage, operator: OperatorSettings, *, cdi: bool) -> str:
    """The RuntimeClass that a pod must name to get its GPUs under the operator. Empty if it needs none.

    With CDI containerd itself gives GPUs to containers. Without CDI the NVIDIA runtime does. If the operator installs that
    runtime and does not make it the default, a pod must name it.
    """
    return "" if cdi or image.toolkit or operator.containerd.default_runtime else RUNTIME_CLASS


def _driver(driver: Driver) -> dict[str, Any]:
    """The driver as a DaemonSet. The chart's `auto` selects the kernel modules: V100 and P100 have only proprietary ones."""
    license_ = {"secretName": driver.license_secret, "nlsEnabled": True} if driver.license_secret is not None else {}
    more = {"repository": driver.repository, "imagePullSecrets": list(driver.pull_secrets), "licensingConfig": license_}
    return {"enabled": True, "version": driver.version, "resources": requests(_PODS["driver"])} | filled(more)


def _toolkit(containerd: Containerd) -> dict[str, Any]:
    """The container toolkit as a DaemonSet, with the variables that the pinned version reads. All values are strings.

    `CONTAINERD_CONFIG` and `CONTAINERD_SOCKET` are paths on the host. Two others of seed 003 have no effect: the operator
    overwrites `CONTAINERD_RUNTIME_CLASS` with `operator.runtimeClass`, and the toolkit reads `CONTAINERD_SET_AS_DEFAULT` only
    where `NVIDIA_RUNTIME_SET_AS_DEFAULT` is absent, which the operator sets to false under CDI (NVIDIA/gpu-operator v26.7.0
    controllers/object_controls.go, NVIDIA/nvidia-container-toolkit v1.20.0 cmd/nvidia-ctk-installer).
    """
    variables = {
        "CONTAINERD_CONFIG": containerd.config,
        "CONTAINERD_SOCKET": containerd.socket,
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": "true" if containerd.default_runtime else "false",
    }
    env = [{"name": name, "value": value} for name, value in variables.items() if value is not None]
    return {"enabled": True, "env": env, "resources": requests(_PODS["toolkit"])}
