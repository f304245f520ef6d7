"""`docs/ci-workloads.md` says what workflows, actions and declarations say."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from fleet.facts import versions
from fleet.loading.config import load
from tests.builders import ROOT, read_stack
from tests.workflows import kubeflow
from tests.workflows.ci_workloads import CI_WORKLOADS, proofs

PAGE = (ROOT / "docs" / "ci-workloads.md").read_text()
ACTIONS = ROOT / ".github" / "actions"
SETUP = (ACTIONS / "kubeflow-gpu-cluster" / "setup.sh").read_text()


def part(heading: str) -> str:
    """The text below a heading of the second level."""
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str, head: str) -> list[list[str]]:
    """Cells of the table whose header begins so."""
    table = text.split(f"| {head} |", 1)[1].split("|---", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in table.splitlines()[1:]]


def read(path: str) -> Any:
    return YAML(typ="safe", pure=True).load(ROOT / path)


def test_every_workload_has_its_row():
    found = {cells[0].strip("`") for cells in rows(PAGE, "job")}
    assert found == {workload.name for workload in CI_WORKLOADS}


def test_what_runs_where_is_as_on_the_page():
    fleet = load(read_stack(ROOT / "Pulumi.prod.yaml"))
    found = [re.split(r"\s{2,}", line) for line in re.findall(r"^[\w.-]+ {2,}\w+/[\w-]+$", PAGE, re.MULTILINE)]
    assert found == [[each.workload.name, each.runner_set] for each in proofs(fleet)]


def test_inputs_and_defaults_of_the_called_workflow_are_as_on_the_page():
    inputs = read(".github/workflows/test-gpu.yml")["on"]["workflow_call"]["inputs"]
    table = {cells[0].strip("`"): cells[1].strip("`") for cells in rows(part("Call one"), "input of `test-gpu.yml`")}
    assert table == {name: str(told["default"]).lower() for name, told in inputs.items()}


def test_every_action_has_its_row_with_inputs_and_outputs():
    table = {cells[0].strip("`"): cells[2:] for cells in rows(part("The actions"), "action")}
    assert set(table) == {path.parent.name for path in ACTIONS.glob("*/action.yml")}
    for name, (inputs, outputs) in table.items():
        held = read(f".github/actions/{name}/action.yml")
        assert set(re.findall(r"`([\w-]+)`", outputs)) == set(held.get("outputs", {})), name
        told = set(re.findall(r"`([\w-]+)`", inputs))
        assert told == set(held.get("inputs", {})) or (name == "kubeflow-gpu-cluster" and told <= set(held["inputs"])), name


def test_every_step_of_the_cluster_has_its_row_in_order():
    begun = re.findall(r"^begin (\w+)$", SETUP, re.MULTILINE)
    assert [cells[0].strip("`") for cells in rows(part("kubeflow-gpu-cluster"), "step")] == begun


def test_every_symptom_of_the_page_is_one_that_the_script_knows():
    signs = [cells[0].strip("`") for cells in rows(part("kubeflow-gpu-cluster"), "symptom")]
    assert "nvidia-container-runtime not found" in signs
    known = SETUP.replace("*", " ").replace("'", "")
    for sign in signs:
        assert sign in known, sign


def test_the_page_names_the_versions_that_are_pinned():
    cluster = part("kubeflow-gpu-cluster")
    assert f"Kubeflow Trainer {kubeflow.TRAINER} |" in cluster
    assert f"branch {kubeflow.DRIVER_BRANCH}" in cluster
    assert f"| {versions.VM_TOOLKIT}; the line has the command |" in cluster
    unknown = part("Not tried yet")
    assert f"toolkit {versions.VM_TOOLKIT.partition('-')[0]} on the machine" in unknown
    assert f"with {kubeflow.NODE_TOOLKIT.partition('-')[0]} in the kind nodes" in unknown
    assert f"GPU operator {versions.CHARTS['gpu-operator'].version} under nvkind" in unknown
    for lock, cuda in (("requirements", "13.0"), ("requirements-cuda12", "12.8")):
        [torch] = re.findall(r"^torch==(.+)$", (ACTIONS / "setup-torch" / f"{lock}.in").read_text(), re.MULTILINE)
        assert f"PyTorch {torch} for CUDA {cuda}" in part("The actions")
