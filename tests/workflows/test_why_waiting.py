"""The action why-waiting: what it asks `gpu-ci why`, and what becomes of the answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpu_ci.doctor.sources.actions import token_for
from tests.builders import ROOT

SCRIPT = ROOT / ".github" / "actions" / "why-waiting" / "why_waiting.sh"
RUN = "https://github.com/acme/app/actions/runs/7"
GPU_CI = """\
#!/bin/bash
printf '<%s>' "$@" >"$0.words"
printf 'the answer\\n'
printf 'error: TARGET: wrong\\n' >&2
exit {status}
"""


def call(folder: Path, status: int = 0, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """The step with these inputs, what it gave to gpu-ci, and the summary."""
    program = folder / ".venv" / "bin" / "gpu-ci"
    program.parent.mkdir(parents=True)
    program.write_text(GPU_CI.format(status=status))
    program.chmod(0o755)
    (folder / "Makefile").write_text(".venv/run:\n\t@touch installed\n")
    summary = folder / "summary"
    summary.write_text("# Before\n")
    values = {"TARGET": RUN, "STACK_FILE": "", "REPORT": "false", "DAYS": "7", "MINUTES": "0"} | inputs
    environment = {"PATH": "/usr/bin:/bin", "GPU_CI_ROOT": str(folder), "GITHUB_STEP_SUMMARY": str(summary)}
    environment |= {"GITHUB_SERVER_URL": "https://git.acme.io", "GITHUB_REPOSITORY": "acme/app", "GITHUB_RUN_ID": "7"}
    environment |= {f"WHY_{name}": value for name, value in values.items()}
    done = subprocess.run([SCRIPT], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    words = folder / ".venv" / "bin" / "gpu-ci.words"
    return done, words.read_text() if words.exists() else "", summary.read_text()


def test_the_answer_is_added_to_the_summary(tmp_path: Path) -> None:
    done, words, summary = call(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert words == f"<why><--markdown><--days><7><--><{RUN}>"
    assert summary == "# Before\nthe answer\n"
    assert (tmp_path / "installed").exists(), "the packages of the lock come first"


def test_a_stack_file_and_a_report_are_options(tmp_path: Path) -> None:
    _, words, _ = call(tmp_path, STACK_FILE="ci/Pulumi.prod.yaml", REPORT="true", DAYS="30", TARGET="acme/app")
    options = f"<--report><--stack><Pulumi.prod.yaml><--file><{tmp_path}/ci/Pulumi.prod.yaml>"
    assert words == f"<why><--markdown><--days><30>{options}<--><acme/app>"


def test_a_stuck_job_is_a_warning_and_a_wrong_input_fails(tmp_path: Path) -> None:
    stuck, _, summary = call(tmp_path / "a", status=1)
    assert stuck.returncode == 0
    assert stuck.stdout == "::warning title=why-waiting::a job is stuck; the summary says why\n"
    assert summary.endswith("the answer\n")
    wrong, _, _ = call(tmp_path / "b", status=2)
    assert (wrong.returncode, wrong.stderr) == (2, "error: TARGET: wrong\n")


@pytest.mark.parametrize("minutes", ["", "-1", "x", "1000", "1; id"])
def test_minutes_that_are_no_number_ask_nothing(tmp_path: Path, minutes: str) -> None:
    done, words, _ = call(tmp_path, MINUTES=minutes)
    assert (done.returncode, words) == (2, "")


def test_hostile_inputs_are_words_and_no_shell_text(tmp_path: Path) -> None:
    _, words, _ = call(tmp_path, TARGET="--help $(touch hacked)", DAYS="7;touch hacked")
    assert words == "<why><--markdown><--days><7;touch hacked><--><--help $(touch hacked)>"
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("report", "target"),
    [("false", "https://git.acme.io/acme/app/actions/runs/7"), ("true", "https://git.acme.io/acme/app")],
)
def test_without_a_target_it_asks_about_its_own_run_or_repository(tmp_path: Path, report: str, target: str) -> None:
    _, words, _ = call(tmp_path, TARGET="", REPORT=report)
    assert words.endswith(f"<--><{target}>")
    assert ("<--report>" in words) is (report == "true")


@pytest.mark.parametrize("report", ["", "True", "yes", "1", "true "])
def test_a_report_that_is_neither_true_nor_false_is_one_line_and_asks_nothing(tmp_path: Path, report: str) -> None:
    done, words, _ = call(tmp_path, REPORT=report)
    assert (done.returncode, words) == (2, "")
    assert done.stdout == '::error title=why-waiting::report must be "true" or "false"\n'


@pytest.mark.parametrize("host", ["github.com", "acme.ghe.com", "git.acme.io"])
def test_the_token_of_the_input_comes_before_those_of_the_job(host: str) -> None:
    action = YAML(typ="safe", pure=True).load(SCRIPT.with_name("action.yml"))
    [step] = action["runs"]["steps"]
    names = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    job = dict.fromkeys(names, "of the job") | {"GITHUB_SERVER_URL": f"https://{host}", "GH_HOST": host}
    assert token_for(host, job | step["env"]) == "${{ inputs.token }}"


def test_the_workflow_reports_the_repository_of_its_own_server() -> None:
    workflow = YAML(typ="safe", pure=True).load(ROOT / ".github" / "workflows" / "why.yml")
    target = workflow["jobs"]["why"]["steps"][-1]["with"]["target"]
    assert target == "${{ inputs.run-url || format('{0}/{1}', github.server_url, github.repository) }}"
