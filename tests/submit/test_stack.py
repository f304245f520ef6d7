"""The fleet of a stack file: submit reads it as a plan and the Pulumi CLI do."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.loading.config import read_fleet
from fleet.loading.home import ROOT
from gpu_ci.cli import app

STAGING = (ROOT / "Pulumi.staging.yaml").read_text()
PROJECT = "name: gpu-ci\nruntime: python\n"


def written(folder: Path, stack: str, project: str = PROJECT) -> Path:
    (folder / "Pulumi.yaml").write_text(project)
    (folder / "Pulumi.staging.yaml").write_text(stack)
    return folder


def test_keys_without_a_namespace_are_the_projects(tmp_path: Path) -> None:
    unqualified = STAGING.replace("\n  gpu-ci:", "\n  ")
    assert "gpu-ci:clusters" in STAGING
    assert "gpu-ci:clusters" not in unqualified
    assert read_fleet("staging", root=written(tmp_path, unqualified)) == read_fleet("staging")


def test_the_defaults_of_the_project_file_apply(tmp_path: Path) -> None:
    start, end = STAGING.index("  gpu-ci:github:"), STAGING.index("  # Made by bootstrap")
    github = "".join(f"      {line}\n" for line in STAGING[start:end].splitlines()[1:])
    project = f"{PROJECT}config:\n  github:\n    type: object\n    default:\n{github}"
    without = STAGING[:start] + STAGING[end:]
    assert read_fleet("staging", root=written(tmp_path, without, project)) == read_fleet("staging")
    with pytest.raises(InputError, match=r"Pulumi.staging.yaml:1: gpu-ci:github: required key is missing"):
        read_fleet("staging", root=written(tmp_path, without))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("provider: eks", "provider: aks", "gpu-ci:clusters.usw2.provider: "),
        ("provider: eks", "provider: eks: b", "not valid YAML: "),
        ("      region: ", "      zone: a\n      region: ", "gpu-ci:clusters.usw2.zone: unknown key"),
    ],
)
def test_an_error_has_the_line_of_its_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = STAGING.replace(old, new, 1)
    line = STAGING[: STAGING.index(old)].count("\n") + 1
    with pytest.raises(InputError) as caught:
        read_fleet("staging", root=written(tmp_path, text))
    (message,) = str(caught.value).splitlines()
    assert f"Pulumi.staging.yaml:{line}: {words}" in message


def test_a_wrong_stack_file_is_status_2_and_each_problem_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("config:\n  surprise: 1\n  github: {}\n  clusters: {}\n  other: 1\n")
    done = CliRunner().invoke(app, ["smoke", "staging", "--file", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert [line.partition("; ")[0] for line in done.stderr.splitlines()] == [
        f"error: {path}:1: pulumi:disable-default-providers: no package may have a default provider, or a resource lands in the "
        "wrong account or region",
        f"error: {path}:2: gpu-ci:surprise: unknown key",
        f"error: {path}:5: gpu-ci:other: unknown key",
    ]
