"""A cluster of a stack as a world, from nothing to nothing, and what is said of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.facts.pricing import Money
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from gpu_ci.app import app
from gpu_ci.cli import app as whole
from gpu_ci.world import parts, record
from gpu_ci.world.cloud import Usage
from gpu_ci.world.jobs import batches
from gpu_ci.world.parts import NEEDED, OPTIONAL, Parts
from gpu_ci.world.run import Options, World

assert whole is app
REFERENCE = os.environ.get("GPU_CI_REFERENCE", "")
MISSING = parts.find().missing + ([] if REFERENCE else ["GPU_CI_REFERENCE"])
RECORDS = sorted((ROOT / "docs" / "world").glob("*.json"))


def world(stack: str, cluster: str, folder: Path, programs: Parts) -> World:
    config = load(stack, ROOT)
    return World(config, fleet_of(config), cluster, Options(60, Path(REFERENCE), programs, folder, date(2026, 11, 28)))


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world("staging", "usw2", tmp_path_factory.mktemp("world"), parts.find()) as made:
        made.install()
        yield made


real = pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")


@pytest.mark.world
@pytest.mark.timeout(600)
@real
def test_jobs_end_once_and_on_their_pools_and_the_nodes_go(staging: World) -> None:
    again = staging.install()
    staging.queue(batches("36", staging.settings))
    assert staging.work(36, lambda: None), "jobs are stuck"
    assert staging.work(36, lambda: None, staging.at_least), "nodes stay"
    assert [check for check in record.checks(staging, 36, again, []) if check.against] == []
    first, second = (
        {job.started for job in staging.ended if job.scale_set and job.scale_set.name == name}
        for name in staging.settings.runners
    )
    assert len(first) == 30
    assert len(second) == 6
    spot = staging.observed.landed["gpu-t4", "t4-spot"]
    assert spot >= staging.observed.landed["gpu-t4", "t4-ondemand"], "spot is the first choice"


@pytest.mark.world
@pytest.mark.timeout(600)
@real
@pytest.mark.parametrize("seed", range(int(os.environ.get("GPU_CI_WORLD_ORDERS", "2"))))
def test_a_removal_in_any_order_leaves_the_definitions_alone(staging: World, seed: int) -> None:
    staging.install()
    left = staging.remove(Random(seed))  # noqa: S311 - no secret
    assert [text for text in left if not text.startswith(record.STAY)] == []
    assert staging.github.sets == {}, "GitHub knows no set of it any more"


# -- without the programs ----------------------------------------------------------------------------------------------


def everything(*without: str) -> Parts:
    return Parts({name: "/bin/true" for name in (*NEEDED, *OPTIONAL) if name not in without})


def test_each_part_is_real_simulated_or_missing() -> None:
    rows = {name: (kind, text) for name, kind, text in record.described(everything("kueue"), ["Job a/b", "Job a/c"])}
    assert rows["etcd"][0] == record.REAL
    assert rows["kueue"] == (record.MISSING, OPTIONAL["kueue"])
    assert rows["GitHub"][0] == record.SIMULATED
    assert rows["Job a/b, Job a/c"][0] == record.MISSING
    assert len({kind for kind, _ in rows.values()}) == 3


def test_without_a_needed_program_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["world", "staging"])
    assert done.exit_code == 2
    assert "error: programs: etcd, kube-apiserver" in done.output
    assert "gpu-ci world --get" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["world"], "STACK: is missing; name a stack, or give --get"),
        (["world", "staging", "--cluster", "usw3"], "--cluster: the stack has no cluster 'usw3'; did you mean usw2?"),
        (["world", "staging", "--jobs", "0"], "--jobs: must be 1 to 100,000"),
        (["world", "staging", "--charts", "nowhere"], "charts: nowhere lacks chart"),
        (["world", "stagin"], "staging"),
    ],
)
def test_wrong_words_are_one_error(monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.setattr(parts, "find", everything)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, done.output
    assert message in done.output


def test_versions_are_what_programs_say(tmp_path: Path) -> None:
    for name, text in {
        "etcd": "etcd Version: 3.6.14",
        "kwok": "kwok version v0.8.0 go1.26 (linux/amd64)",
        "helm": "v3.22.0+g1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (tmp_path / name).chmod(0o755)
    silent = tmp_path / "arc-manager"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    found = Parts({path.name: str(path) for path in tmp_path.iterdir()}).versions()
    assert found == {"etcd": "3.6.14", "kwok": "v0.8.0", "helm": "v3.22.0+g1"}


def test_a_bill_above_the_plan_is_found(tmp_path: Path) -> None:
    if not REFERENCE:
        pytest.skip("needs GPU_CI_REFERENCE: the charts of a world")
    made = world("staging", "usw2", tmp_path, everything())

    class Paid:
        def usage(self) -> Usage:
            return Usage({}, Money(1.0), {}, Money(self.hour))

        hour = 0.0

    paid = Paid()
    made.cloud = paid  # type: ignore[assignment]
    _, worst = record.bounds(made)
    assert worst.usd > 0
    assert record.over(made) == ""
    paid.hour = worst.usd + 0.01
    assert "USD an hour are above" in record.over(made)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_committed_record_is_of_a_shipped_stack_and_holds(path: Path) -> None:
    kept = json.loads(path.read_text())
    if "drills" in kept:
        pytest.skip("the drills have a test of their own")
    stack = load(kept["stack"], ROOT)
    assert kept["cluster"] in dict(fleet_of(stack).clusters_by_name())
    assert {*kept["checks"].values()} == {"holds"}
    assert {"etcd", "kube-apiserver", "arc-manager", "ghalistener"} <= {
        name for name, kind in kept["parts"].items() if kind == record.REAL
    }
    assert kept["versions"]["kube-apiserver"]


def test_a_wrong_chart_folder_is_named(tmp_path: Path) -> None:
    config = load("staging", ROOT)
    with pytest.raises(InputError, match="lacks chart"):
        World(config, fleet_of(config), "usw2", Options(60, tmp_path, everything(), tmp_path, date(2026, 11, 28)))
