"""The jobs of a run: a number for all classes, or a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from fleet.loading.config import load
from gpu_ci.world.jobs import batches
from tests.builders import cluster, config, runner

CLASSES = {"gpu-t4": runner(scale={"max": 10}), "gpu-t4-release": runner(scale={"max": 2})}
FLEET = load(config(clusters={"usw2": cluster(runners=CLASSES)})).clusters["usw2"]


@pytest.mark.parametrize("count", [1, 2, 11, 1000])
def test_a_number_is_shared_by_the_most_runners_of_each_class(count: int) -> None:
    found = {batch.runs_on[0]: batch.count for batch in batches(str(count), FLEET)}
    assert sum(found.values()) == count
    assert found.get("gpu-t4-release", 0) == count * 2 // 12


def test_a_file_has_batches_with_times(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs:\n- {runsOn: [self-hosted, gpu], count: 3, takes: 10m, at: 5m}\n- {runsOn: [gpu-t4]}\n")
    first, second = batches(str(file), FLEET)
    assert (first.runs_on, first.count, first.takes, first.at) == (("self-hosted", "gpu"), 3, 600, 300)
    assert (second.count, second.takes, second.at) == (1, 60, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: [{runsOn: [a], cuont: 3}]", "jobs.0.cuont: unknown key"),
        ("jobs: [{runsOn: [a], takes: 10}]", "a duration is a whole number with its unit"),
        ("jobs: [{runsOn: []}]", "jobs.0.runsOn"),
        ("[1]", "must have the key jobs"),
        ("{", "jobs.yaml"),
    ],
)
def test_a_wrong_file_is_one_error(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"--jobs|jobs\.yaml") as caught:
        batches(str(file), FLEET)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"), [("0", "must be 1 to 100,000"), ("100001", "100,000"), ("none.yaml", "cannot be read")]
)
def test_a_wrong_number_or_path_is_one_error(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        batches(text, FLEET)


def test_a_cluster_without_classes_takes_no_jobs() -> None:
    with pytest.raises(InputError, match="no runner class"):
        batches("1", load(config(clusters={"usw2": cluster(runners={})})).clusters["usw2"])
