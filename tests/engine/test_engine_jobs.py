"""A finished Job of the stack runs once: a refresh and an upgrade do not run it again, a changed setting does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from gpu_ci.offline import wire
from tests.day import AS_OF
from tests.engine.cli import ROOT, STACK_FILE, Cli, copy_project, environment
from tests.engine.provider import Provider, attach

pytestmark = pytest.mark.engine

STACK = "existing-eks"
KEY = "gpu-ci:githubPrivateKey"
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
FORCE_NEW = ("completions", "parallelism", "selector", "template")
"""Fields of a Job's spec whose change the provider answers with a replacement (pulumi-kubernetes at 94977969,
provider/pkg/provider/diff.go). It updates the others in place."""
Change = provider_pb2.PropertyDiff


class Kubernetes(Provider):
    """The simulated cluster: its Jobs finish at once, and it deletes those whose time to live has ended."""

    def __init__(self) -> None:
        super().__init__("kubernetes")
        self.deleted: set[str] = set()
        """Ids of objects that no longer exist."""
        self._times: dict[str, object] = {}

    def a_day_later(self) -> None:
        """Deletes every Job with a time to live."""
        self.deleted |= {identity for identity, seconds in self._times.items() if seconds is not None}

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name, as below
        """As everywhere. A deleted object exists again."""
        created = super().Create(request, context)
        if _is_job(request) and not request.preview:
            self._times[created.id] = _time(request.properties)
            self.deleted.discard(created.id)
        return created

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        """As everywhere. A Job may lose its time to live."""
        if _is_job(request) and not request.preview:
            self._times[request.id] = _time(request.news)
        return super().Update(request, context)

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Nothing for a deleted object."""
        return provider_pb2.ReadResponse() if request.id in self.deleted else super().Read(request, context)

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Which properties of a Job changed, and whether that replaces it. Other objects as everywhere."""
        answer = super().Diff(request, context)
        if not _is_job(request):
            return answer
        old, new = _properties(request.old_inputs), _properties(request.news)
        for part in ("spec", "metadata"):
            for name in old[part].keys() | new[part].keys():
                if old[part].get(name) != new[part].get(name):
                    replaces = part == "spec" and name in FORCE_NEW
                    answer.detailedDiff[f"{part}.{name}"].kind = Change.UPDATE_REPLACE if replaces else Change.UPDATE
        answer.hasDetailedDiff = True
        return answer


def _is_job(request: Any) -> bool:
    return f"${JOB}::" in request.urn


def _time(inputs: Any) -> object:
    """The time to live in seconds, if the Job has one."""
    return _properties(inputs)["spec"].get(TTL)


def _properties(inputs: Any) -> dict[str, Any]:
    return dict(wire.raw(inputs))


@dataclass(frozen=True)
class Site:
    """The example's project with a Job and a workload that is a Job, deployed."""

    cli: Cli
    cluster: Kubernetes

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

    @property
    def jobs(self) -> list[str]:
        """The ids of the Jobs in the state."""
        return [resource["id"] for resource in self.state["deployment"]["resources"] if resource["type"] == JOB]

    def change(self, before: str, after: str) -> None:
        file = self.cli.folder / STACK_FILE.format(STACK)
        text = file.read_text()
        assert text.count(before) == 1
        file.write_text(text.replace(before, after))


@pytest.fixture
def site(tmp_path: Any) -> Iterator[Site]:
    folder = copy_project(tmp_path / "project")
    shutil.copy(ROOT / "examples" / STACK_FILE.format(STACK), folder)
    with Provider("aws") as aws, Kubernetes() as cluster:
        home = environment(tmp_path / "home", attach({"aws": aws, "kubernetes": cluster}))
        cli = Cli(folder, home | {"GPU_CI_AS_OF": AS_OF.isoformat()})
        built = Site(cli, cluster)
        built.change("      runners:\n", JOBS)
        cli.ok("stack", "init", STACK, "--secrets-provider", "passphrase")
        cli.ok("config", "set", "--stack", STACK, "--secret", KEY, given="a key")
        assert sorted(built.up()) == [("Create", "usw2-smi-job"), ("Create", "usw2-train-job")]
        yield built


def test_a_finished_job_is_not_run_again_and_a_changed_one_is_run_once(site: Site) -> None:
    site.cluster.a_day_later()
    assert site.up() == []
    site.change("train:1.0.0", "train:1.0.1")
    assert site.up() == [("Delete", "usw2-train-job"), ("Create", "usw2-train-job")]
    site.cluster.a_day_later()
    assert site.up() == []
    site.cluster.deleted |= {identity for identity in site.jobs if "train" in identity}
    assert site.up() == [("Create", "usw2-train-job")], "a deleted Job is run again, on purpose"


def test_an_upgrade_from_0_1_0_takes_the_time_to_live_away_and_runs_nothing(site: Site) -> None:
    older = site.state
    for resource in older["deployment"]["resources"]:
        if resource["type"] == JOB:
            for properties in (resource["inputs"], resource["outputs"]):
                properties["spec"][TTL] = 3600
    site.cli.ok("stack", "import", "--stack", STACK, given=json.dumps(older))
    assert sorted(site.up()) == [("Update", "usw2-smi-job"), ("Update", "usw2-train-job")]
    site.cluster.a_day_later()
    assert site.up() == []
