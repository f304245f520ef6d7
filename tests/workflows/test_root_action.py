"""The action at the root: it installs this commit, audits or plans, and comments once at a pull request."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.builders import ROOT
from tests.workflows.github import NUMBER, REPOSITORY, TOKEN, GitHub, serving

TEXT = (ROOT / "action.yml").read_text()
ACTION: Any = YAML(typ="safe", pure=True).load(TEXT)
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SCRIPTS = ROOT / ".github" / "scripts"


def test_the_action_is_composite_and_every_input_has_a_text_and_a_default():
    assert ACTION["runs"]["using"] == "composite"
    assert set(ACTION["inputs"]) == {"command", "path", "stack", "comment", "sarif"}
    assert all(told["description"] and isinstance(told["default"], str) for told in ACTION["inputs"].values())
    assert set(re.findall(r"inputs\.([\w-]+)", TEXT)) == set(ACTION["inputs"])


def test_a_step_runs_a_script_or_an_action_by_its_commit_and_no_expression():
    for step in STEPS:
        assert ("run" in step) is not ("uses" in step)
        assert "${{" not in step.get("run", ""), "what an expression holds would be run; give it by env"
    pins = dict(re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)\n", TEXT))
    assert len(pins) == len([step for step in STEPS if "uses" in step])
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert f"actions/setup-python@{pins['actions/setup-python']}" in release


def test_only_the_comment_has_the_token():
    assert [step["name"] for step in STEPS if "github.token" in str(step)] == ["Comment"]
    assert "secrets." not in TEXT


# -- the installation ------------------------------------------------------------------------------------------------------

# A Python that makes an environment with itself in it, and notes what pip should install.
PYTHON = f"""#!/bin/bash
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit; fi
if [ "$2" = pip ]; then echo "$*" >> "$LOG"; exit; fi
exec {sys.executable} "$@"
"""


def environment(folder: Path, **more: str) -> dict[str, str]:
    (folder / "python").write_text(PYTHON)
    (folder / "python").chmod(0o755)
    return {
        "PATH": os.environ["PATH"],
        "PYTHON": str(folder / "python"),
        "LOG": str(folder / "log"),
        "LOCK": ".ci/requirements/core.txt",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RUNNER_TEMP": str(folder),
        "GPU_CI_PATH": ".",
        **more,
    }


def script(name: str, folder: Path, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPTS / name], cwd=folder, env=given, capture_output=True, text=True, check=False)


def test_the_installation_has_the_hashes_of_the_lock_and_the_parts_of_the_wheel(tmp_path):
    given = environment(tmp_path)
    done = script("install_action.sh", tmp_path, given)
    assert (done.returncode, done.stderr) == (0, "")
    lock = ROOT / ".ci" / "requirements" / "core.txt"
    assert f"--require-hashes --requirement {lock}\n" in (tmp_path / "log").read_text()
    parts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    tree = tmp_path / "gpu-ci" / "program" / "gpu_ci" / "_tree"
    assert {f"gpu_ci/_tree/{path.name}" for path in tree.iterdir()} == set(parts.values())
    for lock_name in re.findall(r"'([\w./]+\.txt)'", TEXT):
        assert (ROOT / lock_name).is_file()


def test_a_plan_of_a_folder_of_somebody_else_is_the_summary(tmp_path):
    given = environment(tmp_path, GPU_CI_COMMAND="plan", GPU_CI_STACK="homelab", GPU_CI_PATH="infra")
    infra = tmp_path / "infra"
    infra.mkdir()
    text = (ROOT / "Pulumi.homelab.yaml").read_text()
    (infra / "Pulumi.homelab.yaml").write_text(text.replace("memory: 128Gi", "memory: 8Gi"))
    script("install_action.sh", tmp_path, given)
    (infra / "fleet.py").write_text("raise AssertionError('a file of the pull request')\n")
    done = script("run_action.sh", tmp_path, given)
    assert done.returncode in (1, 2), done.stderr
    assert (tmp_path / "summary").read_text().startswith("## ❌ `homelab`")
    assert "::error" in done.stderr + done.stdout, "annotations are in the log"


# -- the command -----------------------------------------------------------------------------------------------------------

# The command, which notes its arguments and ends as a test asks for.
COMMAND = """#!/bin/bash
echo "${@:4}" >> "$LOG"
case "$*" in *markdown*) echo "# report";; *annotations*) echo "::error file=a.yaml,line=1::wrong";; *sarif*) echo '{}';; esac
exit "$STATUS"
"""


def ran(folder: Path, status: int = 0, **given: str) -> tuple[int, str, list[str]]:
    """Status, output and the arguments of each call of gpu-ci."""
    site = folder / "gpu-ci" / "bin"
    site.mkdir(parents=True)
    (site / "python").write_text(COMMAND)
    (site / "python").chmod(0o755)
    done = script("run_action.sh", folder, environment(folder, STATUS=str(status), **given))
    log = folder / "log"
    return done.returncode, done.stdout, log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("status", [0, 1])
def test_an_audit_writes_summary_annotations_and_sarif_and_ends_as_it_found(tmp_path, status):
    ended, said, calls = ran(tmp_path, status, GPU_CI_COMMAND="audit", GPU_CI_PATH="osdc", GPU_CI_SARIF="out.sarif")
    assert (ended, said) == (status, "::error file=a.yaml,line=1::wrong\n")
    assert calls == [f"audit --format {form} -- osdc" for form in ("markdown", "annotations", "sarif")]
    assert (tmp_path / "summary").read_text() == "# report\n"
    assert json.loads((tmp_path / "out.sarif").read_text()) == {}


def test_an_audit_that_could_not_read_says_so_and_goes_no_further(tmp_path):
    ended, said, calls = ran(tmp_path, 2, GPU_CI_COMMAND="audit")
    assert (ended, len(calls)) == (2, 1)
    assert said.startswith("::error title=gpu-ci::audit could not read the path")


@pytest.mark.parametrize(
    "given",
    [
        {"GPU_CI_COMMAND": "destroy"},
        {"GPU_CI_COMMAND": "plan"},
        {"GPU_CI_COMMAND": "audit", "GPU_CI_STACK": "prod"},
        {"GPU_CI_COMMAND": "plan", "GPU_CI_STACK": "prod", "GPU_CI_SARIF": "out.sarif"},
    ],
)
def test_inputs_that_do_not_fit_are_one_annotation_and_run_nothing(tmp_path, given):
    ended, said, calls = ran(tmp_path, **given)
    assert (ended, calls) == (2, [])
    assert re.fullmatch(r"::error title=gpu-ci::.+\n", said)


def test_a_path_is_never_an_option(tmp_path):
    _, _, calls = ran(tmp_path, GPU_CI_COMMAND="audit", GPU_CI_PATH="--help")
    assert calls[0].endswith("-- --help")


# -- the comment -----------------------------------------------------------------------------------------------------------


def commented(folder: Path, github: GitHub, event: object, name: str = "audit  .", text: str = "# report @somebody\n") -> str:
    (folder / "event.json").write_text(json.dumps(event))
    (folder / "report.md").write_text(text)
    given = {
        "GITHUB_API_URL": github.url,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "GPU_CI_NAME": name,
    }
    command = [sys.executable, str(SCRIPTS / "report.py"), str(folder / "report.md")]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert TOKEN not in done.stdout + done.stderr
    return done.stdout


PULL_REQUEST = {"pull_request": {"number": NUMBER}}


def test_a_pull_request_has_one_comment_for_each_use_and_mentions_nobody(tmp_path):
    with serving(GitHub()) as github:
        assert commented(tmp_path, github, PULL_REQUEST) == f"created a comment at #{NUMBER}\n"
        assert commented(tmp_path, github, PULL_REQUEST, text="# second\n") == f"updated the comment at #{NUMBER}\n"
        commented(tmp_path, github, PULL_REQUEST, name="plan prod .")
    assert len(github.comments) == 2
    assert "# second" in github.comments[0]["body"]
    assert "@somebody" not in github.comments[1]["body"]


def test_the_token_of_a_fork_writes_no_comment_and_fails_nothing(tmp_path):
    failing = {f"POST /repos/{REPOSITORY}/issues/{NUMBER}/comments": (403, b"{}")}
    with serving(GitHub(failing=failing)) as github:
        said = commented(tmp_path, github, PULL_REQUEST)
    assert said.startswith("::warning title=gpu-ci::no comment: POST ")
    assert "pull-requests: write" in said


def test_a_push_has_no_comment(tmp_path):
    with serving(GitHub()) as github:
        assert commented(tmp_path, github, {"ref": "refs/heads/main"}).startswith("::notice ")
    assert github.requests == []
