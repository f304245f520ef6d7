"""The GPU operator's values: by kind of node image, with keys that the chart knows, and requests that placement counts."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import pytest

from fleet.charts.chart import Chart
from fleet.charts.device_plugin import PluginConfigs, device_plugin, plugin_configs
from fleet.charts.gpu_operator import runtime_class
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import EKS_PROFILE, OKE_PROFILE, system_labels
from fleet.facts.versions import CHARTS
from fleet.settings.operator import OperatorSettings
from tests.builders import pool_of
from tests.cases import cases
from tests.charts import gpu_operator
from tests.fleet.values import asks, folder, leaves, read_yaml, toleration, unknown_keys

PLAIN = OperatorSettings()
OTHER = OperatorSettings.model_validate_json(
    json.dumps(
        {
            "driver": {
                "version": "580.173.02",
                "repository": "registry.example.com/nvidia",
                "pullSecrets": ["registry"],
                "licenseSecret": "licensing-config",
            },
            "containerd": {
                "config": "/etc/containerd/conf.toml",
                "socket": "/run/other/containerd.sock",
                "defaultRuntime": False,
            },
            "serviceMonitor": True,
        }
    )
)

SHARED = [pool_of(sharing={"strategy": "time-slicing", "replicas": 4})]
_FOUND = plugin_configs(SHARED, by_operator=True)
assert _FOUND is not None
CONFIGS: PluginConfigs = _FOUND
"""What the other settings say to the device plugin."""

CASES = [
    pytest.param(image, settings, cdi, id=f"{image}, {name} settings, CDI {'on' if cdi else 'off'}")
    for image, (name, settings), cdi in product(NODE_IMAGES, (("plain", PLAIN), ("other", OTHER)), (False, True))
]
every_case = cases(("image", "settings", "cdi"), CASES)
each_image = cases("image", NODE_IMAGES)


def chart(image: str, settings: OperatorSettings = PLAIN, *, cdi: bool = False) -> Chart:
    more: dict[str, Any] = {"mig_strategy": "mixed", "access": SHARED} if settings is OTHER else {}
    return gpu_operator(NODE_IMAGES[image], settings, cdi=cdi, tolerations=OKE_PROFILE.tolerations, **more)


def values(image: str, settings: OperatorSettings = PLAIN, *, cdi: bool = False) -> dict[str, Any]:
    return chart(image, settings, cdi=cdi).values


def variables(found: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in found["toolkit"].get("env", [])}


# -- against the published chart ---------------------------------------------------------------------------------------


@pytest.mark.reference
@every_case
def test_every_value_is_one_that_the_chart_knows(image: str, settings: OperatorSettings, cdi: bool) -> None:
    found = chart(image, settings, cdi=cdi)
    assert unknown_keys(found, found.values) == [], "a chart ignores keys that it does not know"


@pytest.mark.reference
def test_the_search_finds_a_misspelt_key_of_the_chart_within() -> None:
    wrong = {"toolkit": {"envs": []}, "node-feature-discovery": {"worker": {"toleration": [], "resources": {"requests": {}}}}}
    assert unknown_keys(chart("ubuntu"), wrong) == ["toolkit.envs", "node-feature-discovery.worker.toleration"]


@pytest.mark.reference
def test_the_pinned_version_is_one_that_was_read() -> None:
    """The chart in the repository carries a development version: the tag that it was read at is the release."""
    assert (folder(chart("ubuntu")) / "SOURCE").read_text(encoding="utf-8").startswith(f"NVIDIA/gpu-operator {_version()} ")


def _version() -> str:
    return CHARTS["gpu-operator"].version


def test_the_release_keeps_the_v_of_its_version_and_has_a_namespace_of_its_own() -> None:
    found = chart("al2023-nvidia")
    assert re.fullmatch(r"v\d+\.\d+\.\d+", found.version), "NVIDIA publishes this one chart with it"
    assert (found.name, found.namespace, found.needs) == ("gpu-operator", "gpu-operator", ())
    assert found.repository == "https://helm.ngc.nvidia.com/nvidia"
    assert found.pod_security == "privileged", "operands mount the host's folders"


@every_case
def test_values_are_plain_json_without_null_and_without_a_secret(image: str, settings: OperatorSettings, cdi: bool) -> None:
    found = values(image, settings, cdi=cdi)
    assert json.loads(json.dumps(found)) == found
    secret = re.compile(r"token|password|private.?key|accessKey|credential", re.IGNORECASE)
    assert [(path, value) for path, value in leaves(found) if value is None or secret.search(f"{path} {value}")] == []


# -- driver and toolkit ------------------------------------------------------------------------------------------------


# Kind of image → driver, toolkit and plugin by the operator, and where else than by default a driver of the image's own lies.
DONE = {
    "al2023-nvidia": (False, False, True, None),
    "bottlerocket-nvidia": (False, False, False, None),
    "oke-gpu": (False, False, True, None),
    "ubuntu": (True, True, True, None),
    "vgpu-guest": (True, True, True, None),
    "passthrough": (True, True, True, None),
    "talos": (False, False, True, {"driverInstallDir": "/usr/local"}),
    "nvkind": (False, False, True, None),
}


@each_image
def test_the_operator_brings_what_the_image_lacks(image: str) -> None:
    found = values(image, OTHER)
    switches = (found["driver"]["enabled"], found["toolkit"]["enabled"], found["devicePlugin"]["enabled"])
    assert (*switches, found.get("hostPaths")) == DONE[image], "a plugin of the image's own would be a second advertiser"


@each_image
def test_driver_settings_stand_only_where_the_operator_installs_it(image: str) -> None:
    driver = values(image, OTHER)["driver"]
    if NODE_IMAGES[image].driver:
        assert driver == {"enabled": False}
        return
    assert {key: driver[key] for key in set(driver) - {"resources", "manager"}} == {
        "enabled": True,
        "version": "580.173.02",
        "repository": "registry.example.com/nvidia",
        "imagePullSecrets": ["registry"],
        "licensingConfig": {"secretName": "licensing-config", "nlsEnabled": True},
    }


def test_a_plain_driver_is_the_charts_own_image_at_the_pinned_version() -> None:
    driver = values("ubuntu")["driver"]
    assert set(driver) == {"enabled", "version", "resources", "manager"}, (
        "repository, licence and kernel modules are the chart's own"
    )
    assert driver["version"] == PLAIN.driver.version


@pytest.mark.parametrize("cdi", [False, True])
def test_the_toolkits_variables_are_strings_that_it_honours(cdi: bool) -> None:
    """`CONTAINERD_RUNTIME_CLASS` is overwritten by `operator.runtimeClass`, `CONTAINERD_SET_AS_DEFAULT` is dead under CDI."""
    assert variables(values("ubuntu", cdi=cdi)) == {"NVIDIA_RUNTIME_SET_AS_DEFAULT": "true"}
    assert variables(values("ubuntu", OTHER, cdi=cdi)) == {
        "CONTAINERD_CONFIG": "/etc/containerd/conf.toml",
        "CONTAINERD_SOCKET": "/run/other/containerd.sock",
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
    }


@each_image
def test_an_image_with_a_toolkit_gets_no_variables(image: str) -> None:
    assert bool(variables(values(image, OTHER))) is not NODE_IMAGES[image].toolkit
    assert ("resources" in values(image)["toolkit"]) is not NODE_IMAGES[image].toolkit


# -- values that ignore the image --------------------------------------------------------------------------------------


@every_case
def test_the_rest_is_the_same_on_every_image(image: str, settings: OperatorSettings, cdi: bool) -> None:
    found = values(image, settings, cdi=cdi)
    assert found["cdi"] == {"enabled": cdi}, "never left to the chart's default, which changed"
    assert found["operator"]["runtimeClass"] == "nvidia"
    assert found["sandboxWorkloads"] == {"enabled": False}
    assert found["nfd"] == {"enabled": True}
    assert found["gfd"]["enabled"] is True
    assert found["dcgmExporter"]["enabled"] is True
    assert found["dcgmExporter"]["serviceMonitor"] == {"enabled": settings.service_monitor}
    assert found["mig"] == {"strategy": "mixed" if settings is OTHER else "none"}
    assert found["migManager"]["enabled"] is (settings is OTHER)
    # NVIDIA/cloud-native-docs, gpu-operator-mig.rst, enabling MIG in a cloud.
    assert found["migManager"].get("env", []) == ([{"name": "WITH_REBOOT", "value": "true"}] if settings is OTHER else [])
    if settings is OTHER:
        told = {"create": False, "name": CONFIGS.name, "default": CONFIGS.default}
        assert found["devicePlugin"]["config"] == told, "the chart's own would keep its name when it changes"
    else:
        assert "config" not in found["devicePlugin"], "the operator sets what a config would, and a variable wins"


@pytest.mark.parametrize("profile", [EKS_PROFILE, OKE_PROFILE], ids=["EKS", "OKE"])
def test_operands_and_feature_discovery_tolerate_all_that_the_provider_puts_on_gpu_nodes(profile: Any) -> None:
    found = gpu_operator(NODE_IMAGES["ubuntu"], PLAIN, cdi=False, tolerations=profile.tolerations).values
    for tolerations in (found["daemonsets"]["tolerations"], found["node-feature-discovery"]["worker"]["tolerations"]):
        for taint in filter(None, (profile.gpu_taint, profile.spot_taint)):
            assert any(toleration(each).covers(taint) for each in tolerations), f"{taint}: the list replaces the chart's own"


def test_what_is_no_daemonset_stays_on_the_system_pool() -> None:
    found = values("al2023-nvidia")
    discovery = found["node-feature-discovery"]
    for pod in (found["operator"], discovery["master"], discovery["gc"]):
        assert pod["nodeSelector"].items() <= system_labels("usw2").items()
        assert "tolerations" not in pod, "the system pool has no taint"
    assert "nodeSelector" not in discovery["worker"], "a GPU node is found by it, so it cannot be chosen by what it finds"


# -- requests ----------------------------------------------------------------------------------------------------------

# DaemonSets by the value that has their switch and their resources. With configs the first two have a second container,
# config-manager, which gets the same requests (NVIDIA/gpu-operator v26.7.0, controllers/object_controls.go).
OPERANDS = ("devicePlugin", "gfd", "driver", "toolkit", "dcgmExporter", "migManager")
WITH_SIDE_CAR = ("devicePlugin", "gfd")


def requested(found: dict[str, Any]) -> list[tuple[int, int]]:
    """Millicores and MiB of each pod that the values start on every GPU node.

    The validator's resources also go to the init containers of the operands: a pod requests the greater of both.
    """
    validator = asks(found["validator"]["resources"])
    pods = []
    for name in OPERANDS:
        if found[name]["enabled"]:
            cpu, memory = asks(found[name]["resources"])
            containers = 2 if name in WITH_SIDE_CAR and "config" in found["devicePlugin"] else 1
            pods.append((max(cpu * containers, validator[0]), max(memory * containers, validator[1])))
    return [*pods, validator, asks(found["node-feature-discovery"]["worker"]["resources"])]


def on_nodes(found: Chart, strategy: str = "") -> list[tuple[int, int]]:
    """The same as the chart says it of its pods, for pools that share GPUs by a strategy or not at all."""
    held = [pod for pod in found.pods if pod.on != "system pool" and pod.strategy in ("", strategy)]
    return [(pod.cpu, pod.memory) for pod in held]


def total(pods: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Millicores, MiB and number of pods together."""
    return sum(cpu for cpu, _ in pods), sum(memory for _, memory in pods), len(pods)


@every_case
def test_the_chart_says_of_its_pods_what_its_values_request(image: str, settings: OperatorSettings, cdi: bool) -> None:
    found = chart(image, settings, cdi=cdi)
    assert sorted(on_nodes(found)) == sorted(requested(found.values))


def test_a_node_runs_five_to_eight_pods_of_the_operator_and_side_cars_count() -> None:
    assert total(on_nodes(chart("al2023-nvidia"))) == (185, 804, 5), "without driver, toolkit, MIG manager and side cars"
    assert total(on_nodes(chart("ubuntu"))) == (245, 996, 7), "with driver and toolkit"
    assert total(on_nodes(chart("ubuntu", OTHER))) == (325, 1224, 8), "with MIG manager and two side cars as well"
    assert total(on_nodes(chart("al2023-nvidia", OTHER), "mps")) == (365, 1232, 7), "with MPS a control daemon and its side car"


@pytest.mark.reference
def test_the_operators_own_pods_request_what_their_charts_say() -> None:
    published = folder(chart("ubuntu"))
    operator = read_yaml(published / "values.yaml")["operator"]
    discovery = read_yaml(published / "charts" / "node-feature-discovery" / "values.yaml")
    held = [asks(part["resources"]) for part in (operator, discovery["master"], discovery["gc"])]
    assert [(pod.cpu, pod.memory) for pod in chart("ubuntu").pods if pod.on == "system pool"] == held


@every_case
def test_every_operand_that_runs_has_requests_and_no_limits(image: str, settings: OperatorSettings, cdi: bool) -> None:
    found = values(image, settings, cdi=cdi)
    running = [found[name]["resources"] for name in OPERANDS if found[name]["enabled"]]
    for resources in (*running, found["validator"]["resources"], found["node-feature-discovery"]["worker"]["resources"]):
        assert set(resources) == {"requests"}
        assert set(resources["requests"]) == {"cpu", "memory"}


def test_the_plugin_requests_the_same_with_the_operator_and_without() -> None:
    assert values("ubuntu")["devicePlugin"]["resources"] == device_plugin().values["resources"]


# -- the RuntimeClass of runners ---------------------------------------------------------------------------------------


@each_image
@cases("cdi", [False, True])
@cases("settings", [PLAIN, OTHER])
def test_a_runner_asks_for_the_runtime_where_nothing_else_hands_over_its_gpus(
    image: str, settings: OperatorSettings, cdi: bool
) -> None:
    needed = image in ("ubuntu", "vgpu-guest", "passthrough") and settings is OTHER and not cdi
    assert runtime_class(NODE_IMAGES[image], settings, cdi=cdi) == ("nvidia" if needed else "")


def test_two_calls_give_equal_charts_that_share_nothing() -> None:
    one, other = chart("ubuntu", OTHER), chart("ubuntu", OTHER)
    assert one == other
    one.values["toolkit"]["env"].clear()
    one.values["node-feature-discovery"]["gc"]["nodeSelector"].clear()
    assert other == chart("ubuntu", OTHER)
    assert one.values["node-feature-discovery"]["master"]["nodeSelector"], "its parts do not either"
