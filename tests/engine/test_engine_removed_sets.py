"""A runner class that is removed from staging, on the real engine: its set takes no job, and goes once it has no pod."""

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

    def remove(self) -> None:
        """Removes the class `gpu-t4-release`."""
        text = self.site.file.read_text()
        self.site.file.write_text(re.sub(r"        gpu-t4-release:\n(          .*\n)+", "", text))

    def up(self, *options: str) -> set[str]:
        """The sets that are leaving, as the update names them."""
        return set(re.findall(r"runner set (\S+) is leaving", self.site.up(*options).text))

    def objects(self) -> set[tuple[str, str]]:
        """What is in the namespace of the class, and the namespace itself; but for the rights of a sweep there."""
        there = [each for each in self.site.cloud.live() if each.id.split("/")[0] == SPACE]
        return {(each.type, each.id) for each in there if ":rbac." not in each.type}

    def release(self) -> Live:
        (release,) = self.site.cloud.live(RELEASE, lambda each: each.id.startswith(f"{SPACE}/"))
        return release

    def count(self, pods: int) -> None:
        """What the controller of quotas counts."""
        (quota,) = self.site.cloud.live(QUOTA, lambda each: each.id == f"{SPACE}/runners")
        quota.outputs["status"] = {"used": {"pods": str(pods)}}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with staging.built(tmp_path_factory.mktemp("removed")) as site:
        site.up()
        yield Fleet(site)


def test_a_removed_class_goes_once_its_set_takes_no_job_and_has_no_pod(fleet: Fleet) -> None:
    before, values = fleet.objects(), dict(fleet.release().inputs["values"])
    assert len(before) >= 6
    fleet.count(0)
    fleet.remove()
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
