"""A finished Job of the stack runs once: a refresh and an upgrade do not run it again, a changed setting does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.live import Live
from tests.engine.provider import Provider, providers

pytestmark = pytest.mark.engine

STACK = staging.EXISTING
JOB = "kubernetes:batch/v1:Job"
TTL = "ttlSecondsAfterFinished"
JOBS = """\
      jobs:
        train:
          namespace: research
          pool: t4-release
          image: ghcr.io/example/train:1.0.0
          command: [python, train.py]
      workloads:
        smi: {kind: nvidia-smi, pool: t4-release, namespace: research}
      runners:
"""


@dataclass(frozen=True)
class Site:
    """The example's project with a Job and a workload that is a Job, deployed."""

    cli: Cli
    cluster: Provider

    @property
    def live(self) -> list[Live]:
        """The Jobs in the cluster. They finish at once."""
        return self.cluster.cloud.live(JOB)

    def a_day_later(self) -> None:
        """The cluster deletes every Job with a time to live."""
        for job in self.live:
            if job.inputs["spec"].get(TTL) is not None:
                self.cluster.cloud.remove(job)

    def up(self) -> list[tuple[str, str]]:
        """Updates the stack, with the refresh that Pulumi.yaml demands. Returns what happened to Jobs."""
        self.cluster.asked.clear()
        self.cli.ok("up", "--stack", STACK, "--yes", "--skip-preview", "--suppress-progress")
        done = [call for call in self.cluster.asked if call.type == JOB and call.method in ("Create", "Update", "Delete")]
        return [(call.method, call.urn.rpartition("::")[2]) for call in done]

    @property
    def state(self) -> dict[str, Any]:
        exported: dict[str, Any] = json.loads(self.cli.ok("stack", "export", "--stack", STACK).out)
        return exported

    def change(self, before: str, after: str) -> None:
        file = self.cli.folder / STACK_FILE.format(STACK)
        text = file.read_text()
        assert text.count(before) == 1
        file.write_text(text.replace(before, after))


@pytest.fixture
def site(tmp_path: Any) -> Iterator[Site]:
    with providers(("aws", "kubernetes")) as serving:
        cli = staging.existing(tmp_path, serving)
        built = Site(cli, serving["kubernetes"])
        built.change("      runners:\n", JOBS)
        assert sorted(built.up()) == [("Create", "usw2-smi-job"), ("Create", "usw2-train-job")]
        yield built


def test_a_finished_job_is_not_run_again_and_a_changed_one_is_run_once(site: Site) -> None:
    site.a_day_later()
    assert site.up() == []
    site.change("train:1.0.0", "train:1.0.1")
    assert site.up() == [("Delete", "usw2-train-job"), ("Create", "usw2-train-job")]
    site.a_day_later()
    assert site.up() == []
    (train,) = (job for job in site.live if "train" in job.id)
    site.cluster.cloud.remove(train)
    assert site.up() == [("Create", "usw2-train-job")], "a deleted Job is run again, on purpose"


def test_an_upgrade_from_0_1_0_takes_the_time_to_live_away_and_runs_nothing(site: Site) -> None:
    older = site.state
    for resource in older["deployment"]["resources"]:
        if resource["type"] == JOB:
            for properties in (resource["inputs"], resource["outputs"]):
                properties["spec"][TTL] = 3600
    for job in site.live:
        job.change(f"spec.{TTL}", 3600)
    site.cli.ok("stack", "import", "--stack", STACK, given=json.dumps(older))
    assert sorted(site.up()) == [("Update", "usw2-smi-job"), ("Update", "usw2-train-job")]
    site.a_day_later()
    assert site.up() == []
