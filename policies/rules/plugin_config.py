"""Config files of NVIDIA's device plugin in every resource that may contain one.

Chart nvidia-device-plugin has them in `config.map`, chart gpu-operator in `devicePlugin.config.data` while `create` is on, and a
ConfigMap in `data`, whatever its keys are called. Each is YAML of version v1 (NVIDIA/k8s-device-plugin, api/config/v1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.facts.yaml_text import helm_values

from .kinds import CONFIG_MAPS, OPERATOR_CHART, PLUGIN_CHART, each
from .read import Data, Later, keys, shown, text, true, walk
from .releases import Release, releases

SHARED = ".shared"
"""The plugin appends this to the name of a resource whose devices it shares, if it renames the resource."""

CHART_CONFIG = {PLUGIN_CHART: ("config",), OPERATOR_CHART: ("devicePlugin", "config")}
"""Where in its values each chart reads its configs."""

_FILES = {PLUGIN_CHART: "map", OPERATOR_CHART: "data"}
# Keys of a ConfigMap with these endings contain something else.
_NO_CONFIG = (".conf", ".crt", ".csv", ".json", ".pem", ".py", ".sh", ".toml")
_SIGN = "sharing"


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A config file: its path and its content. `body` is None if the file is not YAML or is too long."""

    path: str
    body: Data


def plugin_configs(token: str, props: Data, later: Later) -> Iterator[PluginConfig]:
    """The device plugin's configs in a chart's values or a ConfigMap. `later` collects unknown values.

    A file of a ConfigMap counts as such a config only if it has a section `sharing`.
    """
    for release in releases(token, props, later):
        yield from configs_of(release, later)
    if token in CONFIG_MAPS:
        for prefix, config_map in each(token, props, later):
            with later:
                for config in _files(f"{prefix}data", walk(config_map, "data"), later, sign=_SIGN):
                    if keys(walk(config.body, _SIGN)):
                        yield config


def configs_of(release: Release, later: Later) -> Iterator[PluginConfig]:
    """The device plugin's configs in the values of a chart. `later` collects unknown values."""
    with later:
        chart = release.chart_name
        if (path := CHART_CONFIG.get(chart)) is None:
            return
        config = walk(release.values, *path)
        if chart == PLUGIN_CHART or true(walk(config, "create")):
            yield from _files(".".join((release.values_path, *path, _FILES[chart])), walk(config, _FILES[chart]), later)


def _files(path: str, files: Data, later: Later, sign: str = "") -> Iterator[PluginConfig]:
    for name in sorted(keys(files)):
        if name.endswith(_NO_CONFIG):
            continue
        with later:
            content = text(walk(files, name))
            if sign in content:
                yield PluginConfig(f"{path}[{shown(name)}]", helm_values(content))
