"""Values of NVIDIA's GPU operator, by kind of node image.

A cluster has one ClusterPolicy, so driver, toolkit and CDI are on or off for all its nodes (docs/cdi.md). The operator creates
the RuntimeClass `nvidia` itself; nothing else may create it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.charts.chart import Chart, Pod, manifests, requests
from fleet.charts.dcgm_exporter import CHANGED, COUNTERS, EXPORTER_POD, INTERVAL, remote_engine
from fleet.charts.device_plugin import MPS_POD, OPERATOR_NAMESPACE, PLUGIN_POD, PluginConfigs
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import RUNTIME_CLASS, SYSTEM_SELECTOR, Toleration
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


def gpu_operator(
    image: NodeImage,
    operator: OperatorSettings,
    *,
    cdi: bool,
    tolerations: Sequence[Toleration],
    mig: str = "none",
    configs: PluginConfigs | None = None,
    selector: Mapping[str, str] = SYSTEM_SELECTOR,
    counters: bool = False,
    engine: str = "",
) -> Chart:
    """The operator for nodes of one kind of image. It installs the parts that the image lacks.

    `tolerations` are those of the cluster's provider. `cdi` is the setting that all pools share. `mig` is how MIG slices are
    named (none, single, mixed). `configs` are the device plugin's configs for pools that share GPUs. `selector` is the node
    selector of the controllers. `counters`: whether the DCGM exporter collects this project's counters, every 15 s. `engine` is
    the address of a DCGM engine that every GPU node runs already. Operands have requests but no limits, because a limit that is
    too small would stop all GPUs of a node.
    """
    values: dict[str, Any] = {
        "operator": {"nodeSelector": dict(selector), "runtimeClass": RUNTIME_CLASS},
        "daemonsets": {"tolerations": manifests(tolerations)},
        "cdi": {"enabled": cdi},
        "sandboxWorkloads": {"enabled": False},
        "driver": {"enabled": False} if image.driver else _driver(operator.driver),
        "toolkit": {"enabled": False} if image.toolkit else _toolkit(operator.containerd),
        "devicePlugin": {"enabled": not image.advertises, "resources": requests(PLUGIN_POD)}
        | ({"config": {"create": False, "name": configs.name, "default": configs.default}} if configs else {}),
        "mig": {"strategy": mig},
        "migManager": _mig_manager(mig != "none"),
        "gfd": {"enabled": True, "resources": requests(_GFD)},
        "dcgmExporter": {
            "enabled": True,
            "resources": requests(EXPORTER_POD),
            "serviceMonitor": {"enabled": operator.service_monitor},
        }
        | _collected(counters, engine),
        "validator": {"resources": requests(_VALIDATOR)},
        "nfd": {"enabled": True},
        "node-feature-discovery": {
            "master": {"nodeSelector": dict(selector)},
            "gc": {"nodeSelector": dict(selector)},
            # A node without the worker's labels gets no operands.
            "worker": {"tolerations": manifests(tolerations), "resources": requests(_WORKER)},
        },
    }
    if image.driver_root:
        values["hostPaths"] = {"driverInstallDir": image.driver_root}
    # Operands and node feature discovery mount folders of the host. Only this level allows that.
    pods = tuple(_pods(image, cuts=mig != "none", configured=configs is not None))
    return Chart(OPERATOR, OPERATOR, NAMESPACE, values, pods, f"infrastructure/controllers/{OPERATOR}", pod_security="privileged")


def _pods(image: NodeImage, *, cuts: bool, configured: bool) -> Iterator[Pod]:
    """The operator's pods. `cuts` says whether MIG cuts GPUs into slices, `configured` whether the plugin has configs.

    With configs the plugin, feature discovery and the control daemon of MPS have a second container, config-manager. The operator
    gives all containers of a pod the same requests (NVIDIA/gpu-operator v26.7.0 controllers/object_controls.go). The MIG manager
    runs only on nodes whose GPUs support MIG. Here it counts on all GPU nodes of a cluster that uses it.
    """
    containers = 2 if configured else 1
    yield from _ON_SYSTEM_POOL
    yield _WORKER
    if not image.driver:
        yield _DRIVER
    if not image.toolkit:
        yield _TOOLKIT
    if not image.advertises:
        yield PLUGIN_POD.times(containers)
        yield MPS_POD.times(containers)
    yield _GFD.times(containers)
    yield EXPORTER_POD
    yield _VALIDATOR
    if cuts:
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
    config = {"config": {"create": True, "name": f"gpu-ci-counters-{CHANGED}", "data": COUNTERS}} if counters else {}
    return config | ({"env": environment} if environment else {}) | ({"hostNetwork": True} if engine else {})


def _mig_manager(cuts: bool) -> dict[str, Any]:
    """The MIG manager. A cloud VM cannot reset a GPU alone, so the manager restarts the node if necessary."""
    restart = {"env": [{"name": "WITH_REBOOT", "value": "true"}]} if cuts else {}
    return {"enabled": cuts, "resources": requests(_MIG_MANAGER)} | restart


def _driver(driver: Driver) -> dict[str, Any]:
    """The driver as a DaemonSet. The chart's `auto` selects the kernel modules: V100 and P100 have only proprietary ones."""
    values: dict[str, Any] = {"enabled": True, "version": driver.version, "resources": requests(_DRIVER)}
    if driver.repository is not None:
        values["repository"] = driver.repository
    if driver.pull_secrets:
        values["imagePullSecrets"] = list(driver.pull_secrets)
    if driver.license_secret is not None:
        values["licensingConfig"] = {"secretName": driver.license_secret, "nlsEnabled": True}
    return values


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
    return {
        "enabled": True,
        "env": [{"name": name, "value": value} for name, value in variables.items() if value is not None],
        "resources": requests(_TOOLKIT),
    }
