"""The device plugin's config files: where they are found, and that no text whatever does harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rules.plugin_config import LONGEST, is_on, parsed, plugin_configs
from policies.rules.read import Later
from tests.policies.fixtures import RELEASE
from tests.policies.harness import proxied
from tests.policies.published import chart_values

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
SLICED = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"


def found(token: str, props: dict[str, Any]) -> list[str]:
    return [config.path for config in plugin_configs(token, proxied(props), Later())]


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
    assert is_on(parsed(f"flag: {spelling}")["flag"])


@pytest.mark.parametrize("spelling", ["false", '""', "1", "[true]", "~"])
def test_a_flag_that_is_not_on_is_off(spelling: str) -> None:
    assert not is_on(parsed(f"flag: {spelling}")["flag"])


@pytest.mark.parametrize(
    "hostile",
    [
        "a: b: c",
        "\tsharing:",
        "[" * 9_000,
        "- " * 8_000,
        "&a [*a]",
        "? [a]: b",
        '"\\UFFFFFFFF"',
        "%YAML " + "9" * 5_000,
        "\x00",
        "x" * (LONGEST + 1),
    ],
)
def test_what_cannot_be_read_is_none(hostile: str) -> None:
    assert parsed(hostile) is None


@pytest.mark.parametrize("tagged", ["!!python/object/apply:os.system ['true']", "!!int ''", "!!timestamp x", "!!bool x"])
def test_a_tag_makes_nothing_but_text(tagged: str) -> None:
    assert isinstance(parsed(tagged), str | list)


def test_a_bomb_of_references_stays_small() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 60))
    assert set(parsed(bomb)) == {f"a{n}" for n in range(60)}


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.text("{}[]:-?&*!%@`\"'|>#,\\ \n\tab0", max_size=40))
def test_any_text_is_read_or_is_none(content: str) -> None:
    parsed(content)


@pytest.mark.reference
def test_the_places_are_those_of_the_charts() -> None:
    assert "map" in chart_values("nvidia-device-plugin")["config"]
    assert {"create", "data"} <= chart_values("gpu-operator")["devicePlugin"]["config"].keys()
