"""What the recorder uses of the SDKs without documentation: it is in one file, and the newest SDK still has it."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOT

NAMES = {
    "asyncio.tasks": ("_enter_task", "_leave_task"),
    "asyncio.base_events": ("BaseEventLoop._run_once",),
    "pulumi.runtime.resource": ("_get_stack_trace",),
    "pulumi.runtime.mocks": ("MockMonitor.RegisterResource", "MockMonitor.SupportsFeature"),
    "pulumi.runtime.settings": ("SETTINGS.rpc_manager", "SETTINGS.callbacks", "ROOT.set", "Settings", "configure"),
    "pulumi_policy.deserialize": ("deserialize_properties", "serialize_properties"),
    "pulumi_policy.proxy": ("UnknownValueError", "unknown_checking_proxy"),
}
"""Module to names in it, with those of their attributes that we use."""
OFFLINE = ROOT / "gpu_ci" / "offline"
UV = Path(sys.executable).with_name("uv")
MOVED = """
import importlib, json, operator, sys
for module, names in json.loads(sys.argv[1]).items():
    for name in names:
        try:
            operator.attrgetter(name)(importlib.import_module(module))
        except (ImportError, AttributeError):
            print(f"{module}.{name}")
"""
"""Prints each name of the table that the SDKs of its interpreter do not have."""


def moved(python: str, names: object) -> list[str]:
    done = subprocess.run(
        [python, "-c", MOVED, json.dumps(names)], capture_output=True, text=True, check=False, timeout=120, cwd=ROOT.anchor
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hidden(path: Path) -> list[str]:
    """Names of others that begin with one underscore and that a module imports or reads."""
    ours = ("self", "cls", "secret")
    documented = ("_replace", "_fields", "_asdict")  # of named tuples: Python's manual of `collections.namedtuple`
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr) and node.attr not in documented:
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            found += [node.attr] if of not in ours else []
        elif isinstance(node, ast.ImportFrom):
            found += [name.name for name in node.names if name.name.startswith("_")]
    return found


def test_the_installed_sdk_has_every_name_and_one_that_moved_is_said() -> None:
    gone = {"pulumi.runtime.resource": ("_gone",), "pulumi.gone": ("x",), "asyncio.tasks": ("Task._gone",)}
    names = NAMES | {module: (*NAMES.get(module, ()), *more) for module, more in gone.items()}
    assert sorted(moved(sys.executable, names)) == ["asyncio.tasks.Task._gone", "pulumi.gone.x", "pulumi.runtime.resource._gone"]


def test_one_file_alone_uses_private_names_of_the_sdks() -> None:
    users = {path.name: names for path in sorted(OFFLINE.rglob("*.py")) if (names := hidden(path))}
    assert list(users) == ["private.py"], users
    declared = {part for names in NAMES.values() for name in names for part in name.split(".")}
    assert {*users["private.py"]} - {"_new", "_ready"} <= declared


@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.environ.get("GPU_CI_NETWORK") != "1", reason="GPU_CI_NETWORK=1 is not set: no network")
def test_the_newest_sdk_has_every_name(tmp_path: Path) -> None:
    uv = shutil.which("uv") or str(UV)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "venv")], check=True, timeout=120)
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "-U", "pulumi", "pulumi-policy"], check=True, timeout=400)
    assert moved(python, NAMES) == [], "these names moved in the newest SDK: gpu_ci/offline/private.py uses them"
