"""Options of the command line for pull requests: the base, the forms, annotations, the day, strictness."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date

import pytest
from typer.testing import CliRunner

import gpu_ci.offline.base
import gpu_ci.offline.commands.plan
import gpu_ci.offline.commands.render
import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from tests.day import AS_OF
from tests.offline.staging import ON_DEMAND, TOO_SMALL, WIDER, few_policies, folder, line_of, staging, write


@pytest.fixture(autouse=True)
def judged_by_a_few() -> Iterator[None]:
    with few_policies():
        yield


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def changed(tmp_path) -> str:
    return str(write(tmp_path, ON_DEMAND, WIDER))


def test_quiet_prints_only_what_fails_and_the_result(changed):
    whole, quiet = (run("plan", "staging", "--file", changed, *words) for words in ((), ("--quiet",)))
    assert (whole.exit_code, quiet.exit_code) == (1, 1)
    lines = quiet.stdout.splitlines()
    assert lines[0].startswith("  mandatory spot-required-nonprod: 3 resources (")
    assert lines[1].startswith("FAILED: 1 mandatory violation")
    assert whole.stdout.endswith(quiet.stdout), "a plan ends with it"


def test_markdown_is_all_that_stands_on_stdout_and_the_status_is_the_plans(changed):
    result = run("plan", "staging", "--file", changed, "--base", str(folder()), "--markdown")
    assert result.exit_code == 1
    assert result.stdout.startswith("## ❌ `staging`: 1 mandatory violation\n")
    assert "| pool `usw2/t4-spot` | `nodes.max` | `5` | `6` |" in result.stdout
    assert "::" not in result.stderr, "annotations are given where they are asked for"


def test_annotations_stand_on_stderr_beside_any_form(changed):
    for form in ([], ["--json"], ["--markdown"]):
        result = run("plan", "staging", "--file", changed, "--base", str(folder()), "--annotations", *form)
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("::error ")]
        assert "title=spot-required-nonprod::usw2-t4-spot-us-west-2a-nodes: capacityType is" in line
        assert "::error" not in result.stdout


def test_the_terminal_says_what_changes_and_then_the_plan(changed):
    result = run("plan", "staging", "--file", changed, "--base", str(folder()))
    lines = result.stdout.splitlines()
    assert lines[0] == f"gpu-ci plan of stack staging on {AS_OF}"
    assert (
        lines.index("Price, USD an hour")
        < lines.index("Before → after")
        < lines.index("Ends and remarks (! to do, $ money, - good to know)")
    )
    for told in (
        "  pool usw2/t4-spot: capacity: spot → on-demand",
        "  pool usw2/t4-spot: nodes.max: 5 → 6",
        "  newly broken: spot-required-nonprod: usw2-t4-spot-us-west-2a-nodes",
    ):
        assert told in lines
    assert lines[1].startswith("FAILED: 1 mandatory violation · ")
    assert lines.count(lines[1]) == 2, "the result is first and last"
    failure = "  mandatory spot-required-nonprod: 3 resources (usw2-t4-spot-us-west-2a-nodes, "
    (first, _) = (index for index, line in enumerate(lines) if line.startswith(failure))
    assert first < 4, "the failure is right below it"
    assert sum(line.startswith(failure) for line in lines) == 2, "and again above the last line"


def test_a_value_of_several_lines_is_one_line_and_moves_no_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    path = write(tmp_path, ("config:\n", 'config:\n  other:text: "a\\n::error::b\\e[2Jc"\n'))
    lines = run("plan", "staging", "--file", str(path), "--base", str(ROOT)).stdout.splitlines()
    assert "  stack: other:text: not set → a ::error::b\ufffd[2Jc" in lines


def test_json_has_what_changes(changed):
    result = run("plan", "staging", "--file", changed, "--base", str(folder()), "--json")
    changes = json.loads(result.stdout)["changes"]
    assert changes["settings"] == [
        {
            "kind": "pool",
            "name": "usw2/t4-spot",
            "state": "changed",
            "values": {"capacity": {"before": "spot", "after": "on-demand"}, "nodes.max": {"before": "5", "after": "6"}},
        }
    ]
    (moved,) = changes["placement"]
    assert (moved["name"], moved["before"]["poolHolds"], moved["after"]["poolHolds"]) == ("usw2/gpu-t4", "5", "6")
    assert changes["price"]["worst"]["after"]["usd"] > changes["price"]["worst"]["before"]["usd"]
    assert {line["after"]["item"] for line in changes["price"]["lines"]} == {"pool t4-spot", "disks", "update", "NAT traffic"}
    assert [found["policy"] for found in changes["newlyBroken"]] == ["spot-required-nonprod"] * 3
    assert changes["mended"] == []
    nodes = next(kind for kind in changes["resources"] if kind["type"] == "aws:eks/nodeGroup:NodeGroup")
    assert nodes["added"] == nodes["removed"] == []
    assert "capacityType" in nodes["changed"]["usw2-t4-spot-us-west-2a-nodes"]


def test_json_without_a_base_has_no_changes():
    assert "changes" not in json.loads(run("plan", "staging", "--json").stdout)


def test_a_base_without_the_stack_is_told_in_every_form(tmp_path):
    reason = "the base has no Pulumi.staging.yaml"
    (tmp_path / "Pulumi.yaml").touch()
    result = run("plan", "staging", "--base", str(tmp_path))
    assert result.exit_code == 0
    assert f"  {reason}. This is only the plan after the change." in result.stdout.splitlines()
    assert json.loads(run("plan", "staging", "--base", str(tmp_path), "--json").stdout)["changes"] == {"notCompared": reason}
    assert f"Before → after: {reason}." in run("plan", "staging", "--base", str(tmp_path), "--markdown").stdout


def test_a_base_that_is_no_checkout_is_wrong_input(tmp_path):
    for base, what in ((tmp_path / "nowhere", "which is not a folder"), (tmp_path, "which has no Pulumi.yaml")):
        result = run("plan", "staging", "--base", str(base))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "error: --base: must be a folder with a checkout of the base branch" in result.stderr
        assert what in result.stderr


def test_an_unplaced_runner_is_compared_too(tmp_path):
    result = run("plan", "staging", "--file", str(write(tmp_path, TOO_SMALL)), "--base", str(ROOT), "--json")
    assert result.exit_code == 1
    changes = json.loads(result.stdout)["changes"]
    assert changes["resources"] is None, "not built is not removed"
    assert "the smallest type that is large enough" in changes["placement"][0]["after"]["error"]


def test_wrong_input_is_told_in_the_comment_and_on_its_line(tmp_path):
    path = write(tmp_path, ("idleDelay: 5m", "idleDely: 5m"))
    result = run("plan", "staging", "--file", str(path), "--markdown", "--annotations")
    assert result.exit_code == 2
    assert result.stdout.startswith("## ❌ `staging`: the input is wrong\n")
    assert "did you mean idleDelay?" in result.stdout
    assert f"::error file={path},line={line_of(path, 'idleDely')},title=wrong input::" in result.stderr
    assert f"error: {path}:" in result.stderr


def test_two_forms_at_once_are_refused():
    result = run("plan", "staging", "--json", "--markdown")
    assert (result.exit_code, json.loads(result.stdout)["errors"][0]["path"]) == (2, "")
    assert "error: --json, --markdown: choose one output format" in result.stderr


# -- the day and strictness --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("plan",), ("render", "--out", "unused")])
@pytest.mark.parametrize(
    "day", ["tomorrow", "2026-13-01", "2026-02-30", "20260101", "2026-W01-1", "2026-1-1", "", "2026-01-01T00:00"]
)
def test_a_day_that_is_none_is_one_clear_error(command, day):
    result = run(*command, "staging", "--as-of", day)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: --as-of: must be a day before the year 3000 as YYYY-MM-DD; got {day!r}; correct it\n"


@pytest.mark.parametrize(("given", "day"), [((), AS_OF), (("--as-of", "2027-02-28"), date(2027, 2, 28))])
def test_the_day_reaches_both_plans(monkeypatch, given, day):
    asked = []

    def plan(*arguments):
        asked.append(arguments[4])
        return staging()

    monkeypatch.setattr(gpu_ci.offline.commands.plan, "make_plan", plan)
    monkeypatch.setattr(gpu_ci.offline.base, "make_plan", plan)
    assert run("plan", "staging", "--base", str(ROOT), *given).exit_code == 0
    assert asked == [day, day]


@pytest.mark.parametrize("command", ["plan", "render"])
def test_strictness_is_the_plans_own(monkeypatch, tmp_path, command):
    from dataclasses import replace

    from gpu_ci.offline.judge import Verdict

    unknown = Verdict("imds-v2-hop-one", "mandatory", "undeterminable", staging().resources[0].urn, "not known yet")
    unsure = replace(staging(), verdicts=(unknown,))
    monkeypatch.setattr(getattr(gpu_ci.offline.commands, command), "make_plan", lambda *_: unsure)
    out = ("--out", str(tmp_path / "out")) if command == "render" else ()
    assert run(command, "staging", *out).exit_code == 0
    strict = run(command, "staging", "--strict", *out)
    assert strict.exit_code == 1
    assert "FAILED: 1 undeterminable verdict of a critical policy" in strict.output


def test_a_fault_of_ours_while_writing_is_no_failed_proof(monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(gpu_ci.offline.commands.plan, "markdown", broken)
    result = run("plan", "staging", "--markdown")
    assert result.exit_code == 70
    assert "RuntimeError: a bug" in result.stderr
