"""The ccache action: figures cleared and size set before a build, figures shown after it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders import ROOT

SCRIPT = ROOT / ".github" / "actions" / "ccache" / "ccache.sh"
STUB = """#!/bin/bash
printf '%s\\n' "$*" >>"$LOG"
case "$1" in --get-config=cache_dir) printf '/home/runner/.cache/ccache\\n' ;; esac
exit "${STATUS-0}"
"""


@pytest.fixture
def run(tmp_path: Path):
    """Runs the script; gives its status, what it said, ccache's calls and the outputs."""

    def call(*, installed: bool = True, **given: str) -> tuple[int, str, list[str], str]:
        stub = tmp_path / "ccache"
        if installed:
            stub.write_text(STUB)
            stub.chmod(0o755)
        log, output = tmp_path / "log", tmp_path / "output"
        for path in (log, output):
            path.touch()
        done = subprocess.run(
            ["/bin/bash", str(SCRIPT)],
            env={"PATH": str(tmp_path), "LOG": str(log), "GITHUB_OUTPUT": str(output)}
            | {"STATS": "false", "MAX_SIZE": "10G"}
            | given,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.returncode, done.stdout, log.read_text().splitlines(), output.read_text()

    return call


def test_before_a_build_figures_are_cleared_and_the_size_is_set_as_in_the_guide(run):
    status, _, calls, output = run()
    assert status == 0
    assert calls == ["-z", "--max-size=10G", "--get-config=cache_dir"]
    assert output == "cc=ccache gcc\ncxx=ccache g++\nfolder=/home/runner/.cache/ccache\n"


def test_after_it_figures_are_shown_and_nothing_else(run):
    assert run(STATS="true")[2:] == (["-s"], "")


def test_a_runner_without_ccache_is_told(run):
    status, said, _, output = run(installed=False)
    assert (status, output) == (1, "")
    assert said == "::error title=ccache::ccache not found; use a runner image that has it, or install it in a step before\n"


@pytest.mark.parametrize("size", ["10", "ten", "10G; rm -rf /", "-1G", "10 G"])
def test_what_is_no_size_is_refused(run, size):
    status, said, calls, output = run(MAX_SIZE=size)
    assert (status, calls, output) == (1, [], "")
    assert said == "::error title=ccache::max-size is a number with k, M, G or T, such as 10G\n"


@pytest.mark.parametrize("size", ["10G", "500M", "1.5T", "2Gi"])
def test_sizes_are_as_ccache_takes_them(run, size):
    assert run(MAX_SIZE=size)[2][1] == f"--max-size={size}"


def test_a_ccache_that_fails_fails_the_step_without_outputs(run):
    status, _, calls, output = run(STATUS="3")
    assert (status, calls, output) == (3, ["-z"], "")
