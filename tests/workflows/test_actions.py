"""Our composite actions: pinned, with files that exist, and no expression in a shell; workflows use them as they are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.facts import versions
from tests.builders import ROOT
from tests.workflows import kubeflow

ACTIONS = ROOT / ".github" / "actions"
WORKFLOWS = ROOT / ".github" / "workflows"
NAMES = sorted(path.parent.name for path in ACTIONS.glob("*/action.yml"))
each_action = pytest.mark.parametrize("name", NAMES)


@cache
def action(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(ACTIONS / name / "action.yml")


def steps(name: str) -> list[dict[str, Any]]:
    return list(action(name)["runs"]["steps"])


def uses() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(workflow, action, step) of each use of an action of our own."""
    for path in sorted(WORKFLOWS.glob("*.yml")):
        for job in YAML(typ="safe", pure=True).load(path)["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("$/.github/actions/"):
                    yield path.name, step["uses"].rpartition("/")[2], step


def test_there_are_the_actions_of_the_page():
    assert NAMES == [
        "ccache",
        "choose-runner",
        "ddp-check",
        "gpu-check",
        "job-cost",
        "kubeflow-blueprint",
        "kubeflow-gpu-cluster",
        "rerun-once",
        "sccache",
        "setup-torch",
        "why-waiting",
    ]


@each_action
def test_an_action_is_composite_and_says_what_it_does_takes_and_gives(name):
    held = action(name)
    assert held["runs"]["using"] == "composite"
    assert held["description"].endswith(".")
    for kind in ("inputs", "outputs"):
        for told in held.get(kind, {}).values():
            assert told["description"]
            assert not told["description"].endswith(".")


@each_action
def test_an_input_that_need_not_be_given_has_a_default_of_text(name):
    for told in action(name).get("inputs", {}).values():
        assert told.get("required", False) is not ("default" in told)
        assert isinstance(told.get("default", ""), str), "inputs are texts: quote it"


@each_action
def test_a_step_names_its_shell_or_an_action_by_its_commit(name):
    text = (ACTIONS / name / "action.yml").read_text()
    for step in steps(name):
        assert ("run" in step) is not ("uses" in step)
        assert step.get("shell", "bash") == "bash"
        assert ("shell" in step) is ("run" in step)
    for line in re.findall(r"uses: .*", text):
        assert re.fullmatch(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_of_others_has_one_commit_here_and_in_the_workflows():
    pins: dict[str, set[str]] = {}
    for path in (*WORKFLOWS.glob("*.yml"), *ACTIONS.glob("*/action.yml")):
        for used, pin in re.findall(r"uses: ([\w./-]+)@(.+)", path.read_text()):
            pins.setdefault(used, set()).add(pin)
    assert "actions/setup-python" in pins
    assert {used for used, found in pins.items() if len(found) > 1} == set()


@each_action
def test_no_shell_text_holds_an_expression(name):
    for step in steps(name):
        assert "${{" not in step.get("run", ""), "what an expression holds would be run; give it by env"


@each_action
def test_every_input_is_read_and_every_one_that_is_read_is_an_input(name):
    read = set(re.findall(r"inputs\.([\w-]+)", (ACTIONS / name / "action.yml").read_text()))
    assert read == set(action(name).get("inputs", {}))


@each_action
def test_every_file_that_a_step_runs_is_there_and_may_be_run(name):
    called = {found for step in steps(name) for found in re.findall(r"\$GITHUB_ACTION_PATH/([\w./-]+)", step.get("run", ""))}
    for file in called:
        path = ACTIONS / name / file
        assert path.is_file()
        assert path.suffix in (".py", ".txt") or path.stat().st_mode & 0o111, f"{file} is called and is not a program"
    own = {path.name for path in (ACTIONS / name).iterdir()} - {"action.yml", "__pycache__"}
    texts = [path.read_text() for path in (ACTIONS / name).iterdir() if path.suffix in (".sh", ".py")]
    read = {found for text in texts for found in re.findall(r"(?:\$HERE/|with_name\(\")([\w.-]+)", text)}
    assert own == called | read | {file.replace(".txt", ".in") for file in called if file.endswith(".txt")}, "each file has a use"


@each_action
def test_programs_need_the_standard_library_alone(name):
    """The setup installs PyTorch or papermill; a program imports the first when it runs, and starts the second."""
    for path in (ACTIONS / name).glob("*.py"):
        tree = ast.parse(path.read_text())
        found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {module.partition(".")[0] for module in found} <= sys.stdlib_module_names


@pytest.mark.parametrize("asking", sorted(ACTIONS.glob("*/requirements*.in")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_pip_installs_is_held_to_its_hashes_and_to_what_was_asked_for(asking):
    [step] = [step for step in steps(asking.parent.name) if "pip install" in step.get("run", "")]
    assert "--require-hashes" in step["run"]
    locked = asking.with_suffix(".txt").read_text()
    asked = re.findall(r"^[\w-]+==[\w.]+$", asking.read_text(), re.MULTILINE)
    assert asked
    for requirement in asked:
        assert f"\n{requirement} \\\n    --hash=sha256:" in f"\n{locked}", f"{requirement}: make lock"
    unhashed = [line for line in re.findall(r"^[\w.-]+==.*$", locked, re.MULTILINE) if not line.endswith("\\")]
    assert unhashed == []


def test_the_pytorch_that_is_installed_is_of_the_release_of_our_images():
    for lock, image, runtime, tag in (
        ("requirements", "pytorch", "nvidia-cuda-runtime==13.", "-cuda13."),
        ("requirements-cuda12", "pytorch-cuda12.8", "nvidia-cuda-runtime-cu12==12.8.", "-cuda12.8-"),
    ):
        [version] = re.findall(r"^torch==(.+)$", (ACTIONS / "setup-torch" / f"{lock}.in").read_text(), re.MULTILINE)
        assert f":{version}{tag}" in versions.IMAGES[image].reference
        assert runtime in (ACTIONS / "setup-torch" / f"{lock}.txt").read_text(), "for the same major version of CUDA"


@pytest.mark.parametrize(
    ("gpus", "lock"),
    [
        ("580.178.04, 7.5", "requirements"),
        ("595.91.07, 12.0", "requirements"),
        ("570.211.01, 8.6", "requirements-cuda12"),
        ("580.178.04, 7.0", "requirements-cuda12"),
        ("580.178.04, 9.0\n580.178.04, 7.0", "requirements-cuda12"),
        ("", "requirements"),
    ],
)
def test_the_driver_and_the_gpu_choose_the_cuda_of_the_pytorch_to_install(gpus, lock, tmp_path):
    [step] = [step for step in steps("setup-torch") if "pip install" in step.get("run", "")]
    for program, text in (("nvidia-smi", f"printf '%s\\n' '{gpus}'" if gpus else "exit 9"), ("python", 'echo "$@" > "$LOG"')):
        (tmp_path / program).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / program).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHON": str(tmp_path / "python"),
        "LOG": str(tmp_path / "log"),
        "GITHUB_ACTION_PATH": "/action",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    subprocess.run(["/bin/bash", "-eo", "pipefail", "-c", step["run"]], env=environment, check=True)
    assert (tmp_path / "log").read_text().endswith(f"--require-hashes --requirement /action/{lock}.txt\n")
    assert (tmp_path / "output").read_text() == f"python={tmp_path / 'python'}\n"


def test_the_sdk_is_of_the_trainer_that_is_installed():
    locked = (ACTIONS / "kubeflow-blueprint" / "requirements.txt").read_text()
    assert f"\nkubeflow-trainer-api=={kubeflow.TRAINER} \\" in locked


# -- workflows and actions -------------------------------------------------------------------------------------------------


def test_workflows_use_every_action_but_what_is_for_builds_and_for_fleets_in_two_regions():
    assert {used for _, used, _ in uses()} == set(NAMES) - {"ccache", "sccache", "choose-runner"}


@pytest.mark.parametrize(("workflow", "used", "step"), list(uses()))
def test_a_step_gives_inputs_that_there_are_and_all_that_are_required(workflow, used, step):
    inputs = action(used).get("inputs", {})
    given = set(step.get("with", {}))
    assert given <= set(inputs), workflow
    assert {name for name, told in inputs.items() if told.get("required")} <= given, workflow


@pytest.mark.parametrize(("workflow", "used", "step"), list(uses()))
def test_a_step_reads_outputs_that_there_are(workflow, used, step):
    del used
    ids = {found["id"]: name for place, name, found in uses() if place == workflow and "id" in found}
    for identity, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", str(step)):
        assert output in action(ids[identity])["outputs"]


def test_the_runner_knows_the_syntax_for_ones_own_repository():
    """github.blog, 2026-07-30: from runner 2.336.0 on."""
    found = re.search(r":(\d+)\.(\d+)\.\d+@", versions.RUNNER_IMAGE)
    assert found
    assert (int(found[1]), int(found[2])) >= (2, 336)
