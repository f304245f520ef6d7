"""Blocks of GitHub workflows: their keys, their actions with inputs and outputs, and a runner set for each `runs-on`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.prove.runs_on import RunsOn
from tests.docs.inside import PAGES_NAME, stack
from tests.docs.markdown import ROOT, Fence, fences
from tests.docs.snippets import HEAD, snippets

ZIZMOR = Path(sys.executable).parent / "zizmor"
HOSTED = "ubuntu-24.04"
"""The label of GitHub's own runners that pages use."""
OURS = re.compile(r"OWNER/REPOSITORY(?:/(\.github/[\w./-]+))?@COMMIT")
"""An action or workflow of this repository; without a path the action at its root."""


def read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def workflow(text: str) -> dict[str, Any]:
    """A block as a whole workflow: what it leaves out is added."""
    body = read(text)
    if "jobs" not in body:
        body = {"jobs": {"job": {"runs-on": HOSTED, **body}}}
    for job in body["jobs"].values():
        if "uses" not in job:
            job.setdefault("steps", [{"run": "true"}])
    return {"on": {"push": None}, **body}


def action_faults(where: dict[str, Any], outputs: dict[str, set[str]]) -> Iterator[str]:
    """What a step or a job that uses something of our own gives and that does not take. GitHub's own may take anything."""
    if re.fullmatch(r"actions/[\w-]+@COMMIT", where["uses"]):
        return
    used = OURS.fullmatch(where["uses"])
    if used is None:
        yield f"{where['uses']}: write OWNER/REPOSITORY/path@COMMIT"
        return
    path = used[1] or "."
    file = ROOT / path if path.endswith(".yml") else ROOT / path / "action.yml"
    if not file.is_file():
        yield f"no file {path}"
        return
    declared = read(file.read_text())
    declared = declared["on"]["workflow_call"] if "on" in declared else declared
    inputs = declared.get("inputs") or {}
    given = where.get("with") or {}
    yield from (f"{path} has no input {name}" for name in given.keys() - inputs.keys())
    needed = {name for name, held in inputs.items() if held.get("required") and "default" not in held}
    yield from (f"{path} needs the input {name}" for name in needed - given.keys())
    outputs[where.get("id", "")] = set(declared.get("outputs") or {})


def label_faults(value: Any, page: Path) -> Iterator[str]:
    """A `runs-on` that reaches no runner set of a stack, nor of the blocks of its page."""
    if isinstance(value, str) and "${{" in value:
        # The labels that an expression chooses from come last: condition && 'label' || 'label'.
        for label in re.findall(r"(?:&&|\|\|) '([\w-]+)'(?= \|\|| }})", value):
            yield from label_faults(label, page)
        return
    wanted = RunsOn.read(json.loads(value) if isinstance(value, str) and value.startswith("{") else value)
    if wanted == RunsOn((HOSTED,)):
        return
    fleets = [stack(name) for name in PAGES_NAME]
    sets = [
        ((name, *runner.labels), fleet.group_of(of, runner))
        for fleet in fleets
        for of, cluster in fleet.clusters.items()
        for name, runner in cluster.runners.items()
    ]
    sets += [
        ((name,), "") for each in snippets() if each.place.startswith(str(page.relative_to(ROOT))) for _, name in each.runners
    ]
    if not any(wanted.matches(labels, group) for labels, group in sets):
        yield f"no runner set has {wanted}"


def faults(text: str, page: Path) -> Iterator[str]:
    """Everything that is wrong in a block."""
    for job in workflow(text)["jobs"].values():
        outputs: dict[str, set[str]] = {}
        for where in (job, *job.get("steps", ())):
            if "uses" in where:
                yield from action_faults(where, outputs)
        for step, output in re.findall(r"steps\.(\w+)\.outputs\.([\w-]+)", json.dumps(job)):
            if output not in outputs.get(step, ()):
                yield f"step {step} has no output {output}"
        for value in (job.get("runs-on"), (job.get("with") or {}).get("runs-on")):
            if value is not None:
                yield from label_faults(value, page)


BLOCKS = [
    fence
    for fence in fences()
    if fence.language == "yaml" and not HEAD.match(fence.text) and {"jobs", "steps"} & (read(fence.text) or {}).keys()
]


def zizmor(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """zizmor on a block: 0 without findings, 11 to 14 with some, anything else if it is not a workflow."""
    path = folder / ".github" / "workflows" / "block.yml"
    path.parent.mkdir(parents=True)
    whole = workflow(text.replace("OWNER/REPOSITORY", "example/gpu-ci").replace("@COMMIT", f"@{'0123456789' * 4}"))
    with path.open("w") as file:
        YAML(typ="safe", pure=True).dump(whole, file)
    command = [str(ZIZMOR), "--offline", "--quiet", "--strict-collection", "--no-progress", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_pages_have_workflows() -> None:
    assert len(BLOCKS) >= 7


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_workflow_fits_our_actions_and_runner_sets(block: Fence) -> None:
    assert list(faults(block.text, block.page)) == []


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_workflow_has_githubs_keys(block: Fence, tmp_path: Path) -> None:
    done = zizmor(block.text, tmp_path)
    assert done.returncode in (0, 11, 12, 13, 14), done.stderr


def test_a_key_that_github_lacks_is_found(tmp_path: Path) -> None:
    assert zizmor("jobs: {a: {runs-on: gpu-t4, steps: [{uses: 1}]}}", tmp_path).returncode not in (0, 11, 12, 13, 14)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("jobs: {a: {runs-on: gpu-t5}}", "no runner set has label gpu-t5"),
        ("jobs: {a: {runs-on: {labels: gpu-t4, group: absent}}}", "no runner set has label gpu-t4 in group absent"),
        ("jobs: {a: {runs-on: \"${{ github.ref && 'gpu-t4' || 'gpu-t5' }}\"}}", "no runner set has label gpu-t5"),
        ("steps: [{uses: OWNER/REPOSITORY/.github/actions/cache@COMMIT}]", "no file .github/actions/cache"),
        (
            "steps: [{uses: OWNER/REPOSITORY/.github/actions/ccache@COMMIT, with: {size: 1}}]",
            ".github/actions/ccache has no input size",
        ),
        (
            "steps: [{id: c, uses: OWNER/REPOSITORY/.github/actions/ccache@COMMIT}, {run: '${{ steps.c.outputs.hits }}'}]",
            "step c has no output hits",
        ),
    ],
)
def test_what_does_not_fit_is_found(text: str, fault: str) -> None:
    assert list(faults(text, ROOT / "README.md")) == [fault]
