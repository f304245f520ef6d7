"""`gpu-ci inventory`: the page, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from gpu_ci.cli import app
from gpu_ci.offline.inventory.page import document
from tests.offline.staging import TOO_SMALL, write


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["inventory", *words])


def test_it_prints_the_page_of_a_stack() -> None:
    result = run("staging")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == document("staging", fleet_of(load("staging", ROOT)))


def test_it_reads_another_file() -> None:
    result = run("gpu-work", "--file", str(ROOT / "examples" / "Pulumi.gpu-work.yaml"))
    assert result.exit_code == 0
    assert result.stdout.startswith("# Inventory of stack `gpu-work`\n")
    assert "## Cluster `use1`" in result.stdout


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ("nowhere", "error: stack: there must be a file for the stack; "),
        (
            "no where",
            "error: stack: a stack name is 1 to 100 letters, digits, hyphens, underscores and periods; got 'no where'; ",
        ),
    ],
)
def test_a_stack_that_is_not_there_is_one_line_and_status_2(stack: str, line: str) -> None:
    result = run(stack)
    assert (result.exit_code, result.stdout) == (2, "")
    (told,) = result.stderr.splitlines()
    assert told.startswith(line)
    assert told.endswith("staging"), "it ends with the stacks that there are"


def test_wrong_settings_are_told_as_the_plan_tells_them(tmp_path: Path) -> None:
    path = write(tmp_path, ("pool: t4-release", "pool: t5"))
    result = run("staging", "--file", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    (told,) = result.stderr.splitlines()
    assert "usw2.runners.gpu-t4-release.pool: no pool of that name" in told


STORED = "storage: {size: 100Gi, storageClass: fast}"
MANY = f"""\
      workloads:
        big: {{kind: ollama, pool: t4-spot, gpus: 2, {STORED}}}
      jobs:
        huge: {{namespace: ml, image: example.com/train:1.0, pool: t4-release, gpus: 4}}
      runners:
"""


def test_what_has_no_place_is_told_line_by_line_with_status_1(tmp_path: Path) -> None:
    path = write(tmp_path, TOO_SMALL, ("      runners:\n", MANY))
    result = run("staging", "--file", str(path))
    assert (result.exit_code, result.stdout) == (1, ""), "a page of pods that cannot run would be wrong"
    runner_set, workload, job = result.stderr.splitlines()
    assert runner_set.startswith(f"error: {path}:")
    assert ": gpu-ci:clusters.usw2.runners.gpu-t4: cannot be placed: asks for 4 CPU" in runner_set
    assert ": gpu-ci:clusters.usw2.workloads.big: cannot be placed: asks for 2 GPUs" in workload
    assert ": gpu-ci:clusters.usw2.jobs.huge: cannot be placed: " in job
    assert "asks for 4 GPUs" in job
