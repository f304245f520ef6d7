"""Values of NVIDIA's GPU operator, by kind of node image.

Its ClusterPolicy is one for a cluster, so driver, toolkit and CDI are on or off for all its nodes (docs/cdi.md). It makes the
RuntimeClass `nvidia` itself: nobody else may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.charts.chart import Chart, manifests, published, requests
from fleet.charts.plugin_configs import PluginConfigs
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import RUNTIME_CLASS, SYSTEM_POOL, Toleration, pool_selector
from fleet.facts.versions import DAEMONSETS
from fleet.settings.operator import Containerd, Driver, OperatorSettings

OPERATOR = "gpu-operator"
OPERATOR_NAMESPACE = "gpu-operator"


def gpu_operator(
    image: NodeImage,
    operator: OperatorSettings,
    *,
    cdi: bool,
    tolerations: Sequence[Toleration],
    mig: str = "none",
    configs: PluginConfigs | None = None,
) -> Chart:
    """The operator for nodes of one kind of image: what the image brings is off, the rest is on.

    `tolerations` are those of the cluster's provider, `cdi` is what the cluster's pools agree on, `mig` how the parts of MIG GPUs
    are named (none, single, mixed), `configs` what the device plugin has to be told of pools that share GPUs. Operands have
    requests and no limits: a limit too small would stop all GPUs of a node.
    """
    plugin = DAEMONSETS["nvidia-device-plugin"]
    values: dict[str, Any] = {
        "operator": _on_system_pool() | {"runtimeClass": RUNTIME_CLASS},
        "daemonsets": {"tolerations": manifests(tolerations)},
        "cdi": {"enabled": cdi},
        "sandboxWorkloads": {"enabled": False},
        "driver": {"enabled": False} if image.driver else _driver(operator.driver),
        "toolkit": {"enabled": False} if image.toolkit else _toolkit(operator.containerd),
        "devicePlugin": {"enabled": not image.advertises, "resources": requests(plugin.cpu, plugin.memory)}
        | ({"config": {"create": False, "name": configs.name, "default": configs.default}} if configs else {}),
        "mig": {"strategy": mig},
        "migManager": _mig_manager(mig != "none"),
        "gfd": {"enabled": True, "resources": requests(20, 64)},
        "dcgmExporter": {
            "enabled": True,
            # It holds 400 to 500 MiB, whatever the number of GPUs (NVIDIA/dcgm-exporter#609, pytorch/ci-infra#1011).
            "resources": requests(100, 512),
            "serviceMonitor": {"enabled": operator.service_monitor},
        },
        # The operator gives these to the init containers of the other operands as well, so they are the least of all.
        "validator": {"resources": requests(10, 64)},
        "nfd": {"enabled": True},
        "node-feature-discovery": {
            "master": _on_system_pool(),
            "gc": _on_system_pool(),
            # Unlabelled by it, a node never gets an operand.
            "worker": {"tolerations": manifests(tolerations), "resources": requests(5, 64)},
        },
    }
    if image.driver_root:
        values["hostPaths"] = {"driverInstallDir": image.driver_root}
    # Operands and node feature discovery mount folders of the host, which only this level allows.
    return published(OPERATOR, OPERATOR, OPERATOR_NAMESPACE, values, pod_security="privileged")


def runtime_class(image: NodeImage, operator: OperatorSettings, *, cdi: bool) -> str:
    """The RuntimeClass that a pod must name to get its GPUs under the operator; empty where it needs none.

    With CDI containerd itself hands GPUs over. Without it the NVIDIA runtime does: on nodes where the operator installs that
    runtime and does not make it the default, a pod has to ask for it.
    """
    asked_for = not cdi and not image.toolkit and not operator.containerd.default_runtime
    return RUNTIME_CLASS if asked_for else ""


def _on_system_pool() -> dict[str, Any]:
    return {"nodeSelector": pool_selector(SYSTEM_POOL)}


def _mig_manager(cuts: bool) -> dict[str, Any]:
    """The manager that cuts GPUs. In a cloud's machine a GPU cannot be reset alone, so it restarts the node where it must."""
    restart = {"env": [{"name": "WITH_REBOOT", "value": "true"}]} if cuts else {}
    return {"enabled": cuts, "resources": requests(10, 64)} | restart


def _driver(driver: Driver) -> dict[str, Any]:
    """The driver as a DaemonSet. Which kernel modules it builds is the chart's `auto`: V100 and P100 have closed ones alone."""
    values: dict[str, Any] = {"enabled": True, "version": driver.version, "resources": requests(50, 128)}
    if driver.repository is not None:
        values["repository"] = driver.repository
    if driver.pull_secrets:
        values["imagePullSecrets"] = list(driver.pull_secrets)
    if driver.license_secret is not None:
        values["licensingConfig"] = {"secretName": driver.license_secret, "nlsEnabled": True}
    return values


def _toolkit(containerd: Containerd) -> dict[str, Any]:
    """The container toolkit as a DaemonSet, with the variables that the pinned version honours. All are strings.

    `CONTAINERD_CONFIG` and `CONTAINERD_SOCKET` are paths on the host. Two others of seed 003 would be lost: the operator
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
        "resources": requests(10, 64),
    }
