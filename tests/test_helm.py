"""`.ci/helm.py` with a fake Go, which records its arguments. No network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.facts import versions
from tests.builders import ROOT

VERSION = versions.DOWNLOADS["helm"].version
GO = """#!/bin/sh
echo "$*" >> "$LOG"
[ "${FAIL-}" ] && exit 1
/bin/echo made > "$GOBIN/helm"
"""


class Machine:
    """A machine with a PATH and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.cache = folder / "cache"
        self.path = folder / "path"
        self.path.mkdir()

    def install(self, name: str, text: str = "") -> None:
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def run(self, **environment: str) -> tuple[str, str]:
        """What the script prints, and what it says on stderr. It never fails: the tests run without Helm too."""
        own = {"PATH": str(self.path), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(self.cache), "LOG": str(self.log)}
        command = [sys.executable, str(ROOT / ".ci" / "helm.py")]
        done = subprocess.run(command, env=own | environment, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    @property
    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_go_builds_the_pinned_helm_once(machine: Machine) -> None:
    machine.install("go", GO)
    folder = machine.cache / "gpu-ci" / f"helm-{VERSION}"
    first, told = machine.run()
    assert first == f"{folder}\n"
    assert (folder / "helm").read_text() == "made\n"
    assert told == f"Building Helm {VERSION} for the tests, once …\n"
    assert machine.run() == (first, ""), "the second run takes what the first one built"
    assert machine.builds == [f"install helm.sh/helm/v3/cmd/helm@v{VERSION}"]


def test_helm_on_path_is_used_as_it_is(machine: Machine) -> None:
    machine.install("go", GO)
    machine.install("helm")
    assert machine.run() == ("", "")
    assert machine.builds == []


def test_without_go_there_is_no_helm_and_no_failure(machine: Machine) -> None:
    assert machine.run() == ("", "")


def test_a_build_that_fails_leaves_nothing_and_says_that_tests_are_skipped(machine: Machine) -> None:
    machine.install("go", GO)
    printed, told = machine.run(FAIL="1")
    assert printed == ""
    assert "the tests that render charts are skipped" in told
    assert list((machine.cache / "gpu-ci").iterdir()) == [], "else the next run would take it for Helm"
    assert machine.run()[0], "the next run builds it"
