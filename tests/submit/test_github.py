"""The GitHub jobs of a smoke test: what gh is asked, how a job ends, and what is printed without a repository. gh is a script."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.loading.config import load, read_fleet
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.submit import smoke
from gpu_ci.submit.errors import InputError, SubmitError
from gpu_ci.submit.runs import Outcome, Result
from tests.builders import cluster, config, pool, runner, staging
from tests.submit.conftest import Told

GH = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> log
case "$1 $2" in
  "workflow run") echo . >> started;;
  "run list") [ -e started ] && echo "[{\\"databaseId\\": $(wc -l < started)}]" || echo "[]";;
  "run view") cat "view-$3" 2>/dev/null || cat view;;
esac
"""


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a program gh. Its file view is the answer for every run, view-N that for run N."""
    path = tmp_path / "gh"
    path.write_text(GH)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answer(path.parent, "view", "completed", "success")
    return tmp_path


def answer(gh: Path, name: str, status: str, conclusion: str = "") -> None:
    (gh / name).write_text(json.dumps({"status": status, "conclusion": conclusion, "url": "https://github.com/run"}))


def ran(gh: Path, part: str) -> list[str]:
    return [line for line in (gh / "log").read_text().splitlines() if part in line]


def run_command(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["smoke", *words, "--", "staging"])
    return done.exit_code, done.stdout, done.stderr


def test_one_job_is_by_the_name_and_one_by_the_labels_of_the_first_set_that_has_some() -> None:
    assert [(job.runner_set, job.way, json.loads(job.runs_on)) for job in smoke.github_jobs(staging(), None)] == [
        ("usw2/gpu-t4", "name", {"labels": "gpu-t4", "group": "gpu"}),
        ("usw2/gpu-t4", "labels", {"labels": ["self-hosted", "linux", "x64", "gpu", "cuda"], "group": "gpu"}),
    ]
    two = {"a": runner(pool="t4"), "b": runner(pool="t4", labels=["big"])}
    fleet = load(config(clusters={"one": cluster(pools={"t4": pool()}, runners=two), "two": cluster(runners={})}))
    assert [(job.runner_set, job.way) for job in smoke.github_jobs(fleet, "one")] == [("one/b", "name"), ("one/b", "labels")]
    assert smoke.github_jobs(fleet, "two") == []
    del two["b"]
    fleet = load(config(clusters={"one": cluster(pools={"t4": pool()}, runners=two)}))
    assert [(job.runner_set, job.way) for job in smoke.github_jobs(fleet, None)] == [("one/a", "name")]


def test_with_a_repository_both_jobs_run_and_no_cluster_is_asked(gh: Path) -> None:
    status, out, _ = run_command("--repository", "example/gpu-ci")
    assert status == 0
    assert "example/gpu-ci: 2 of 2 smoke tests passed" in out
    started = ran(gh, "workflow run")
    assert started == [
        'workflow run test-gpu.yml --repo example/gpu-ci -f runs-on={"labels": "gpu-t4", "group": "gpu"}',
        'workflow run test-gpu.yml --repo example/gpu-ci -f runs-on={"labels": ["self-hosted", "linux", "x64", "gpu", "cuda"], '
        '"group": "gpu"}',
    ]
    assert [line.split()[2] for line in ran(gh, "run view")] == ["1", "2"], "each job is the run that is newer than any before"


def test_a_job_by_name_that_fails_ends_the_test(gh: Path) -> None:
    answer(gh, "view", "completed", "failure")
    status, out, _ = run_command("--repository", "example/gpu-ci")
    assert status == 1
    assert "1 not run" in out
    assert len(ran(gh, "workflow run")) == 1


def run_jobs(told: Told, start_within: float = 0) -> list[Result]:
    return [smoke.run_job(job, "acme/gpu-ci", told, start_within, poll=0) for job in smoke.github_jobs(staging(), None)]


def test_a_job_by_labels_that_waits_is_canceled_with_the_page_to_read(gh: Path, told: Told) -> None:
    answer(gh, "view-2", "queued")
    by_name, by_labels = run_jobs(told)
    assert by_name.ok
    assert (by_labels.outcome, by_labels.status) == (Outcome.LATE, 1)
    assert by_labels.reason == (
        "no runner took the job, so it was canceled: https://github.com/run; by name it ran: see "
        "docs/troubleshooting.md#by-name-it-runs-by-labels-it-waits"
    )
    assert ran(gh, "run cancel") == ["run cancel 2 --repo acme/gpu-ci"]


def test_a_job_that_fails_names_its_run(gh: Path, told: Told) -> None:
    answer(gh, "view", "completed", "failure")
    assert [(each.outcome, each.reason) for each in run_jobs(told)] == [(Outcome.FAILED, "failure: https://github.com/run")] * 2


def test_an_interrupted_job_is_canceled(gh: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(gh, "view", "in_progress")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(told)
    assert ran(gh, "run cancel") == ["run cancel 1 --repo acme/gpu-ci"]


def test_a_failure_of_gh_is_one_line(gh: Path, told: Told) -> None:
    (gh / "gh").write_text("#!/bin/sh\necho one >&2; echo HTTP 404: Not Found >&2; exit 1\n")
    with pytest.raises(SubmitError, match=r"^gh run list ended with status 1: HTTP 404: Not Found$"):
        run_jobs(told)
    (gh / "gh").unlink()
    with pytest.raises(InputError, match=r"^--repository: gh cannot be started: FileNotFoundError; install it"):
        run_jobs(told)


@pytest.mark.parametrize("repository", ["", "acme", "acme/a/b", "-R/x", "acme/a b"])
def test_a_text_that_does_not_name_a_repository_is_refused(repository: str) -> None:
    status, out, err = run_command("--repository", repository)
    assert (status, out) == (2, "")
    assert err.startswith("error: --repository: must be OWNER/REPOSITORY; got ")


def test_without_a_repository_the_commands_are_printed() -> None:
    status, _, err = run_command()
    assert status == 0
    lines = [line for line in err.splitlines() if "gh workflow run" in line]
    assert [line.partition(": ")[0] for line in lines] == ["usw2/gpu-t4, GitHub job by name", "usw2/gpu-t4, GitHub job by labels"]
    assert """-f 'runs-on={"labels": "gpu-t4", "group": "gpu"}'""" in lines[0]


def test_the_job_of_a_repository_runs_on_a_set_of_its_organization() -> None:
    fleet = read_fleet("two-organizations", ROOT / "examples" / "Pulumi.two-organizations.yaml")
    assert [job.runner_set for job in smoke.github_jobs(fleet, None, "example-research/sim")] == ["usw2/gpu-t4-research"]
    assert [job.runner_set for job in smoke.github_jobs(fleet, None, "example/sim")] == ["usw2/gpu-t4"]
    assert smoke.github_jobs(fleet, None, "acme/sim") == []
