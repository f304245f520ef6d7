"""The hooks of pre-commit run as it runs them: the entry's words, then the args, in the folder of somebody's repository."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import warm
from tests.builders import ROOT
from tests.package.wheel import unpacked
from tests.warm import lend_compiled

HOOKS: dict[str, Any] = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
WORKFLOW = "on: push\njobs:\n  test:\n    runs-on: gpu\n    steps: [{run: nvidia-smi}]\n"
VALUES = "githubConfigUrl: https://github.com/acme\nrunnerScaleSetName: gpus\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: 'a:latest'}]}\n"
RUN = "import json, sys; sys.argv = json.loads(sys.argv[1]); from gpu_ci.__main__ import main; main()"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = unpacked(tmp_path_factory.mktemp("wheel"))
    lend_compiled(folder / "gpu_ci", ROOT / "gpu_ci")
    lend_compiled(folder / "gpu_ci" / "_tree", ROOT)
    return folder


def ran(hook: str, folder: Path, site: Path, *args: str) -> tuple[int, str]:
    return command(folder, site, *shlex.split(HOOKS[hook]["entry"]), *HOOKS[hook].get("args", args))


def command(folder: Path, site: Path, *words: str) -> tuple[int, str]:
    status, stdout, stderr = warm.run(RUN, json.dumps(words), folder=folder, path=site)
    return status, stdout + stderr


def test_a_hook_runs_the_program_of_the_wheel_on_the_whole_repository():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(HOOKS) == {"gpu-ci-audit", "gpu-ci-check"}
    for hook in HOOKS.values():
        assert (hook["language"], hook["pass_filenames"]) == ("python", False)
        assert hook["entry"].split()[0] in scripts


def test_the_audit_of_a_repository_fails_for_a_label_without_a_runner_set(site, tmp_path):
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "ci.yml").write_text(WORKFLOW)
    (tmp_path / "values.yaml").write_text(VALUES)
    status, said = ran("gpu-ci-audit", tmp_path, site)
    assert status == 1, said
    assert "job test" in said
    (folder / "ci.yml").write_text(WORKFLOW.replace("gpu", "gpus", 1))
    assert ran("gpu-ci-audit", tmp_path, site)[0] == 0


def test_the_check_takes_stack_and_folder_as_args(site, tmp_path):
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "pod.yaml").write_text(POD)
    (tmp_path / "policies" / "config").mkdir(parents=True)
    (tmp_path / "policies" / "stacks.toml").write_text('[acme]\nkind = "staging"\n')
    assert command(tmp_path, site, "gpu-ci", "policy-config")[0] == 0
    status, said = ran("gpu-ci-check", tmp_path, site, "acme", "manifests")
    assert status == 1, said
    assert 'tag "latest" is not a version' in said
