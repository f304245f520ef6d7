"""Plans of a stack with workloads: a workload without a place fails them, in every form, and the others are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.loading.home import ROOT
from gpu_ci.cli import app
from tests.offline.staging import TEXT, few_policies, line_of, plan_of, write

HEAD = "      runners:\n"
FITS = "        ollama: {kind: ollama, pool: t4-spot, storage: {size: 100Gi, storageClass: fast}}\n"
BIG = "        big: {kind: ollama, pool: t4-spot, gpus: 2, storage: {size: 100Gi, storageClass: fast}}\n"


def stack(folder: Path, *lines: str) -> Path:
    """A copy of the staging file with these workloads."""
    assert TEXT.count(HEAD) == 1
    return write(folder, (HEAD, "      workloads:\n" + "".join(lines) + HEAD))


@pytest.fixture
def run():
    def call(*words: str) -> Any:
        return CliRunner().invoke(app, ["plan", "staging", *words])

    with few_policies():
        yield call


def test_a_workload_that_does_not_fit_fails_the_plan_before_anything_is_built(tmp_path):
    plan = plan_of(stack(tmp_path, FITS, BIG))
    assert plan.recording is None
    assert not plan.passes()
    assert [(found.cluster, found.workload) for found in plan.refused] == [("usw2", "big")]


def test_every_form_of_the_plan_says_which_and_why(run, tmp_path):
    path = stack(tmp_path, FITS, BIG)
    told = run("--file", str(path))
    assert told.exit_code == 1
    text = " ".join(told.stdout.split())
    assert "gpu-ci:clusters.usw2.workloads.big: cannot be placed: asks for 2 GPUs, g4dn.2xlarge has 1" in text
    assert "FAILED: 1 workload cannot be placed, so no resource was created or judged" in text
    markdown = run("--file", str(path), "--markdown").stdout
    assert markdown.startswith("## ❌ `staging`: 1 workload cannot be placed, so no resource was created or judged\n")
    assert "| placement | `usw2/big` | asks for 2 GPUs" in markdown
    (refused,) = json.loads(run("--file", str(path), "--json").stdout)["refused"]
    assert (refused["cluster"], refused["workload"]) == ("usw2", "big")
    line = line_of(path, "big: {kind: ollama")
    assert f",line={line},title=big cannot be placed::asks for 2 GPUs" in run("--file", str(path), "--annotations").stderr


def test_the_node_of_a_workload_that_stands_is_paid_without_jobs(tmp_path):
    plan = plan_of(stack(tmp_path, FITS))
    assert plan.recording is not None
    assert [line.least for line in plan.bill if line.item == "pool t4-spot"] == [1]
    assert {each.name for each in plan.resources if each.type == "gpu-ci:index:GpuWorkload"} == {"usw2-ollama"}


def test_a_change_of_a_workload_is_told_as_one(run, tmp_path):
    changed = run("--file", str(stack(tmp_path, FITS)), "--base", str(ROOT), "--markdown").stdout
    assert "workload `usw2/ollama`" in changed


def test_the_manifests_of_workloads_are_rendered(tmp_path):
    path, out = stack(tmp_path, FITS), tmp_path / "out"
    with few_policies():
        done = CliRunner().invoke(app, ["render", "--file", str(path), "--out", str(out), "staging"])
    assert done.exit_code == 0, done.stderr
    names = {found.name for found in (out / "gpu-ci-staging-usw2" / "manifests").iterdir()}
    assert any("ollama" in name and "deployment" in name.lower() for name in names), names
