"""Tools on PATH and the Pulumi CLI, as programs that print what the real ones print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.facts.tables import rows
from fleet.loading.project import Project
from gpu_ci.doctor import backend, tools
from tests.builders import ROOT
from tests.doctor.fleets import fixes, lines

PRINTED = {
    "git": "git version 2.43.0",
    "make": "GNU Make 4.3",
    "pulumi": "v3.252.0",
    "aws": "aws-cli/2.15.0 Python/3.11.6 Linux/6.1",
    "oci": "3.63.1",
    "talosctl": "Client v1.12.3",
    "kubectl": "Client Version: v1.35.8\nKustomize Version: v5.7.1",
    "helm": "v3.18.4+gd80839c",
    "gh": "gh version 2.60.1 (2026-10-25)",
    "jq": "jq-1.7.1",
}
RANGE = ">=3.252.0 <4.0.0"
MINORS = ("1.36",)
Put = Callable[..., None]


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Writes a program to the only folder on PATH. It prints a text and ends with a status."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(name: str, printed: str = "", status: int = 0, error: str = "") -> None:
        path = tmp_path / name
        body = f"{printed}\nEND\nprintf '%s\\n' '{error}' >&2"
        path.write_text(f"#!/bin/sh\nprintf '%s ' \"$@\" >> {tmp_path}/asked\n/bin/cat <<'END'\n{body}\nexit {status}\n")
        path.chmod(0o755)

    return write


def test_every_tool_of_a_fleet_is_ok(put: Put) -> None:
    for name, printed in PRINTED.items():
        put(name, printed)
    found = list(tools.findings({"eks", "oke", "talos"}, RANGE, MINORS))
    assert {each.state for each in found} == {"ok"}
    assert lines(found)[1:4] == ["ok: git 2.43.0", "ok: make 4.3", "ok: pulumi 3.252.0"]


def test_a_stack_needs_the_tools_of_its_own_providers_only(put: Put) -> None:
    put("git", PRINTED["git"])
    said = " ".join(lines(tools.findings({"talos"}, RANGE, MINORS)))
    assert "talosctl" in said
    assert not any(f"{name} is not on PATH" in said for name in ("pulumi", "aws", "oci"))


def test_a_missing_tool_is_wrong_with_its_page_and_an_optional_one_is_skipped(put: Put) -> None:
    put("git", PRINTED["git"])
    found = list(tools.findings({"eks"}, RANGE, MINORS))
    states = {each.said.split()[0]: each.state for each in found}
    assert states | {"python": "ok"} == {
        "python": "ok",
        "git": "ok",
        "make": "wrong",
        "pulumi": "wrong",
        "aws": "wrong",
        "kubectl": "skipped",
        "helm": "skipped",
        "gh": "skipped",
        "jq": "skipped",
    }
    assert all(fix.startswith("install it: https://") for fix in fixes(found))


@pytest.mark.parametrize(
    ("name", "printed"),
    [("pulumi", "v3.251.9"), ("pulumi", "v4.0.0"), ("aws", "aws-cli/1.45.11"), ("kubectl", "Client Version: v1.32.4")],
)
def test_a_version_outside_of_the_range_is_wrong(put: Put, name: str, printed: str) -> None:
    put(name, printed)
    assert any(
        each.startswith(f"wrong: {name} ") and " is not >=" in each for each in lines(tools.findings({"eks"}, RANGE, MINORS))
    )


def test_a_tool_that_prints_no_version_is_wrong(put: Put) -> None:
    put("git", "no such option", 2)
    assert "wrong: git --version prints no version" in lines(tools.findings({"eks"}, RANGE, MINORS))


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [("3.252.0", RANGE, True), ("3.1000", RANGE, True), ("3.99.9", RANGE, False), ("4.0", RANGE, False), ("1.0", "", True)],
)
def test_a_range_compares_numbers(version: str, wanted: str, fits: bool) -> None:
    assert tools.within(version, wanted) is fits


def test_the_range_of_the_pulumi_cli_is_that_of_the_project_file() -> None:
    needed = Project.read(ROOT / "Pulumi.yaml").needed
    assert f'requiredPulumiVersion: "{needed}"' in (ROOT / "Pulumi.yaml").read_text()
    assert tools.within("3.252.0", needed)
    assert not tools.within("3.251.0", needed)


def test_every_row_has_a_use_a_page_a_source_and_a_date() -> None:
    for row in rows("tools.csv"):
        assert all(row[column] for column in ("tool", "arguments", "providers", "use", "source", "date"))
        assert row["install"].startswith("https://")
        assert row["required"] in ("true", "false")
        assert None not in row, f"{row['tool']}: a text with a comma needs quotes"


def test_a_stack_of_the_backend_is_ok(put: Put, tmp_path: Path) -> None:
    put("pulumi", json.dumps([{"name": "dev"}, {"name": "acme/staging"}]))
    assert lines(backend.findings("staging", tmp_path)) == ["ok: the backend has the stack staging"]
    assert (tmp_path / "asked").read_text().split() == ["stack", "ls", "--json", "--non-interactive"]


def test_a_stack_that_is_not_there_is_wrong(put: Put, tmp_path: Path) -> None:
    put("pulumi", "[]")
    found = list(backend.findings("staging", tmp_path))
    assert lines(found) == ["wrong: the backend has no stack staging"]
    assert fixes(found) == ["pulumi stack init staging"]


def test_without_a_login_the_fix_is_to_log_in(put: Put, tmp_path: Path) -> None:
    put("pulumi", status=255, error="error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions")
    found = list(backend.findings("staging", tmp_path))
    assert lines(found)[0].startswith("wrong: no stacks can be listed: error: PULUMI_ACCESS_TOKEN must be set")
    assert fixes(found) == ["pulumi login"]


def test_without_the_cli_the_backend_is_skipped(put: Put, tmp_path: Path) -> None:
    assert lines(backend.findings("staging", tmp_path)) == ["skipped: the Pulumi CLI is not on PATH"]


@pytest.mark.parametrize(
    ("minors", "versions"),
    [
        (["1.36"], ">=1.35 <1.38"),
        (["1.34.2", "1.36"], ">=1.35 <1.36"),
        (["1.33", "1.36"], ""),
        ([""], ""),
    ],
)
def test_kubectl_fits_every_cluster_or_is_not_judged(minors: list[str], versions: str) -> None:
    assert {row["tool"]: found for row, found in tools.needed({"eks"}, RANGE, minors)}["kubectl"] == versions
