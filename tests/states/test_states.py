"""A stack of a released version can take the next one: each resource of its state is still in the program."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpu_ci.offline.plan import make_plan
from tests.builders import ROOT, prod_with_pods

FOLDER = Path(__file__).parent
STATES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json.gz"))


def resources(state: str) -> list[dict[str, Any]]:
    content = json.loads(gzip.decompress((FOLDER / state).read_bytes()))
    assert content["version"] in (3, 4)
    found: list[dict[str, Any]] = content["deployment"]["resources"]
    return found


def test_the_version_of_the_project_has_a_state_of_each_stack_of_a_cloud():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {f"{version}/{stack}.json.gz" for stack in ("staging", "prod")} <= set(STATES)


@pytest.mark.parametrize("state", STATES)
def test_no_resource_of_a_release_is_gone_without_a_reason(state, tmp_path):
    version, stack = state.removesuffix(".json.gz").split("/")
    old = {resource["urn"] for resource in resources(state)}
    file = ROOT / f"Pulumi.{stack}.yaml"
    if stack == "prod":
        (file := tmp_path / file.name).write_text(prod_with_pods())
    now = {resource.urn for resource in make_plan(stack, ROOT, file).resources}
    # A plan has no children of a remote component: tests/engine/test_engine_upgrade.py has them.
    old = {urn for urn in old if "$eks:index:Cluster$" not in urn}
    gone = {f"{version}/{stack}/{urn.rpartition('::')[2]}" for urn in old - now if "::pulumi:pulumi:Stack::" not in urn}
    assert gone == set(tomllib.loads((FOLDER / "gone.toml").read_text())) & gone
    assert len(old & now) > 100


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_no_secret_in_the_clear_and_no_path_of_a_machine(state):
    text = gzip.decompress((FOLDER / state).read_bytes()).decode()
    assert "ciphertext" in text
    assert '"plaintext"' not in text
    assert "not-a-key" not in text
    assert "/home/" not in text.replace("/home/runner", "")
