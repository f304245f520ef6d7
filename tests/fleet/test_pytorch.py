"""Releases of PyTorch, the remark on images whose CUDA they are not published for, and the table of the page."""

from __future__ import annotations

import re
from datetime import date, timedelta

from fleet.facts.versions import IMAGES, RUNNER_GPU, image_cuda
from fleet.loading.config import load
from fleet.prove.image_fit import BUILDS, current, last_release, remarks
from tests.builders import ROOT, cluster, config, existing_context, pool, runner
from tests.cases import cases

OURS = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci/runner-gpu:cuda{}-devel-0123abc"
RELEASES = {build.release: build.released for build in BUILDS}
LAST_DAY = date(2026, 12, 31)


def test_releases_are_in_order_and_each_has_one_default() -> None:
    assert list(RELEASES.values()) == sorted(RELEASES.values())
    for release in RELEASES:
        builds = [build for build in BUILDS if build.release == release]
        assert sum(build.default for build in builds) == 1, release
        assert [build.cuda for build in builds] == sorted({build.cuda for build in builds}), release
        drivers = {(build.cuda.partition(".")[0], build.image.least_driver) for build in builds}
        assert drivers <= {("12", 525), ("13", 580)}, release


def test_a_release_counts_from_its_day_on() -> None:
    for before, (release, day) in zip(["", *RELEASES], RELEASES.items(), strict=False):
        assert {build.release for build in current(day)} == {release}
        assert {build.release for build in current(day - timedelta(days=1))} == ({before} if before else set())
    assert last_release("12.8", RELEASES["2.10"]) == "2.10"
    assert last_release("12.8", LAST_DAY) == "2.11", "pytorch/pytorch#178665"
    assert last_release("12.6", LAST_DAY) == "2.14", "pytorch/pytorch#190385"
    assert last_release("13.1", LAST_DAY) == ""


@cases(
    ("reference", "cuda"),
    [
        (OURS.format("12.1-ubuntu22.04"), "12.1"),
        (OURS.format("13.2-ubuntu24.04") + f"@sha256:{'0' * 64}", "13.2"),
        (RUNNER_GPU["cuda12.4-ubuntu22.04"].devel, "12.4"),
        (IMAGES["pytorch"].reference, "13.2"),
        ("registry.example.com:5000/cuda:12.8", "12.8"),
        ("registry.example.com/team/tool:7-cuda11.8", "11.8"),
        ("registry.example.com/cuda12.1/tool:7", ""),
        (f"registry.example.com/cuda@sha256:{'0' * 64}", ""),
        ("ghcr.io/actions/actions-runner:2.338.0", ""),
        (None, ""),
    ],
)
def test_an_image_names_its_cuda_in_its_tag(reference: str | None, cuda: str) -> None:
    assert image_cuda(reference) == cuda


def told(image: str, day: date, *types: str) -> list[str]:
    held = cluster(
        pools={"one": pool(instanceTypes=list(types or ["g4dn.2xlarge"]))}, runners={"gpu": runner(pool="one", image=image)}
    )
    return list(remarks(load(config(clusters={"usw2": held})), day))


def test_an_image_without_a_current_pytorch_has_a_remark_from_the_release_on() -> None:
    image, day = OURS.format("12.8-ubuntu24.04"), RELEASES["2.12"]
    assert told(image, day - timedelta(days=1)) == []
    assert told(image, day) == [
        "usw2/gpu: its image has CUDA 12.8: PyTorch 2.11 was the last release for it, and PyTorch 2.12 is for CUDA 12.6 and 13.0 "
        "and 13.2; to build that release, use make image CUDA=13.0 UBUNTU=24.04 (docs/runner-image.md#pytorch)"
    ]
    assert "use make image CUDA=13.2 UBUNTU=24.04" in told(image, RELEASES["2.15"])[0]
    assert told(OURS.format("13.2-ubuntu24.04"), LAST_DAY) == []
    assert told("registry.example.com/tool:13.1-cuda13.1", LAST_DAY)[0].startswith(
        "usw2/gpu: its image has CUDA 13.1: no release of PyTorch is for it, and PyTorch 2.15"
    )
    assert told(image, RELEASES["2.4"] - timedelta(days=1)) == [], "the table knows no release of that day"


def test_the_advice_fits_the_pools_of_the_class() -> None:
    volta = told(OURS.format("12.4-ubuntu22.04"), RELEASES["2.14"], "p3.2xlarge")
    assert "use an image with CUDA 12.6" in volta[0]
    assert (
        "none of its builds runs on the pools of this class" in told(OURS.format("12.4-ubuntu22.04"), LAST_DAY, "p3.2xlarge")[0]
    )


def test_a_class_without_an_image_has_no_remark() -> None:
    assert list(remarks(load(config(clusters={"usw2": cluster()})), LAST_DAY)) == []
    assert list(remarks(load(config(clusters={"there": existing_context()})), LAST_DAY)) == []


def test_the_page_has_each_release() -> None:
    page = (ROOT / "docs" / "runner-image.md").read_text()
    rows = re.findall(r"^\| (2\.\d+) \| (\d{4}-\d\d-\d\d) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [
        (
            release,
            str(day),
            ", ".join(build.cuda for build in BUILDS if build.release == release),
            next(build.cuda for build in BUILDS if build.release == release and build.default),
        )
        for release, day in reversed(RELEASES.items())
    ]
