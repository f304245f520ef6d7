"""What `gpu-ci worth` answers: three histories, what each way costs by hand, what it leaves out, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gpu_ci.cli import app
from tests.builders import ROOT
from tests.cases import cases
from tests.offline.worth.histories import SHARED, job, repository, written

SMALL = ROOT / "examples" / "Pulumi.small.yaml"
VM, GITHUB, FLEET = "a VM per job", "GitHub's GPU runners", "this fleet"
G4DN_XLARGE, DISK = 0.526, 200 * 0.08 / 730
"""USD an hour of g4dn.xlarge and of 200 GiB of gp3 in us-west-2 (prices.csv)."""


def run(path: str | Path, *options: str, stack: str = "small", file: Path = SMALL) -> Result:
    return CliRunner().invoke(app, ["worth", str(path), "--stack", stack, "--file", str(file), *options])


def found(tmp_path: Path, jobs: list[dict[str, Any]], *options: str, **stack: Any) -> dict[str, Any]:
    """The answer for these jobs, with the ways by name."""
    result = run(written(tmp_path / "jobs.json", jobs), "--json", *options, **stack)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    return {**answer, "ways": {way["name"]: way for way in answer["ways"]}}


@pytest.fixture
def shared(tmp_path) -> dict[str, Any]:
    """The options of a fleet whose nodes hold eight jobs."""
    path = tmp_path / "Pulumi.shared.yaml"
    path.write_text(SHARED)
    return {"stack": "shared", "file": path}


def test_each_way_costs_what_a_hand_computes(tmp_path):
    seconds = [30, 60, 61, 3600]
    answer = found(tmp_path, [job(at, at * 20_000, length) for at, length in enumerate(seconds)], "--period", "30")
    github = answer["ways"][GITHUB]["usd"]
    assert github == pytest.approx([0.052 * (1 + 1 + 2 + 60)] * 2), "whole minutes of each job"
    for end, boot in enumerate((25, 120)):
        hours = sum(max(60, boot + length) for length in seconds) / 3600
        assert answer["ways"][VM]["usd"][end] == pytest.approx(hours * (G4DN_XLARGE + DISK), rel=1e-3)
    assert (answer["days"], answer["jobs"], answer["hours"]) == (30, 4, pytest.approx(sum(seconds) / 3600))


def test_the_fleet_costs_its_idle_bill_and_the_nodes_of_the_jobs(tmp_path):
    plan = json.loads(CliRunner().invoke(app, ["plan", "small", "--file", str(SMALL), "--json"]).stdout)
    cold = json.loads(CliRunner().invoke(app, ["start", "small", "--file", str(SMALL), "--json"]).stdout)["classes"][0]["cold"]
    way = found(tmp_path, [job(1, 0, 3600)])["ways"][FLEET]
    # Low: g4dn.2xlarge at the lowest spot price of spot.csv. High: g4dn.4xlarge on demand, and 10 GB of images through NAT.
    for end, name, usd, pull in ((0, "low", 0.752 * (1 - 0.63), 0), (1, "high", 1.204, 10 * 0.045)):
        hours = (cold[name] + 3600 + 600) / 3600
        expected = plan["price"]["average"]["usd"] * 24 + hours * (usd + DISK) + pull
        assert way["usd"][end] == pytest.approx(expected, rel=1e-4), "the node is up for the start, the job and the idle delay"
        assert way["waits"][0][end] == cold[name]


def test_a_job_that_comes_while_a_node_is_up_starts_warm(tmp_path):
    way = found(tmp_path, [job(1, 0, 600), job(2, 1200, 600)])["ways"][FLEET]
    assert [low for low, _ in way["waits"]] == [20, 130, 130]


def test_a_way_that_cannot_run_a_job_pays_a_vm_for_it_and_says_so(tmp_path, shared):
    answer = found(tmp_path, [job(1, 0, 3600)], **shared)
    github, vm = answer["ways"][GITHUB], answer["ways"][VM]
    assert github["usd"] == vm["usd"]
    assert github["lacks"] == {"GitHub's GPU runner has 1 T4, 4 CPU and 28 GiB": 1}
    assert not github["rival"], "the answer names a way that runs a job"


def test_jobs_in_containers_run_on_a_vm_where_the_class_has_no_containers(tmp_path):
    steps = [{"name": "Initialize containers"}]
    answer = found(tmp_path, [job(1, 0, 3600, steps=steps), job(2, 7200, 3600)])
    assert answer["ways"][FLEET]["lacks"] == {"class gpu-t4 runs no job with container or services": 1}
    assert answer["ways"][GITHUB]["lacks"] == {}


def test_what_no_way_can_be_named_for_is_left_out_and_counted(tmp_path):
    jobs = [
        job(1, 0, 60, labels=["ubuntu-latest"]),
        job(2, 0, 60, labels=["our-gpu"]),
        job(3, 0, 60, labels=[]),
        job(4, 0, 60, conclusion="skipped"),
        job(5, 0, 60),
    ]
    answer = found(tmp_path, jobs)
    assert answer["jobs"] == 1
    assert answer["left"] == {
        "skipped": 1,
        "GitHub's standard runners have their labels": 1,
        "no class of the stack has the labels our-gpu": 1,
        "a runs-on with a group alone, which GitHub does not show": 1,
    }
    mapped = found(tmp_path, jobs, "--map", "our-gpu=gpu-t4")
    assert mapped["jobs"] == 2
    assert "no class of the stack has the labels our-gpu" not in mapped["left"]


def test_without_a_job_to_compare_it_says_how_to_name_labels(tmp_path):
    result = run(written(tmp_path / "jobs.json", [job(1, 0, 60, labels=["our-gpu"])]))
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "undecided: no job of the history can be compared; see what is left out, and name the runner set"
    )
    assert "left out: 1 jobs: no class of the stack has the labels our-gpu" in result.stdout


def test_an_hour_on_a_full_node_that_costs_as_much_is_never_worth_it(tmp_path):
    answer = found(tmp_path, repository(200))
    assert answer["answer"] == "not us"
    assert "no number of GPU hours makes this fleet cheaper" in answer["why"]
    assert answer["ways"]["a VM per job, spot where this fleet has it"]["above"] == [None, None]
    best, here = answer["ways"][GITHUB]["above"]
    assert 80 < best <= here < 1000, "GitHub's runners cost more than full nodes"


def test_late_jobs_are_counted_at_both_ends(tmp_path):
    jobs = [job(at, at, 3600) for at in range(6)]
    late = {minutes: found(tmp_path, jobs, "--late", str(minutes))["ways"][FLEET]["late"] for minutes in (1, 30, 600)}
    assert late == {1: [6, 6], 30: [1, 1], 600: [0, 0]}, "the fleet holds five jobs; the sixth waits for an hour"


def test_the_replay_of_a_history_that_grows_says_from_which_hours_it_is_cheaper(tmp_path, shared):
    few, many = (found(tmp_path, repository(jobs), **shared) for jobs in (40, 8000))
    hours = few["ways"][VM]["above"][1]
    assert hours is not None
    assert few["hours"] < hours < many["hours"]
    assert few["ways"][VM]["above"][0] == pytest.approx(many["ways"][VM]["above"][0], rel=0.1)


def test_prices_have_sources_and_dates(tmp_path):
    sources = found(tmp_path, [job(1, 0, 60)])["sources"]
    assert any(source.startswith("g4dn.xlarge on-demand: 0.526 USD an hour, ") for source in sources)
    assert all(source.rsplit(", ", 1)[1][:2] == "20" for source in sources), sources


@cases(("stack", "label"), [("staging", "gpu-t4"), ("prod", "oracle-vm-gpu-a10-1"), ("homelab", "gpu-3090")])
def test_every_shipped_stack_has_an_answer(stack, label, tmp_path):
    answer = found(tmp_path, [job(1, 0, 600, labels=[label])], stack=stack, file=ROOT / f"Pulumi.{stack}.yaml")
    assert answer["answer"] in ("us", "not us", "undecided")
    assert answer["jobs"] == 1


@cases(
    ("options", "line"),
    [
        (["--period", "1"], "error: --period: the history has jobs of 2 days; write 2 or more; got 1"),
        (["--map", "gpu"], "error: --map: write LABEL=SET, such as my-gpu-runner=gpu-t4; got 'gpu'"),
        (["--map", "gpu=gpu-t5"], "error: --map: the stack has no runner set gpu-t5; did you mean gpu-t4?"),
    ],
)
def test_wrong_options_are_one_line(options, line, tmp_path):
    result = run(written(tmp_path / "jobs.json", [job(1, 0, 60), job(2, 90_000, 60)]), *options)
    assert (result.exit_code, result.stderr) == (2, f"{line}\n")


def test_a_wrong_job_names_file_row_field_and_value_in_json_too(tmp_path):
    path = written(tmp_path / "jobs.json", [{**job(1, 0, 60), "created_at": "soon"}])
    result = run(path, "--json")
    (fault,) = json.loads(result.stdout)["errors"]
    assert result.exit_code == 2
    assert (fault["file"], fault["path"], fault["value"]) == (path, "job 1.created_at", "'soon'")


def test_no_name_of_a_history_reaches_the_output_as_a_command(tmp_path):
    label = "x\n::add-mask::y"
    assert "\n::" not in run(written(tmp_path / "jobs.json", [job(1, 0, 60, labels=[label])])).stdout
