"""Values of NVIDIA's GPU operator, by kind of node image.

A cluster has one ClusterPolicy, so driver, toolkit and CDI are on or off for all its nodes (docs/cdi.md). The operator creates
the RuntimeClass `nvidia` itself; nothing else may create it.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from fleet.charts.chart import Chart, Pod, manifests, requests
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
_ON_SYSTEM_POOL = (Pod(OPERATOR, 200, 100), Pod("nfd-master", 100, 128), Pod("nfd-gc", 10, 128))
"""The operator, and the master and garbage collector of its node feature discovery. The requests are those of their charts
(gpu-operator v26.7.0, node-feature-discovery 0.19.0)."""
_WORKER = Pod("nfd-worker", 5, 64, on="all nodes")
_DRIVER = Pod("driver", 50, 128, on="GPU nodes")
_TOOLKIT = Pod("toolkit", 10, 64, on="GPU nodes")
_GFD = Pod("gfd", 20, 64, on="GPU nodes")
_MIG_MANAGER = Pod("mig-manager", 10, 64, on="GPU nodes")
_VALIDATOR = Pod("validator", 10, 64, on="GPU nodes")
"""The operator also gives these requests to the init containers of the other operands, so no operand requests less."""


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
        placed, configs = self.controller_node_selector, self.configs
        values: dict[str, Any] = {
            "operator": {"nodeSelector": dict(placed), "runtimeClass": RUNTIME_CLASS},
            "daemonsets": {"tolerations": manifests(self.tolerations)},
            "cdi": {"enabled": self.cdi},
            "sandboxWorkloads": {"enabled": False},
            "driver": _driver(self.driver) if self.install_driver else {"enabled": False},
            "toolkit": _toolkit(self.containerd) if self.install_toolkit else {"enabled": False},
            "devicePlugin": {"enabled": self.device_plugin, "resources": requests(PLUGIN_POD)}
            | ({"config": {"create": False, "name": configs.name, "default": configs.default}} if configs else {}),
            "mig": {"strategy": self.mig_strategy},
            "migManager": _mig_manager(self.mig_strategy != "none"),
            "gfd": {"enabled": True, "resources": requests(_GFD)},
            "dcgmExporter": {
                "enabled": True,
                "resources": requests(EXPORTER_POD),
                "serviceMonitor": {"enabled": self.service_monitor},
            }
            | _collected(self.counters, self.dcgm_engine),
            "validator": {"resources": requests(_VALIDATOR)},
            "nfd": {"enabled": True},
            "node-feature-discovery": {
                "master": {"nodeSelector": dict(placed)},
                "gc": {"nodeSelector": dict(placed)},
                # A node without the worker's labels gets no operands.
                "worker": {"tolerations": manifests(self.tolerations), "resources": requests(_WORKER)},
            },
        }
        if self.driver_root:
            values["hostPaths"] = {"driverInstallDir": self.driver_root}
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
    yield from _ON_SYSTEM_POOL
    yield _WORKER
    if made.install_driver:
        yield _DRIVER
    if made.install_toolkit:
        yield _TOOLKIT
    if made.device_plugin:
        yield PLUGIN_POD.times(containers)
        yield MPS_POD.times(containers)
    yield _GFD.times(containers)
    yield EXPORTER_POD
    yield _VALIDATOR
    if made.mig_strategy != "none":
        yield _MIG_MANAGER


def runtime_class(image: NodeImage, operator: OperatorSettings, *, cdi: bool) -> str:
    """The RuntimeClass that a pod must name to get its GPUs under the operator. Empty if it needs none.

    With CDI containerd itself gives GPUs to containers. Without CDI the NVIDIA runtime does. If the operator installs that
    runtime and does not make it the default, a pod must name it.
    """
    return "" if cdi or image.toolkit or operator.containerd.default_runtime else RUNTIME_CLASS


def _collected(counters: bool, engine: str) -> dict[str, Any]:
    """The exporter's counters, and the engine that it asks for them.

    The name of the ConfigMap has a hash, because the exporter reads the file only when it starts. The operator gives the exporter
    the node's network only for an engine of its own (NVIDIA/gpu-operator v26.7.0 controllers/object_controls.go).
    """
    environment = [*([INTERVAL] if counters else []), *([remote_engine(engine)] if engine else [])]
    config = {"create": True, "name": f"gpu-ci-counters-{CHANGED}", "data": COUNTERS} if counters else {}
    return filled({"config": config, "env": environment, "hostNetwork": bool(engine)})


def _mig_manager(cuts: bool) -> dict[str, Any]:
    """The MIG manager. A cloud VM cannot reset a GPU alone, so the manager restarts the node if necessary."""
    restart = {"env": [{"name": "WITH_REBOOT", "value": "true"}]} if cuts else {}
    return {"enabled": cuts, "resources": requests(_MIG_MANAGER)} | restart


def _driver(driver: Driver) -> dict[str, Any]:
    """The driver as a DaemonSet. The chart's `auto` selects the kernel modules: V100 and P100 have only proprietary ones."""
    license_ = {"secretName": driver.license_secret, "nlsEnabled": True} if driver.license_secret is not None else {}
    more = {"repository": driver.repository, "imagePullSecrets": list(driver.pull_secrets), "licensingConfig": license_}
    return {"enabled": True, "version": driver.version, "resources": requests(_DRIVER)} | filled(more)


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
    return {"enabled": True, "env": env, "resources": requests(_TOOLKIT)}
