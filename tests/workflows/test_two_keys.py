"""The rules and values of the base judge the fleet of a pull request, and what they say differently waits for an owner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.builders import ROOT
from tests.workflows.test_comment import SCRIPT_MODULE as COMMENT

SCRIPT = ".github/scripts/two_keys.py"
PARTS = ("components", "fleet", "gpu_ci", "policies", "__main__.py", "Pulumi.yaml", "Pulumi.staging.yaml", SCRIPT)
"""What a checkout needs for the plan of one stack."""
SAME = "## ✅ The rules and values of the base say the same of this fleet\n"
STRIPPING = """import pulumi


def strip(args):
    if args.type_ == "aws:eks/nodeGroup:NodeGroup":
        return pulumi.ResourceTransformResult({**args.props, "taints": None}, args.opts)


pulumi.runtime.register_resource_transform(strip)
"""
CHECK = "def _check(args: Args, later: Later) -> Faults:\n"
EMPTIED = f"{CHECK}    return\n"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("two_keys", ROOT / SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkout(folder: Path) -> Path:
    """A checkout with the one stack staging."""
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("base"))


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / SCRIPT), *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def recorded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of a pull request that changes nothing."""
    folder = tmp_path_factory.mktemp("recorded")
    assert run(base, "record", str(folder)).returncode == 0
    return folder


def test_a_pull_request_that_changes_nothing_is_judged_the_same(base: Path, recorded: Path):
    done = run(base, "judge", str(recorded))
    assert (done.returncode, done.stdout) == (0, SAME), done.stderr


def test_a_policy_that_is_emptied_while_the_program_drops_taints_waits_for_an_owner(base: Path, tmp_path: Path):
    """The plan of the pull request itself is OK: its own rule says nothing."""
    head = checkout(tmp_path / "head")
    edit(head / "policies" / "rules" / "gpu_node_taint.py", CHECK, EMPTIED)
    edit(head / "__main__.py", "import pulumi\n", STRIPPING)
    assert run(head, "record", str(tmp_path / "recorded")).returncode == 0
    said = json.loads((tmp_path / "recorded" / "staging.json").read_text())["said"]
    assert [row for row in said if row[1] == "gpu-node-taint"] == []
    done = run(base, "judge", str(tmp_path / "recorded"))
    assert done.returncode == 1, done.stderr
    title, _, _, _, *rows = done.stdout.splitlines()
    assert title == f"## ⚠️ An owner must approve: verdicts of the base that this change does not have: {len(rows)}"
    assert len(rows) >= 2
    for row in rows:
        assert row.startswith("| staging | gpu-node-taint | mandatory violation | usw2-t4-"), row
    shown = COMMENT.written("## plan", COMMENT.Run(1, "0" * 40, "a/b", "https://x", "success"), "a/b", done.stdout)
    assert shown.index("An owner must approve") < shown.index("Plan of ")


def test_a_value_that_the_pull_request_raises_waits_for_an_owner(base: Path, recorded: Path, tmp_path: Path, script: ModuleType):
    lower = checkout(tmp_path / "base")
    settings: dict[str, Any] = json.loads((lower / "policies/config/staging.json").read_text())
    settings["stack-gpu-ceiling"]["maxGpus"] = 1
    (lower / "policies/config/staging.json").write_text(json.dumps(settings))
    rows = [*script.differences(recorded, lower)]
    assert {(row[0], row[1], row[2]) for row in rows} == {("staging", "stack-gpu-ceiling", "mandatory violation")}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="no recording"),
        pytest.param(lambda path: path.write_text("{"), id="no JSON"),
        pytest.param(lambda path: path.write_text("[" * 100_000), id="too deep"),
        pytest.param(lambda path: path.write_text('{"resources": [{"urn": "a"}], "inputs": [{}], "said": []}'), id="no resource"),
        pytest.param(lambda path: path.write_bytes(b"\xff"), id="no text"),
        pytest.param(lambda path: path.write_text('{"resources": [], "inputs": [], "said": []}'), id="no resources"),
    ],
)
def test_a_recording_that_is_missing_or_wrong_is_a_difference(
    base: Path, recorded: Path, tmp_path: Path, script: ModuleType, damage: Callable[[Path], object]
):
    shutil.copytree(recorded, tmp_path / "recorded")
    damage(tmp_path / "recorded" / "staging.json")
    (row,) = script.differences(tmp_path / "recorded", base)
    assert row[:3] == ("staging", "", "not judged")


def test_a_new_stack_is_judged_by_the_strictest_values(base: Path, recorded: Path, tmp_path: Path, script: ModuleType):
    shutil.copytree(recorded, tmp_path / "recorded")
    shutil.copy(tmp_path / "recorded" / "staging.json", tmp_path / "recorded" / "cheap.json")
    rows = [*script.differences(tmp_path / "recorded", base)]
    assert {row[0] for row in rows} == {"cheap"}
    assert "stack-gpu-ceiling" in {row[1] for row in rows}


def test_what_a_stranger_wrote_is_text(base: Path, recorded: Path, tmp_path: Path):
    held = json.loads((recorded / "staging.json").read_text())
    name = "staging.json"
    for row in held["resources"]:
        row["name"] += "@mallory | <script>"
        row["urn"] += "@mallory | <script>"
    held["said"] = []
    (tmp_path / name).write_text(json.dumps(held))
    done = run(base, "judge", str(tmp_path))
    assert done.returncode == 1
    assert "@mallory" not in done.stdout, "a mention"
    assert "<script>" not in done.stdout
    assert {line.count(" | ") for line in done.stdout.splitlines() if line.startswith("| ")} == {4}
