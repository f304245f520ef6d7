"""The workflows keep what they promise: no secret near a fork's code, pinned actions, least rights, commands that exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from gpu_ci.cli import app
from gpu_ci.offline.freshen.tasks import TASKS
from tests.builders import ROOT
from tests.docs.kubectl import commands
from tests.workflows.load import program

ACTIONS = ROOT / ".github" / "actions"
RERUN_ONCE: Any = program("rerun-once", "rerun_once")
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.y*ml"))
ON_GPUS = ("gpu-ddp.yml", "kubeflow-blueprints.yml", "test-gpu.yml")
"""Workflows that run on the fleet's own runners: docs/ci-workloads.md. They are called or started by hand."""
BY_HAND = "runner-image.yml"
"""Builds the runner image. A person starts it."""
RERUN, WAKE = "rerun.yml", "wake.yml"
"""Rerun interrupted runs, and wake the runner set of a rerun: docs/rerun.md."""
SCHEDULED = "freshen.yml"
"""Proposes newer versions: docs/renewal.md."""
SEARCH = "search.yml"
"""Searches for examples that break a property: docs/commands.md."""
WHY = "why.yml"
"""Says why jobs wait, and reports queue times: docs/why.md. It only reads."""
PUBLISHING = ("release.yml", "site.yml")
ACCEPTANCE = "acceptance.yml"
"""Builds a stack on a cloud, and destroys it: docs/acceptance.md. A person starts it."""
TOKEN_WRITES = {
    "comment.yml": {"pull-requests", "statuses"},
    "preview.yml": {"id-token"},
    BY_HAND: {"contents", "id-token", "pull-requests"},
    RERUN: {"actions"},
    SCHEDULED: {"contents", "pull-requests"},
    SEARCH: {"issues"},
    "release.yml": {"attestations", "contents", "id-token"},
    "site.yml": {"id-token", "pages"},
    ACCEPTANCE: {"contents", "id-token", "pull-requests"},
}
"""Rights to write that a job of each workflow may have; every other right is to read."""


@cache
def workflow(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(FOLDER / name)


def steps(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(job, step) of a workflow."""
    for job, held in workflow(name)["jobs"].items():
        yield from ((job, step) for step in held["steps"])


def used(name: str, action: str) -> list[dict[str, Any]]:
    """Steps that use an action, by its name without version."""
    return [step for _, step in steps(name) if step.get("uses", "").partition("@")[0] == action]


def test_there_are_the_workflows_of_a_pull_request_and_of_gpus():
    assert {path.name for path in FILES} == {
        "comment.yml",
        "preview.yml",
        "pull-request.yml",
        BY_HAND,
        RERUN,
        WAKE,
        SCHEDULED,
        SEARCH,
        WHY,
        ACCEPTANCE,
        *ON_GPUS,
        *PUBLISHING,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_action_is_pinned_by_its_commit_and_says_its_version(path):
    lines = [line.strip() for line in path.read_text().splitlines() if re.search(r"\buses:", line)]
    assert bool(lines) is (path.name != WAKE), "a workflow uses something; a wake only needs a runner"
    for line in lines:
        # $/ is the workflow's own repository and commit.
        own = re.fullmatch(r"(- )?uses: \$/\.github/actions/[\w-]+", line)
        assert own or re.fullmatch(r"(- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_has_one_commit_everywhere():
    pins: dict[str, set[str]] = {}
    for path in FILES:
        for action, pin in re.findall(r"uses: ([\w./-]+)@(.+)", path.read_text()):
            pins.setdefault(action, set()).add(pin)
    assert {action for action, found in pins.items() if len(found) > 1} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rights_are_none_at_the_top_and_least_by_job(path):
    held = workflow(path.name)
    assert held["permissions"] == {}
    for name, job in held["jobs"].items():
        writes = {right for right, level in job["permissions"].items() if level != "read"}
        assert writes <= TOKEN_WRITES.get(path.name, set()), name
        # Kubeflow's own end-to-end test has two hours (kubeflow/trainer v2.3.0 test-e2e.yaml). GitHub stops a job after six.
        longest = 120 if path.name in ON_GPUS else 355 if (path.name, name) == (ACCEPTANCE, "run") else 60
        assert 0 < timeout(held, job) <= longest, name


def timeout(held: Any, job: dict[str, Any]) -> int:
    """When a job is ended, in minutes: of a called workflow the default of an input."""
    value = job["timeout-minutes"]
    if value != "${{ inputs.timeout-minutes }}":
        return int(value)
    [minutes] = {held["on"][event]["inputs"]["timeout-minutes"]["default"] for event in ("workflow_call", "workflow_dispatch")}
    return int(minutes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_job_checks_out_with_credentials_that_stay(path):
    for step in used(path.name, "actions/checkout"):
        assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_shell_text_holds_an_expression(path):
    for job, step in steps(path.name):
        assert "${{" not in step.get("run", ""), f"{job}: what an expression holds would be run; give it by env"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_run_is_started_with_rights_for_code_of_others(path):
    triggers = workflow(path.name)["on"]
    assert "pull_request_target" not in triggers
    assert "issue_comment" not in triggers


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in FILES
        if path.name not in (BY_HAND, RERUN, WAKE, SCHEDULED, SEARCH, WHY, ACCEPTANCE, *ON_GPUS, *PUBLISHING)
    ],
    ids=lambda path: path.name,
)
def test_two_runs_of_one_pull_request_do_not_meet(path):
    assert "pull_request.number" in (group := workflow(path.name)["concurrency"]["group"]) or "head_branch" in group


# -- the check ---------------------------------------------------------------------------------------------------------


def test_the_check_of_a_fork_has_neither_secret_nor_variable():
    for job in workflow("pull-request.yml")["jobs"].values():
        assert "if" not in job, "forks are checked as branches are"
        assert "environment" not in job, (
            "the comment waits for the end of this run: the reviewer of an environment would delay it"
        )
        assert job["permissions"] == {"contents": "read"}
        assert not re.search(r"secrets\.|vars\.|github\.token|GITHUB_TOKEN", str(job))


def test_the_check_of_advisories_compares_the_base_with_the_pull_request_and_runs_no_code_of_it():
    job = workflow("pull-request.yml")["jobs"]["advisories"]
    assert [step["run"] for step in job["steps"] if "run" in step] == []
    base, head = (step["with"] for step in job["steps"] if "checkout" in step["uses"])
    assert (base["path"], base["ref"], head["path"]) == ("base", "${{ github.event.pull_request.base.sha }}", "head")
    scans = [step["with"]["scan-args"].split() for step in job["steps"] if "osv-scanner-action@" in step["uses"]]
    assert [(scan[-1], scan[1]) for scan in scans] == [("base", "--output=base.json"), ("head", "--output=head.json")]
    compared = job["steps"][-1]
    assert {"--old=base.json", "--new=head.json", "--fail-on-vuln=true"} <= set(compared["with"]["scan-args"].split())
    assert "continue-on-error" not in compared


def test_the_comment_is_left_though_a_plan_fails():
    names = ["Plans, before and after", "Show the plans in the run's summary", "Leave the comment"]
    held = {step.get("name"): step for _, step in steps("pull-request.yml")}
    for name in names:
        assert held[name]["if"] == "${{ !cancelled() }}"
        assert "continue-on-error" not in held[name], "the status of the plans is the status of the check"


def test_the_base_is_the_parent_of_the_merge_that_is_checked_out():
    checkout = used("pull-request.yml", "actions/checkout")[0]
    assert checkout["with"]["fetch-depth"] == 2
    assert "ref" not in checkout["with"]
    runs = [step["run"] for _, step in steps("pull-request.yml") if "run" in step]
    assert "git worktree add --detach build/base HEAD^1" in runs
    assert ".ci/plans build/base build/comment" in runs


def test_the_tests_read_the_charts_whose_digests_were_compared_and_run_though_a_digest_differs():
    held = {step.get("name"): step for _, step in steps("pull-request.yml")}
    charts, tests = held["Charts have their recorded digests"], held["Lint and tests"]
    assert list(held).index(charts["name"]) < list(held).index(tests["name"])
    assert "gpu-ci charts --keep build/charts" in charts["run"]
    assert tests["env"]["GPU_CI_CHARTS"] == "${{ github.workspace }}/build/charts"
    assert tests["if"] == "${{ !cancelled() }}"


def test_tests_on_the_engine_run_once_with_the_cli_of_the_sdks_version():
    (check, engine) = (workflow("pull-request.yml")["jobs"][name]["steps"] for name in ("check", "engine"))
    assert any("make test ARGS=\"-m 'not engine'\"" in step.get("run", "") for step in check)
    assert any("pytest -q -m engine" in step.get("run", "") for step in engine)
    installed = {used(name, "pulumi/actions")[0]["with"]["pulumi-version"] for name in ("pull-request.yml", "preview.yml")}
    assert len(installed) == 1


def test_what_a_search_finds_is_one_issue_and_the_job_that_opens_it_runs_no_code_of_the_repository():
    jobs = workflow(SEARCH)["jobs"]
    assert [step["run"] for step in jobs["search"]["steps"] if "run" in step] == ["make search"]
    report = jobs["report"]
    assert (report["needs"], report["if"], report["permissions"]) == ("search", "${{ failure() }}", {"issues": "write"})
    (step,) = report["steps"]
    assert step["run"].index("gh issue comment") < step["run"].index("gh issue create"), "the open one first"


def test_the_artifact_is_what_the_comment_reads():
    recorded, upload = used("pull-request.yml", "actions/upload-artifact")
    script = (ROOT / ".github" / "scripts" / "comment.py").read_text()
    constants = dict(re.findall(r'^(ARTIFACT) = "(.+)"$', script, re.MULTILINE))
    files = re.search(r'^TEXT, ABOUT = "(.+)", "(.+)"$', script, re.MULTILINE)
    assert files is not None
    assert upload["with"]["name"] == constants["ARTIFACT"]
    assert upload["with"]["path"].split() == [f"build/comment/{name}" for name in files.groups()]
    (step,) = [step for _, step in steps("pull-request.yml") if "two_keys.py" in step.get("run", "")]
    assert step["run"] == ".venv/bin/python .github/scripts/two_keys.py record build/recorded"
    assert step["if"] == recorded["if"] == "${{ !cancelled() }}"
    assert recorded["with"]["path"] == "build/recorded/*.json"
    read, _ = used("comment.yml", "actions/download-artifact")
    assert read["with"]["name"] == recorded["with"]["name"]


# -- the preview -------------------------------------------------------------------------------------------------------


def test_the_preview_is_for_branches_of_the_repository_and_only_where_a_variable_asks_for_it():
    (job,) = workflow("preview.yml")["jobs"].values()
    asked = job["if"].split(" && ")
    assert "vars.GPU_CI_PREVIEW_STACKS != ''" in asked
    assert "github.event.pull_request.head.repo.full_name == github.repository" in asked
    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    assert job["environment"].startswith("preview-"), "roles are granted on the environment's name"


def test_nothing_is_ever_deployed_from_a_workflow():
    for path in FILES:
        for _, step in steps(path.name):
            assert not re.search(r"\bpulumi\s+(up|update|destroy|import|state|refresh)\b", step.get("run", ""))
        for step in used(path.name, "pulumi/actions"):
            assert step["with"].get("command", "preview") == "preview", "without a command it only installs the CLI"


def test_the_preview_runs_the_pack_with_the_stacks_config():
    (step,) = used("preview.yml", "pulumi/actions")
    assert step["with"]["policyPacks"] == "policies"
    assert step["with"]["policyPackConfigs"] == "policies/config/${{ matrix.stack }}.json"
    assert (ROOT / "policies" / "PulumiPolicy.yaml").exists()


def test_the_cli_of_the_preview_is_of_the_sdks_version():
    (step,) = used("preview.yml", "pulumi/actions")
    (version,) = re.findall(r"^pulumi==([\d.]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert step["with"]["pulumi-version"] == version


def test_both_projects_ask_for_one_range_of_clis_and_the_previews_is_in_it():
    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    (step,) = used("preview.yml", "pulumi/actions")
    files = [ROOT / folder / "Pulumi.yaml" for folder in ("", "deployments")]
    (wanted,) = {YAML(typ="safe", pure=True).load(file)["requiredPulumiVersion"] for file in files}
    ((lowest, next_major),) = re.findall(r"^>=([\d.]+) <([\d.]+)$", wanted)
    assert numbers(lowest) <= numbers(step["with"]["pulumi-version"]) < numbers(next_major)


def test_the_preview_has_a_token_of_one_team_or_none():
    (token,) = used("preview.yml", "pulumi/auth-actions")
    assert token["with"]["requested-token-type"] == "urn:pulumi:token-type:access_token:team"
    assert token["with"]["scope"] == "team:${{ vars.PULUMI_TEAM }}"
    held = [step for _, step in steps("preview.yml")]
    for step in held[held.index(token) :]:
        assert step["if"] == "vars.PULUMI_TEAM != ''", "no right of a cloud without a token"
    said = held[held.index(token) - 1]
    assert (said["if"], "::warning::" in said["run"]) == ("vars.PULUMI_TEAM == ''", True)
    assert "access_token:organization" not in "".join(path.read_text() for path in FILES)


# -- owners ------------------------------------------------------------------------------------------------------------


def owned(path: str) -> bool:
    """Whether a path has an owner. The patterns are `*`, `/folder/` and `/file`; the last one that matches counts."""
    rules = [line.split() for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines() if line and line[0] != "#"]
    matching = [owners for pattern, *owners in rules if pattern == "*" or f"/{path}/".startswith(f"{pattern.rstrip('/')}/")]
    assert all(pattern == "*" or (pattern.startswith("/") and "*" not in pattern) for pattern, *_ in rules)
    return bool(matching and matching[-1])


def credentials(held: dict[str, Any], job: dict[str, Any]) -> set[str]:
    """What a job has beyond reading this repository: rights, secrets, an environment, and what a step exchanges a token for."""
    rights = {right for right, level in job.get("permissions", held["permissions"]).items() if level != "read"}
    named = set(re.findall(r"\bsecrets\.(\w+)", str(job))) | ({job["secrets"]} if "secrets" in job else set())
    given = {str(job["environment"])} if "environment" in job else set()
    roles = {
        step["uses"] for step in job["steps"] if re.match(r"aws-actions/configure|pulumi/auth|docker/login", step.get("uses", ""))
    }
    return rights | named | given | roles


def ran(job: dict[str, Any]) -> str:
    """Every shell text that a job runs: its steps and our actions, the recipes of make with what they need, and shell scripts."""
    texts, seen = [step.get("run", "") for step in job["steps"]], set[str]()
    for action in (each for each in uses(job) if each.startswith("$/")):
        held = YAML(typ="safe", pure=True).load(ROOT / action[2:] / "action.yml")
        texts += [step.get("run", "") for step in held["runs"]["steps"]]
    while texts:
        text = texts.pop()
        if text not in seen:
            seen.add(text)
            made = re.findall(r"(?:\bmake\b|\$\(MAKE\))([^\n;&|]*)", text)
            texts += [needed(word) for words in made for word in words.split() if word in targets()]
            texts += [path.read_text() for path in files(text) if path.is_file() and path.suffix in ("", ".sh")]
    return "\n".join(seen)


def uses(job: dict[str, Any]) -> list[str]:
    return [step["uses"] for step in job["steps"] if "uses" in step]


def needed(target: str) -> str:
    """The recipe of a target, and those of what it needs."""
    needs = re.findall(rf"^{re.escape(target)}:([^=\n#]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return "\n".join([targets()[target], *(needed(word) for words in needs for word in words.split() if word in targets())])


def files(text: str) -> set[Path]:
    """The files and folders of the repository that a shell text names."""
    words = re.findall(r"(?<![\w./$-])(?:\./)?([\w.-]+(?:/[\w.-]+)*)", text)
    found = {ROOT / word for word in words if (ROOT / word).is_file() and not word.startswith(".venv/")}
    return found | {ROOT / word for word in words if word in {"docs", "tests"} or word.startswith(("docs/", "tests/"))}


def is_page(path: str) -> bool:
    """Whether a path is a page or a folder of pages, which no program runs."""
    return path.startswith("docs") and not re.search(r"\.(py|sh|js|ya?ml)$", path)


JOBS = [(path.name, name) for path in FILES for name in workflow(path.name)["jobs"]]


@pytest.mark.parametrize(("file", "name"), JOBS)
def test_what_a_job_with_a_credential_runs_has_an_owner_and_is_no_test(file: str, name: str):
    held = workflow(file)
    job = held["jobs"][name]
    text = ran(job)
    tests = re.search(r"\bpytest\b|\bpython3? (-m )?(tests|docs)\b|requirements/dev\.txt|\bmake (test|lint|search)\b", text)
    if credentials(held, job):
        assert not tests, "owners have not reviewed a test, nor what tests install"
        paths = {str(path.relative_to(ROOT)) for path in files(text)}
        assert {path for path in paths if not owned(path)} <= {path for path in paths if is_page(path)}
    else:
        assert job["permissions"].items() <= {"contents": "read", "actions": "read", "checks": "read"}.items()


def test_what_is_a_credential_and_what_a_job_runs_is_found():
    of = {(file, name): credentials(workflow(file), workflow(file)["jobs"][name]) for file, name in JOBS}
    assert {key for key, held in of.items() if held} == {
        *(("comment.yml", name) for name in ("comment", "status", "approve")),
        ("preview.yml", "preview"),
        *(("runner-image.yml", name) for name in ("build", "propose")),
        *(("release.yml", name) for name in ("build", "publish", "pypi")),
        *(("acceptance.yml", name) for name in ("run", "propose")),
        ("freshen.yml", "ask"),
        ("freshen.yml", "propose"),
        ("rerun.yml", "rerun"),
        ("search.yml", "report"),
        ("site.yml", "publish"),
    }
    text = ran(workflow("release.yml")["jobs"]["build"])
    assert {ROOT / ".ci" / "release.py", ROOT / ".ci" / "requirements" / "release.txt", ROOT / "requirements.txt"} <= files(text)
    assert "pytest" in ran(workflow("release.yml")["jobs"]["test"])
    assert "pytest" in ran({"steps": [{"run": "make test"}], "permissions": {}})


def test_everything_but_pages_and_tests_has_an_owner():
    ownerless = {path.name for path in ROOT.iterdir() if not owned(path.name)}
    assert ownerless == {"docs", "tests"}
    assert owned("tests/conftest.py")
    assert owned("policies/rules/gpu_node_taint.py")


# -- the comment -------------------------------------------------------------------------------------------------------


def test_no_job_checks_out_or_runs_anything_of_the_pull_request():
    for checkout in used("comment.yml", "actions/checkout"):
        assert checkout["with"].keys() <= {"persist-credentials", "sparse-checkout"}, "no ref, no repository: the default branch"
    jobs = workflow("comment.yml")["jobs"]
    assert [step["run"] for step in jobs["comment"]["steps"] if "run" in step] == ["python3 .github/scripts/comment.py"]
    for download in used("comment.yml", "actions/download-artifact"):
        assert download["with"]["path"].startswith("${{ runner.temp }}/"), "no file of an artifact lies in the checkout"
    for name in ("status", "approve"):
        assert uses(jobs[name]) == [], "it runs no code of the repository"


def test_the_comment_follows_the_check_and_has_no_more_rights_than_it_needs():
    held = workflow("comment.yml")
    assert held["on"] == {"workflow_run": {"workflows": [workflow("pull-request.yml")["name"]], "types": ["completed"]}}
    jobs = held["jobs"]
    assert jobs["judge"]["permissions"] == {"actions": "read", "contents": "read"}, "what reads a stranger's data writes nothing"
    assert jobs["comment"]["permissions"] == {"actions": "read", "contents": "read", "pull-requests": "write"}
    assert jobs["status"]["permissions"] == jobs["approve"]["permissions"] == {"statuses": "write"}
    run = "github.event.workflow_run"
    assert jobs["judge"]["if"] == f"{run}.event == 'pull_request' && {run}.conclusion != 'cancelled'"
    assert held["concurrency"]["cancel-in-progress"] is True, "a newer commit takes the place of one that waits for an owner"


@pytest.mark.parametrize(("status", "differ", "ends"), [(0, "0", 0), (1, "1", 0), (2, None, 2), (137, None, 137)])
def test_a_difference_waits_for_an_owner_and_a_failure_does_too(status, differ, ends, tmp_path):
    jobs = workflow("comment.yml")["jobs"]
    (run,) = [step["run"] for step in jobs["judge"]["steps"] if "two_keys.py" in step.get("run", "")]
    program = tmp_path / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$*"\nexit {status}\n')
    program.chmod(0o755)
    given = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "out"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    shell = [str(shutil.which("bash")), "-e", "-o", "pipefail", "-c", run]
    done = subprocess.run(shell, cwd=tmp_path, env=os.environ | given, capture_output=True, text=True, check=False)
    assert done.returncode == ends
    assert (tmp_path / "summary").read_text() == f".github/scripts/two_keys.py judge {tmp_path}/recorded\n"
    outputs = (tmp_path / "out").read_text() if (tmp_path / "out").exists() else ""
    assert outputs == (f"differ={differ}\n" if differ else "")
    assert jobs["approve"]["if"].endswith("needs.judge.outputs.differ != '0' }}"), "without an output the base has not agreed"


@pytest.mark.parametrize(
    ("job", "given", "said"),
    [
        ("status", {"DIFFER": "0"}, "state=success"),
        ("status", {"DIFFER": "1"}, "state=pending"),
        ("status", {"DIFFER": ""}, "state=pending"),
        ("approve", {"REVIEWERS": "required"}, "state=success"),
        ("approve", {"REVIEWERS": ""}, ""),
    ],
)
def test_the_status_of_a_commit_is_success_only_if_the_base_agrees_or_an_owner_approves(job, given, said, tmp_path):
    (step,) = workflow("comment.yml")["jobs"][job]["steps"]
    (tmp_path / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{tmp_path}/asked"\n')
    (tmp_path / "gh").chmod(0o755)
    held = dict.fromkeys(step["env"], "") | {"SHA": "0" * 40, "GITHUB_REPOSITORY": "a/b"} | given
    shell = [str(shutil.which("bash")), "-e", "-o", "pipefail", "-c", step["run"]]
    environment = held | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)
    asked = (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []
    assert (done.returncode, bool(asked)) == (0 if said else 1, bool(said)), (
        "GitHub makes a missing environment without reviewers"
    )
    if said:
        assert {f"repos/a/b/statuses/{'0' * 40}", said, "context=two keys"} <= set(asked)


# -- the rerun ---------------------------------------------------------------------------------------------------------


def test_the_rerun_runs_nothing_but_its_action_and_one_at_a_time():
    held = workflow(RERUN)
    (job,) = held["jobs"].values()
    (step,) = job["steps"]
    assert step["uses"] == "$/.github/actions/rerun-once"
    assert job["permissions"] == {"actions": "write", "checks": "read"}
    assert job["concurrency"] == {"group": "rerun", "cancel-in-progress": False}
    assert "concurrency" not in held, "a run that is skipped must not take the place of one that waits"


def test_the_rerun_follows_workflows_by_name_and_judges_their_files():
    held = workflow(RERUN)
    (job,) = held["jobs"].values()
    (step,) = job["steps"]
    followed = held["on"]["workflow_run"]
    assert followed["types"] == ["completed"]
    assert followed["workflows"] == [workflow(file)["name"] for file in step["with"]["workflows"].split()]
    assert held["name"] not in followed["workflows"], "it would wake itself"
    assert [each.keys() for each in held["on"]["schedule"]] == [{"cron"}], "the sweep finds jobs that no event reported"


def test_the_rerun_wakes_the_set_of_the_workflow_that_it_follows_and_has_time_for_it():
    (job,) = workflow(RERUN)["jobs"].values()
    (step,) = job["steps"]
    (default,) = {
        workflow("test-gpu.yml")["on"][event]["inputs"]["runs-on"]["default"] for event in ("workflow_call", "workflow_dispatch")
    }
    assert set(step["with"]["wake-labels"].split()) == set(json.loads(default))
    minutes = YAML(typ="safe", pure=True).load(ACTIONS / "rerun-once" / "action.yml")["inputs"]["wake-minutes"]["default"]
    looks = 2 * timedelta(minutes=int(minutes)) + RERUN_ONCE._ROUND
    assert timedelta(minutes=job["timeout-minutes"]) >= looks + timedelta(minutes=5)


def test_a_wake_has_the_title_that_the_action_counts_and_only_its_labels_are_an_input():
    wake = workflow(RERUN_ONCE.WAKE_FILE)
    assert wake["run-name"].replace("${{ inputs.runs-on }}", '["a", "b"]') == RERUN_ONCE.title(("a", "b"))
    assert list(wake["on"]) == ["workflow_dispatch"], "people with write access and the token of the workflow rerun start it"
    assert list(wake["on"]["workflow_dispatch"]["inputs"]) == ["runs-on"]
    assert wake["concurrency"] == {"group": "wake-${{ inputs.runs-on }}", "cancel-in-progress": True}, "wakes do not pile up"
    (job,) = wake["jobs"].values()
    assert job["runs-on"] == "${{ fromJSON(inputs.runs-on) }}"
    assert (job["permissions"], [list(step) for step in job["steps"]]) == ({}, [["run"]]), "it runs no code of anybody"
    assert wake["name"] not in workflow(RERUN)["on"]["workflow_run"]["workflows"]


# -- newer versions ----------------------------------------------------------------------------------------------------


def test_the_job_that_asks_sources_may_not_write_and_the_one_that_writes_runs_no_code_of_the_repository():
    jobs = workflow(SCHEDULED)["jobs"]
    assert jobs["ask"]["permissions"] == jobs["today"]["permissions"] == {"contents": "read"}
    assert jobs["propose"]["permissions"] == {"contents": "write", "pull-requests": "write"}
    (run,) = [step["run"] for step in jobs["propose"]["steps"] if "run" in step]
    assert not re.search(r"python|make |\.ci/|\./", run)
    text = (FOLDER / SCHEDULED).read_text()
    assert text.count("secrets.") == text.count("secrets.FRESHEN_TOKEN || github.token") == 2
    assert {name for name, job in jobs.items() if "secrets." in str(job)} == {
        name for name, job in jobs.items() if job.get("environment") == "freshen"
    }


def test_the_runner_is_asked_for_each_day_and_everything_each_week():
    held = workflow(SCHEDULED)
    daily, weekly = (each["cron"] for each in held["on"]["schedule"])
    assert daily.endswith(" * * *")
    assert weekly.endswith(" * * 1")
    text = (FOLDER / SCHEDULED).read_text()
    assert text.count(f"github.event.schedule == '{daily}'") == 2
    assert "--only=runner" in text
    names = [*TASKS]
    assert [name for name in names if name.startswith("runner")], "the sources whose names begin so"


def test_a_pull_request_with_newer_rows_has_what_is_generated_from_them():
    runs = [step["run"] for step in workflow(SCHEDULED)["jobs"]["ask"]["steps"] if "run" in step]
    (generating,) = [run for run in runs if "make docs" in run]
    assert "make render STACK=homelab OUT=homelab" in generating
    assert runs.index(generating) > next(index for index, run in enumerate(runs) if "gpu-ci freshen" in run)


@pytest.mark.parametrize(
    ("days", "plan", "status"), [(0, 0, 1), (14, 0, 1), (15, 0, 0), (-1, 0, 0), (None, 0, 0), (None, 1, 1)], ids=str
)
def test_the_plans_of_today_fail_if_one_fails_or_something_ends_within_14_days(days, plan, status, tmp_path):
    (run,) = [step["run"] for step in workflow(SCHEDULED)["jobs"]["today"]["steps"] if "gpu-ci plan" in step.get("run", "")]
    assert "--as-of" not in run
    assert "GPU_CI_AS_OF" not in (FOLDER / SCHEDULED).read_text()
    last = None if days is None else (datetime.now(UTC).date() + timedelta(days)).isoformat()
    end = {"what": "runner 1.2.3", "last": last, "effect": "no jobs", "fix": "freshen"}
    (tmp_path / "calendar.json").write_text(json.dumps({"ends": [end, end | {"last": None}]}))
    (tmp_path / "Pulumi.acme.yaml").touch()
    program = tmp_path / ".venv" / "bin" / "gpu-ci"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/bash\nif [ "$1" = calendar ]; then cat calendar.json; else echo "$*"; exit {plan}; fi\n')
    program.chmod(0o755)
    environment = os.environ | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    command = [str(shutil.which("bash")), "-e", "-o", "pipefail", "-c", run]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    shown = f"::error title=acme, last good day::{last} runner 1.2.3: no jobs; freshen\n" if status and not plan else ""
    assert done.stdout == shown
    assert (tmp_path / "summary").read_text() == "plan --markdown -- acme\n"


# -- acceptance --------------------------------------------------------------------------------------------------------


def test_the_job_that_spends_money_may_not_write_and_the_one_that_writes_has_no_role_and_runs_no_code_of_the_repository():
    held = workflow(ACCEPTANCE)
    assert list(held["on"]) == ["workflow_dispatch"], "only a person spends money"
    run, propose = held["jobs"]["run"], held["jobs"]["propose"]
    assert list(held["jobs"]) == ["run", "propose"]
    assert run["permissions"] == {"contents": "read", "id-token": "write"}
    assert run["environment"] == ACCEPTANCE.removesuffix(".yml"), "its reviewers decide, and the role trusts its name"
    assert propose["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "environment" not in propose
    assert not re.search(r"secrets\.|vars\.", str(propose))
    assert [step["uses"].partition("@")[0] for step in propose["steps"] if "uses" in step] == [
        "actions/checkout",
        "actions/download-artifact",
    ]
    (script,) = [step["run"] for step in propose["steps"] if "run" in step]
    assert not re.search(r"python|make |\.ci/|\./|\.venv", script)
    assert "git apply --index --include='docs/acceptance/*.json' \"$patch\"" in script, "the patch may change nothing else"
    (download,) = used(ACCEPTANCE, "actions/download-artifact")
    assert download["with"]["path"].startswith("${{ runner.temp }}/"), "no file of the artifact lies in the checkout"


def test_one_acceptance_runs_at_a_time_and_none_is_canceled():
    held = workflow(ACCEPTANCE)
    assert held["concurrency"] == {"group": "acceptance", "cancel-in-progress": False}
    assert "concurrency" not in held["jobs"]["run"]


def test_budget_and_minutes_are_inputs_that_reach_the_command_and_the_job_has_time_for_them():
    inputs = workflow(ACCEPTANCE)["on"]["workflow_dispatch"]["inputs"]
    assert list(inputs) == ["stack", "budget-usd", "minutes"]
    assert inputs["budget-usd"]["required"] is True
    assert "default" not in inputs["budget-usd"], "a person writes what it may cost"
    (step,) = [step for _, step in steps(ACCEPTANCE) if "gpu-ci accept" in step.get("run", "")]
    given = {"STACK": "stack", "BUDGET_USD": "budget-usd", "MINUTES": "minutes"}
    assert {name: f"${{{{ inputs.{word} }}}}" for name, word in given.items()}.items() <= step["env"].items()
    (line,) = [line.strip() for line in step["run"].splitlines() if "gpu-ci accept" in line]
    assert line == '.venv/bin/gpu-ci accept --yes --budget-usd "$BUDGET_USD" --minutes "$MINUTES" -- "$STACK" || status=$?'
    assert set(re.findall(r"--[\w-]+", line)) <= options()["accept"]
    (most,) = re.findall(r"to (\d+)$", inputs["minutes"]["description"])
    assert f'"$MINUTES" -le {most} ]' in step["run"]
    assert workflow(ACCEPTANCE)["jobs"]["run"]["timeout-minutes"] >= int(most) + 45, "plan, doctor and preview come before"


@pytest.mark.parametrize(
    ("minutes", "status"), [("180", 0), ("300", 0), ("180", 1), ("180", 2), ("301", None), ("180.5", None), ("", None)]
)
def test_an_acceptance_leaves_its_record_and_its_status_and_does_not_start_if_github_would_stop_it(minutes, status, tmp_path):
    (run,) = [step["run"] for _, step in steps(ACCEPTANCE) if "gpu-ci accept" in step.get("run", "")]
    program = tmp_path / ".venv" / "bin" / "gpu-ci"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/bash\necho "$*" > build/words\necho "{{}}" > docs/acceptance/day.json\nexit {status}\n')
    program.chmod(0o755)
    (tmp_path / "docs" / "acceptance").mkdir(parents=True)
    (tmp_path / "docs" / "acceptance" / "README.md").write_text("records\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "docs"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    environment = os.environ | {"STACK": "acme; false", "BUDGET_USD": "5", "MINUTES": minutes}
    shell = [str(shutil.which("bash")), "-e", "-o", "pipefail", "-c", run]
    done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    patch = (tmp_path / "build" / "acceptance" / "record.patch").read_text()
    if status is None:
        assert (done.returncode, patch) == (2, "")
        assert done.stdout.startswith("::error::minutes: must be a whole number up to 300")
        assert not (tmp_path / "build" / "words").exists()
        return
    assert done.returncode == status, done.stderr
    assert (tmp_path / "build" / "words").read_text() == f"accept --yes --budget-usd 5 --minutes {minutes} -- acme; false\n"
    assert "+++ b/docs/acceptance/day.json" in patch


# -- commands ----------------------------------------------------------------------------------------------------------


def shell_texts() -> Iterator[tuple[str, str]]:
    """(place, text) of programs: steps, and the shell scripts in .ci."""
    for path in FILES:
        yield from ((path.name, step["run"]) for _, step in steps(path.name) if "run" in step)
    for script in sorted((ROOT / ".ci").iterdir()):
        if script.is_file() and not script.suffix:
            yield script.name, script.read_text()


def recipe(target: str) -> str:
    """The recipe of a target, and those of the targets that it makes: they have the same variables."""
    text = targets()[target]
    made = [word for words in re.findall(r"\$\(MAKE\)(.*)", text) for word in words.split() if word in targets()]
    return "".join([text, *map(recipe, made)])


@cache
def targets() -> dict[str, str]:
    """The Makefile's targets, each with its recipe."""
    text = (ROOT / "Makefile").read_text()
    return dict(re.findall(r"^([\w./-]+):(?!=)[^\n]*\n((?:\t.*\n)*)", text, re.MULTILINE))


def test_every_target_of_make_exists_and_takes_its_variables():
    called = [(place, words) for place, text in shell_texts() for words in commands(text.replace("$(", "("), "make")]
    assert len(called) >= 3, "the workflows call make"
    for place, words in called:
        names = [word for word in words if not word.startswith(("-", ">")) and "=" not in word]
        (target,) = [name for name in names if name in targets()] or [f"{names} of {place}"]
        assert target in targets()
        for variable in (word.partition("=")[0] for word in words if "=" in word):
            assert re.search(rf"\b{variable}\b", recipe(target)), f"{place}: make {target} does not read {variable}"


def options() -> dict[str, set[str]]:
    """Options of each command of `gpu-ci`."""
    group: Any = typer.main.get_command(app)
    return {name: {opt for each in held.params for opt in each.opts} for name, held in group.commands.items()}


def test_every_option_of_the_plan_exists():
    given = [
        option
        for _, text in shell_texts()
        for arguments in re.findall(r'ARGS="([^"]*)"', text)
        for option in shlex.split(arguments)
        if option.startswith("--")
    ]
    assert {"--markdown", "--annotations"} <= set(given)
    assert set(given) <= options()["plan"]


def test_every_script_that_a_workflow_runs_is_there_and_may_be_run():
    for path in FILES:
        for _, step in steps(path.name):
            for name in re.findall(r"(?<![\w/])\.(?:ci|github/scripts)/[\w./-]+", step.get("run", "")):
                script = ROOT / name
                assert script.is_file()
                assert script.suffix == ".py" or script.stat().st_mode & 0o111, f"{name} is called and is not a program"


PAGE = (ROOT / "docs" / "pull-requests.md").read_text()


def test_the_page_tells_of_every_variable_and_environment_that_the_workflows_read():
    def read(path: Path) -> set[str]:
        return set(re.findall(r"\b(?:vars|secrets)\.(\w+)", path.read_text()))

    others = set().union(*(set(re.findall(r"\bvars\.(\w+)", path.read_text())) for path in FILES if path.name != ACCEPTANCE))
    assert "GPU_CI_PREVIEW_STACKS" in others
    told = PAGE + (ROOT / "CONTRIBUTING.md").read_text()
    assert {name for name in others if f"`{name}`" not in told} == set()
    assert "environment:preview-staging" in PAGE
    page = (ROOT / "docs" / "acceptance.md").read_text()
    assert "PULUMI_BACKEND_URL" in read(FOLDER / ACCEPTANCE)
    assert {name for name in read(FOLDER / ACCEPTANCE) if f"`{name}`" not in page} == set()
    assert "environment `acceptance`" in page


def test_the_page_tells_of_every_option_of_the_plan_that_is_for_pull_requests():
    told = set(re.findall(r"^\| `(--[\w-]+)", PAGE, re.MULTILINE))
    assert told == {option for option in options()["plan"] if option.startswith("--")} - {"--file", "--json"}


# -- checkers ----------------------------------------------------------------------------------------------------------


def test_actionlint_finds_nothing(tmp_path):
    """With ./ for $/, which is newer than actionlint 1.7.12: so it holds inputs and outputs of our actions too."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("no actionlint on PATH")
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    (tmp_path / ".git").mkdir()
    files = sorted((tmp_path / ".github" / "workflows").glob("*.y*ml"))
    for path in files:
        path.write_text(path.read_text().replace("uses: $/", "uses: ./"))
    shellcheck = Path(sys.executable).parent / "shellcheck"
    command = [actionlint, f"-shellcheck={shellcheck if shellcheck.exists() else ''}", *map(str, files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_zizmor_is_told_to_leave_is_said_why():
    for path in FILES:
        for line in path.read_text().splitlines():
            if "zizmor:" in line:
                assert re.search(r"# zizmor: ignore\[[\w-]+\] \w+", line), f"{path.name}: {line}"
