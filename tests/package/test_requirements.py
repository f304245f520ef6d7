"""The locks of the plugins have what their components import and nothing else, in the versions of the project's lock."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.test_arrows import below, imported, modules

PACKAGE = ROOT / "package"


def locked(path: Path) -> dict[str, str]:
    """Distributions of a lock with their versions."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.MULTILINE))


PLUGINS = {
    "": ("kubernetes", "eks", "oci"),
    "kubernetes": ("kubernetes",),
    "eks": ("kubernetes", "eks"),
    "oci": ("kubernetes", "oci"),
}
"""Folders of `components` that each plugin serves, by its folder in `package`."""


@cache
def used(plugin: str) -> set[str]:
    """Distributions that a plugin imports. Only programs of machines, which do not run here, import inside functions."""
    found: set[str] = set()
    served = [name for folder in PLUGINS[plugin] for name in below(f"components.{folder}")]
    waiting = ["package.__main__", *(served if plugin else below("components"))]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += imported(module, lazy=False) if module in modules() else []
    homes = importlib.metadata.packages_distributions()
    names = {name.split(".")[0] for name in found - modules().keys()} - sys.stdlib_module_names
    # Python's zoneinfo reads its data from this distribution where the system has none.
    data = {"tzdata"} if any(name.startswith("zoneinfo") for name in found) else set()
    return data | {home.lower().replace("_", "-") for name in names for home in homes.get(name, [name])}


def required(group: str) -> set[str]:
    """The distributions of a dependency group and of those that it includes."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"][group]
    own = {entry for entry in listed if isinstance(entry, str)}
    return own.union(*(required(entry["include-group"]) for entry in listed if not isinstance(entry, str)))


def lock(plugin: str) -> dict[str, str]:
    return locked(PACKAGE / plugin / "requirements.txt")


def test_every_cloud_has_a_plugin():
    assert {path.parent.relative_to(PACKAGE).name for path in PACKAGE.rglob("PulumiPlugin.yaml")} == set(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_lock_has_what_the_plugin_imports(plugin):
    assert {"pulumi", "pulumi-kubernetes", "pyyaml"} <= used(plugin), "the imports were found"
    assert used(plugin) <= lock(plugin).keys()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_nothing_is_required_that_the_plugin_does_not_import(plugin):
    """The CLI downloads the plugin of each provider in the environment."""
    assert required(f"package-{plugin}" if plugin else "package") - used(plugin) == set()


def test_a_plugin_of_one_cloud_installs_no_sdk_of_another():
    clouds = {"pulumi-aws": "eks", "pulumi-eks": "eks", "pulumi-oci": "oci"}
    for plugin in PLUGINS:
        assert lock(plugin).keys() & clouds.keys() == {name for name, cloud in clouds.items() if plugin in ("", cloud)}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_versions_are_those_of_the_project(plugin):
    assert lock(plugin).items() <= locked(ROOT / "requirements.txt").items()
