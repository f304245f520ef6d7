"""package/requirements.txt has what the components import and nothing else, in the versions of the project's lock."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from tests.builders import ROOT
from tests.test_arrows import below, imported, modules

PACKAGE = ROOT / "package"


def locked(path: Path) -> dict[str, str]:
    """Distributions of a lock with their versions."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.MULTILINE))


@cache
def used() -> set[str]:
    """Distributions that the plugin imports. Only programs of machines, which do not run here, import inside functions."""
    found: set[str] = set()
    waiting = ["package.__main__", *below("components")]
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


def test_the_lock_has_what_the_plugin_imports():
    assert {"pulumi", "pulumi-kubernetes", "pyyaml"} <= used(), "the imports were found"
    assert used() <= locked(PACKAGE / "requirements.txt").keys()


def test_nothing_is_required_that_the_plugin_does_not_import():
    """The CLI downloads the plugin of each provider in the environment."""
    required = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["package"])
    assert required - used() == set()


def test_versions_are_those_of_the_project():
    mine, projects = locked(PACKAGE / "requirements.txt"), locked(ROOT / "requirements.txt")
    assert mine.items() <= projects.items()
