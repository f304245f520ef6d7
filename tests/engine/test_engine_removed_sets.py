"""Runner sets of staging that leave, on the real engine: they take no job, and go once they have no pod.

A class is removed, or its set needs another registration under its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.engine import staging
from tests.engine.live import Live
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

RELEASE, QUOTA, SECRET = "kubernetes:helm.sh/v3:Release", "kubernetes:core/v1:ResourceQuota", "kubernetes:core/v1:Secret"
SPACE = "runners-gpu-t4-release"


@dataclass(frozen=True)
class Fleet:
    """Staging, deployed."""

    site: Site

    def edit(self, words: str, other: str) -> None:
        """Writes other words into the stack file."""
        text = self.site.file.read_text()
        assert re.search(words, text), words
        self.site.file.write_text(re.sub(words, other, text))

    def up(self, *options: str) -> set[str]:
        """The sets that are leaving, as the update names them."""
        return set(re.findall(r"runner set (\S+) is leaving", self.site.up(*options).text))

    def objects(self, space: str = SPACE) -> set[tuple[str, str]]:
        """What is in the namespace of a class, and the namespace itself; but for the rights of a sweep there."""
        there = [each for each in self.site.cloud.live() if each.id.split("/")[0] == space]
        return {(each.type, each.id) for each in there if ":rbac." not in each.type}

    def release(self, space: str = SPACE) -> Live:
        (release,) = self.site.cloud.live(RELEASE, lambda each: each.id.startswith(f"{space}/"))
        return release

    def count(self, pods: int, space: str = SPACE) -> None:
        """What the controller of quotas counts."""
        (quota,) = self.site.cloud.live(QUOTA, lambda each: each.id == f"{space}/runners")
        quota.outputs["status"] = {"used": {"pods": str(pods)}}

    def calls(self, kind: str) -> list[str]:
        """What the engine asked of the cloud since the last look, about resources of a type."""
        asked = [each.method for each in self.site.cloud.asked if each.type == kind and not each.preview]
        self.site.cloud.asked.clear()
        return [method for method in asked if method in ("Create", "Update", "Delete")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with staging.built(tmp_path_factory.mktemp("removed")) as site:
        site.up()
        yield Fleet(site)


def test_a_removed_class_goes_once_its_set_takes_no_job_and_has_no_pod(fleet: Fleet) -> None:
    before, values = fleet.objects(), dict(fleet.release().inputs["values"])
    assert len(before) >= 6
    fleet.count(0)
    fleet.edit(r"        gpu-t4-release:\n(          .*\n)+", "")
    preview = fleet.site.cli(*staging.PREVIEW)
    assert preview.status == 0, preview.text[-3000:]
    assert fleet.up() == {"gpu-t4-release"}, "a job may have come until this update"
    assert fleet.objects() == before
    assert fleet.release().inputs["values"] == values | {"minRunners": 0, "maxRunners": 0}
    assert staging.CLEAR not in fleet.site.deployment().export
    fleet.count(2)
    assert fleet.up("--expect-no-changes") == {"gpu-t4-release"}, "as long as it has pods"
    assert fleet.objects() == before

    fleet.count(0)
    fleet.site.cloud.asked.clear()
    assert fleet.up() == set()
    assert fleet.objects() == set()
    gone = [each.type for each in fleet.site.cloud.asked if each.method == "Delete" and not each.preview]
    ours = [kind for kind in gone if kind in {kind for kind, _ in before}]
    assert (ours[0], ours[-1]) == (RELEASE, "kubernetes:core/v1:Namespace"), "ARC needs the Secret until the set is gone"
    assert fleet.up("--expect-no-changes") == set()
    assert "generations" in fleet.site.deployment().export
    assert "usw2/gpu-t4-release" not in fleet.site.deployment().export


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("https://github.com/example", "https://ghes.example.com/example"),
        (r"labels: \[self-hosted, linux, x64, gpu, cuda\]", "labels: [cuda-12, gpu]"),
    ],
)
def test_a_set_is_registered_again_under_its_name_once_it_takes_no_job_and_has_no_pod(
    fleet: Fleet, words: str, other: str
) -> None:
    space = "runners-gpu-t4"
    before, values, file = fleet.objects(space), dict(fleet.release(space).inputs["values"]), fleet.site.file.read_text()
    spaces = {each.id.split("/")[0] for each in fleet.site.cloud.live(RELEASE) if each.id.startswith("runners-")}
    for each in spaces:
        fleet.count(0, each)
    fleet.edit(words, other)
    assert "gpu-t4" in fleet.up(), "a job may have come until this update"
    assert fleet.objects(space) == before
    assert fleet.release(space).inputs["values"] == values | {"minRunners": 0, "maxRunners": 0}

    edited = fleet.site.file.read_text()
    fleet.site.file.write_text(file)
    fleet.calls(RELEASE)
    assert fleet.up() == set()
    assert {*fleet.calls(RELEASE)} == {"Update"}, "an edit that is taken back replaces nothing"
    assert fleet.release(space).inputs["values"] == values
    fleet.site.file.write_text(edited)
    assert "gpu-t4" in fleet.up()
    fleet.count(2, space)
    fleet.calls(RELEASE)
    assert "gpu-t4" in fleet.up()
    fleet.count(0, space)
    assert fleet.objects(space) == before

    fleet.calls(RELEASE)
    assert fleet.up() == set()
    calls = fleet.calls(RELEASE)
    assert calls.count("Delete") == calls.count("Create") >= 1
    again = fleet.release(space).inputs["values"]
    assert again["maxRunners"] == values["maxRunners"] > 0
    assert (again["githubConfigUrl"], again["scaleSetLabels"]) != (values["githubConfigUrl"], values["scaleSetLabels"])
    assert fleet.objects(space) == before
    assert fleet.up("--expect-no-changes") == set()
    assert staging.CLEAR not in fleet.site.deployment().export
