"""The hooks of images/runner-gpu, run as the runner does: `bash -e` before the first step of a job and after the last."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders import ROOT

HOOKS = ROOT / "images" / "runner-gpu" / "hooks"
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


class Runner:
    """The home of a runner below a folder, with fake tools that log how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.workspace = folder / "_work" / "repository" / "repository"
        self.summary = folder / "summary"
        self.bin.mkdir()
        self.workspace.mkdir(parents=True)
        self.summary.touch()

    def tool(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.folder}/calls"\n{script}\n')
        (self.bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, hook: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a hook in which /home/runner is the folder."""
        script = self.folder / hook
        script.write_text((HOOKS / hook).read_text().replace("/home/runner", str(self.folder)))
        path = f"{self.bin}:{os.environ['PATH']}"
        given = {"PATH": path, "GITHUB_WORKSPACE": str(self.workspace), "GITHUB_STEP_SUMMARY": str(self.summary)}
        # No server of sccache listens on port 1.
        command = ["bash", "-e", str(script)]
        environment = given | {"SCCACHE_SERVER_PORT": "1"} | environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def runner(tmp_path):
    found = Runner(tmp_path)
    for name in ("ccache", "sccache", "nvidia-smi"):
        found.tool(name, "exit 0")
    return found


def test_a_job_starts_with_an_empty_workspace_and_fresh_statistics(runner):
    (runner.workspace / ".git").mkdir()
    (runner.workspace / ".git" / "config").touch()
    beside = runner.folder / "_work" / "_tool"
    beside.mkdir()
    done = runner.run("job-started.sh")
    assert done.returncode == 0, done.stderr
    assert list(runner.workspace.iterdir()) == []
    assert beside.is_dir(), "only the workspace is emptied"
    assert "ccache --zero-stats" in runner.calls
    assert not [call for call in runner.calls if call.startswith("sccache")], "its server would start without the job's settings"


def test_a_workspace_that_does_not_exist_yet_is_no_error(runner):
    runner.workspace.rmdir()
    assert runner.run("job-started.sh").returncode == 0


@pytest.mark.parametrize("workspace", ["/", "/etc", "{home}", "{home}/_work", "{home}/_work/", "{home}/_work/../bin"])
def test_nothing_outside_of_the_work_folder_is_deleted(runner, workspace):
    done = runner.run("job-started.sh", GITHUB_WORKSPACE=workspace.format(home=runner.folder))
    assert done.returncode == 1
    assert done.stdout.startswith("::error title=workspace::")
    assert (runner.bin / "ccache").exists()
    assert runner.workspace.is_dir()


def test_a_job_starts_without_a_cache_folder_and_with_a_broken_gpu(runner):
    runner.tool("ccache", "exit 1")
    runner.tool("nvidia-smi", "exit 9")
    done = runner.run("job-started.sh")
    assert done.returncode == 0
    assert "::warning title=ccache::" in done.stdout
    assert "::warning title=GPU::" in done.stdout


def test_statistics_go_to_the_log_and_to_the_summary_of_the_job(runner):
    runner.tool(
        "ccache", 'case $1 in --print-stats) printf "direct_cache_hit\\t12\\ncache_miss\\t3\\n";; *) echo "Hits: 12 / 15";; esac'
    )
    (runner.workspace / "artifact").write_bytes(b"x" * 4096)
    done = runner.run("job-completed.sh")
    assert done.returncode == 0, done.stderr
    assert "Hits: 12 / 15" in done.stdout
    assert "workspace: " in done.stdout
    assert "Hits: 12 / 15" in runner.summary.read_text()
    assert not [call for call in runner.calls if call.startswith("sccache")], "no server runs"


def test_a_job_that_compiled_nothing_has_no_statistics(runner):
    runner.tool("ccache", 'case $1 in --print-stats) printf "direct_cache_hit\\t0\\ncache_miss\\t0\\n";; *) echo Hits;; esac')
    done = runner.run("job-completed.sh")
    assert done.returncode == 0
    assert "Hits" not in done.stdout


@pytest.mark.parametrize("missing", ["nothing", "workspace", "summary", "tools"])
def test_the_end_of_a_job_never_fails_it(runner, missing):
    for name in ("ccache", "sccache"):
        runner.tool(name, "exit 7")
    changes = {"workspace": {"GITHUB_WORKSPACE": "/nowhere"}, "summary": {"GITHUB_STEP_SUMMARY": "/nowhere/summary"}}
    if missing == "tools":
        shutil.rmtree(runner.bin)
    assert runner.run("job-completed.sh", **changes.get(missing, {})).returncode == 0
