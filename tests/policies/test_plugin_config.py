"""The device plugin's config files: where they are found, and which of their flags are on."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.yaml_text import helm_values
from policies.rules.gpu_shared_resource_single import plugin_configs
from policies.rules.read import Later, true
from tests.policies.fixtures import RELEASE
from tests.policies.harness import as_read
from tests.policies.published import chart_values

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
SLICED = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"


def found(token: str, props: dict[str, Any]) -> list[str]:
    return [path for path, _ in plugin_configs(token, as_read(props), Later())]


def plugin(files: Any) -> dict[str, Any]:
    return {"chart": "nvidia-device-plugin", "values": {"config": {"map": files}}}


def operator(files: Any, **config: Any) -> dict[str, Any]:
    return {"chart": "gpu-operator", "values": {"devicePlugin": {"config": {"data": files} | config}}}


def test_each_chart_has_its_place() -> None:
    assert found(RELEASE, plugin({"default": SLICED, "mig": ""})) == [
        'values.config.map["default"]',
        'values.config.map["mig"]',
    ]
    assert found(RELEASE, operator({"any": SLICED}, create=True)) == ['values.devicePlugin.config.data["any"]']
    assert found(RELEASE, operator({"any": SLICED})) == [], "the chart takes them only while create is on"
    assert found(RELEASE, {"chart": "kueue", "values": {"config": {"map": {"default": SLICED}}}}) == []


def test_of_config_maps_only_those_that_share_are_known_to_be_the_plugins() -> None:
    data = {"any": SLICED, "nginx.conf": SLICED, "launcher.json": "{}", "notes": "sharing is caring", "other": "sharing: off"}
    assert found(CONFIG_MAP, {"data": data}) == ['data["any"]']
    assert found(f"{CONFIG_MAP}List", {"items": [{}, {"data": data}]}) == ['items[1].data["any"]']


@pytest.mark.parametrize("spelling", ["true", "True", "yes", "on"])
def test_a_flag_is_on_in_any_spelling_of_yaml(spelling: str) -> None:
    assert true(helm_values(f"flag: {spelling}")["flag"])


@pytest.mark.parametrize("spelling", ["false", '""', "1", "[true]", "~"])
def test_a_flag_that_is_not_on_is_off(spelling: str) -> None:
    assert not true(helm_values(f"flag: {spelling}")["flag"])


@pytest.mark.reference
def test_the_places_are_those_of_the_charts() -> None:
    assert "map" in chart_values("nvidia-device-plugin")["config"]
    assert {"create", "data"} <= chart_values("gpu-operator")["devicePlugin"]["config"].keys()
