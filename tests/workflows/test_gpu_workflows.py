"""Workflows on the fleet's runners ask what is declared of them, and what is declared fits production."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.loading.config import load
from fleet.prove.remarks import BY_US
from fleet.prove.runs_on import RunsOn
from tests.builders import ROOT, read_stack
from tests.workflows import kubeflow
from tests.workflows.ci_workloads import CI_WORKLOADS, CiWorkload, proof
from tests.workflows.load import program

FOLDER = ROOT / ".github" / "workflows"
INPUT = f"${{{{ fromJSON({BY_US} && inputs.rerun-on || inputs.runs-on) }}}}"
HOSTED = ("ubuntu-", "${{ vars.GPU_CI_PREVIEW_RUNNER || 'ubuntu-24.04' }}")
"""Runners that GitHub has, or that a repository's owner chooses."""
WAKE = "${{ fromJSON(inputs.runs-on) }}"
"""A wake asks for a runner of any set, and for nothing of it (docs/rerun.md)."""


@cache
def workflow(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(FOLDER / name)


def jobs() -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """(file, name, `runs-on`, job) of each job on the fleet's runners; a matrix is one for each of its values."""
    for path in sorted(FOLDER.glob("*.yml")):
        for job in workflow(path.name)["jobs"].values():
            runs_on = job["runs-on"]
            if runs_on == INPUT:
                runs_on = json.loads(workflow(path.name)["on"]["workflow_call"]["inputs"]["runs-on"]["default"])
            if isinstance(runs_on, str) and runs_on.startswith((*HOSTED, WAKE)):
                continue
            names = job.get("strategy", {}).get("matrix", {}).get("blueprint", [job["name"]])
            yield from ((path.name, name, runs_on, job) for name in names)


JOBS = {name: (file, runs_on, job) for file, name, runs_on, job in jobs()}
WORKLOADS = {workload.name: workload for workload in CI_WORKLOADS}
each_workload = pytest.mark.parametrize("workload", CI_WORKLOADS, ids=lambda workload: workload.name)


def test_every_job_on_the_fleets_runners_is_declared_and_the_other_way_round():
    assert {name: file for name, (file, _, _) in JOBS.items()} == {name: found.workflow for name, found in WORKLOADS.items()}


@each_workload
def test_a_workflow_names_the_runner_that_is_declared(workload: CiWorkload):
    _, runs_on, _ = JOBS[workload.name]
    assert RunsOn.read(runs_on) == workload.runs_on


@each_workload
def test_what_a_workflow_asks_fits_production(workload: CiWorkload):
    fleet = load(read_stack(ROOT / "Pulumi.prod.yaml"))
    _, runs_on, _ = JOBS[workload.name]
    found = proof(fleet, workload)
    assert (found.error, RunsOn.read(runs_on)) == ("", workload.runs_on)
    assert found.runner_set


def given(name: str, action: str) -> dict[str, Any]:
    """What a job gives an action of our own."""
    _, _, job = JOBS[name]
    [step] = [step for step in job["steps"] if step.get("uses") == f"$/.github/actions/{action}"]
    return dict(step.get("with", {}))


def test_the_check_and_the_two_gpu_test_ask_as_many_gpus_as_is_declared():
    called = workflow("test-gpu.yml")["on"]["workflow_call"]["inputs"]
    assert given("test-gpu", "gpu-check")["gpus"] == "${{ inputs.gpus }}"
    assert called["gpus"]["default"] == WORKLOADS["test-gpu"].gpus
    assert given("ddp", "ddp-check")["gpus"] == WORKLOADS["ddp"].gpus == 2
    assert given("ddp", "ddp-check")["nccl-debug"] == "INFO"


def test_the_blueprints_ask_what_is_declared():
    blueprints = program("kubeflow-blueprint", "blueprint").BLUEPRINTS
    assert set(blueprints) == {workload.name for workload in CI_WORKLOADS if workload.workflow == "kubeflow-blueprints.yml"}
    torchtune, jax = blueprints["torchtune-qwen2.5-1.5b-alpaca"], blueprints["jax-mnist"]
    [memory] = re.findall(r'"memory": "(\d+)G"', " ".join(torchtune.holds))
    assert int(memory) * 10**9 <= WORKLOADS["torchtune-qwen2.5-1.5b-alpaca"].memory * 2**20
    assert torchtune.changes == {'"gpu": 2': f'"gpu": {WORKLOADS["torchtune-qwen2.5-1.5b-alpaca"].gpus}'}
    assert jax.parameters == {
        "num_cpu": WORKLOADS["jax-mnist"].cpu // 1000,
        "num_gpu": WORKLOADS["jax-mnist"].gpus,
        "num_nodes": 1,
    }
    assert 'split="train[:1000]"' in torchtune.holds


def test_notebooks_and_manifests_are_of_one_commit():
    _, _, job = JOBS["jax-mnist"]
    [checkout] = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert (checkout["repository"], checkout["ref"]) == ("kubeflow/trainer", kubeflow.TRAINER_COMMIT)
    assert given("jax-mnist", "kubeflow-blueprint")["trainer"] == checkout["path"]
    assert given("jax-mnist", "kubeflow-gpu-cluster") == {}, "its defaults are the pinned versions"


def test_a_notebook_that_failed_is_kept_too():
    _, _, job = JOBS["jax-mnist"]
    [upload] = [step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert upload["if"] == "${{ !cancelled() }}"
    assert upload["with"]["path"] == given("jax-mnist", "kubeflow-blueprint")["out"]
    assert job["strategy"]["fail-fast"] is False, "one blueprint says nothing of the other"


# -- being called ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({workload.workflow for workload in CI_WORKLOADS}))
def test_a_workflow_is_called_or_started_by_hand_and_takes_the_same_either_way(name):
    triggers = workflow(name)["on"]
    assert set(triggers) == {"workflow_call", "workflow_dispatch"}, "no pull request takes a GPU by itself"
    inputs = [(triggers[event] or {}).get("inputs", {}) for event in ("workflow_call", "workflow_dispatch")]
    assert inputs[0] == inputs[1]
    assert all("default" in told for told in inputs[0].values())


@pytest.mark.parametrize("name", sorted({workload.workflow for workload in CI_WORKLOADS}))
def test_a_called_workflow_has_a_group_of_its_own(name):
    """A caller's concurrency group of the same name would wait for itself."""
    concurrency = workflow(name)["concurrency"]
    assert concurrency["group"].startswith(f"{name.removesuffix('.yml')}-${{{{ github.ref }}}}")
    assert "github.workflow" not in concurrency["group"], "of a called workflow that is the caller's name"
    assert concurrency["cancel-in-progress"] is True


def test_calls_for_different_runners_do_not_cancel_each_other():
    group = workflow("test-gpu.yml")["concurrency"]["group"]
    assert {"runs-on", "gpus"} <= set(re.findall(r"inputs\.([\w-]+)", group))


@pytest.mark.parametrize("name", sorted({workload.workflow for workload in CI_WORKLOADS}))
def test_nothing_of_the_caller_is_run(name):
    for job in workflow(name)["jobs"].values():
        for step in job["steps"]:
            assert "run" not in step, "programs are files of actions, with tests"
            if step["uses"].startswith("actions/checkout@"):
                assert step["with"]["repository"] == "kubeflow/trainer"


def test_the_check_is_as_in_the_guide():
    text = (ROOT / ".github" / "actions" / "gpu-check" / "action.yml").read_text()
    program_text = (ROOT / ".github" / "actions" / "gpu-check" / "gpu_check.py").read_text()
    assert "run: nvidia-smi\n" in text
    assert "nvcc --version" in text
    for told in ("PyTorch version", "CUDA available", "CUDA version", "Device count", "capability", "GPU computation successful"):
        assert told in program_text
    assert program("gpu-check", "gpu_check").SIZE == 1000
