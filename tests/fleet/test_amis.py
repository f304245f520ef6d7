"""Node images of one's own: which release they start from, what a plan says of them, and the document that builds them."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pydantic import TypeAdapter

from fleet.facts import eks_images, versions
from fleet.facts.yaml_text import kubernetes_documents
from fleet.loading.config import load
from fleet.prove.bill import lines as lines_of
from fleet.providers.eks.ami import GpuAmi
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.recipe.recipe import document, recipe
from tests.builders import cluster, config, pool, runner
from tests.cases import cases

DIGEST = "sha256:" + "a" * 64
BUILT = {"id": "ami-0123456789abcdef0", "release": "1.34.9-20260714"}


def ami(**changes: Any) -> GpuAmi:
    """The settings of an image that a g4dn.xlarge builds."""
    return TypeAdapter(GpuAmi).validate_json(json.dumps({"buildType": "g4dn.xlarge"} | changes))


def held(*, minor: str = "1.34", of_pool: dict[str, Any] | None = None, **changes: Any) -> EksCluster:
    """A cluster whose pool t4 uses the image gpu, with these changes of the image."""
    image = {"buildType": "g4dn.xlarge"} | changes
    pools = {"t4": pool(**{"ami": "gpu"} | (of_pool or {}))}
    settings = cluster(kubernetesVersion=minor, amis={"gpu": image}, pools=pools, runners={"gpu-t4": runner()})
    found = load(config(clusters={"usw2": settings})).clusters["usw2"]
    assert isinstance(found, EksCluster)
    return found


def remarks(found: EksCluster) -> list[str]:
    return [remark for remark in found.remarks if remark.startswith(("ami gpu", "pool t4")) and "local NVMe" not in remark]


@pytest.fixture
def rows_of_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables as they were on one day, so that a newer node image breaks no test."""
    of = {"1.34": "1.34.9-20260714", "1.35": "1.35.8-20260923", "1.36": "1.36.3-20260911"}
    images = {name: image for name, image in eks_images.EKS_IMAGES.items() if eks_images.build_of(name) <= "20260923"}
    monkeypatch.setattr(eks_images, "EKS_IMAGES", images)
    for minor, release in of.items():
        image = images[release]
        toolkit = image.toolkit and image.toolkit.partition("-")[0]
        row = replace(versions.KUBERNETES[minor], ami_release=release, driver=image.driver, toolkit=toolkit)
        monkeypatch.setitem(versions.KUBERNETES, minor, row)


on_that_day = pytest.mark.usefixtures("rows_of_a_day")


# -- the release -------------------------------------------------------------------------------------------------------


def test_the_table_has_the_driver_of_each_pinned_release() -> None:
    for minor, row in versions.KUBERNETES.items():
        assert eks_images.driver_of(row.ami_release) == row.driver, f"{minor}: the two tables name different drivers"


def test_releases_of_a_minor_stand_oldest_first_and_none_panics() -> None:
    builds = [(eks_images.minor_of(release), eks_images.build_of(release)) for release in eks_images.EKS_IMAGES]
    assert builds == sorted(builds)
    assert not {build for _, build in builds} & set(eks_images.BAD_BUILDS)


@on_that_day
@cases(
    ("minor", "changes", "release"),
    [
        ("1.34", {}, "1.34.9-20260714"),
        ("1.35", {}, "1.35.8-20260923"),
        ("1.35", {"driverBranch": 580}, "1.35.6-20260714"),
        ("1.35", {"driverBranch": 595}, "1.35.8-20260923"),
        ("1.36", {"release": "1.36.1-20260610", "driverBranch": 580}, "1.36.1-20260610"),
    ],
)
def test_the_branch_of_the_driver_selects_the_newest_release_that_has_it(
    minor: str, changes: dict[str, Any], release: str
) -> None:
    assert ami(**changes).base(minor) == release


def test_the_parameter_of_a_release_is_the_one_that_aws_publishes() -> None:
    assert eks_images.parameter("1.36.3-20260911") == (
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/"
        "amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260911/image_id"
    )


# -- what a plan says --------------------------------------------------------------------------------------------------


@on_that_day
def test_an_image_without_id_is_not_built_and_its_pool_runs_aws_image() -> None:
    found = held()
    assert found.image_id("t4") is None
    assert remarks(found) == [
        "ami gpu: not built; run its pipeline and write built (docs/ami.md#build); until then pool t4 runs AWS' image "
        "1.34.9-20260714"
    ]


@on_that_day
def test_a_built_image_is_what_its_pool_runs_and_its_release_names_the_driver() -> None:
    found = held(minor="1.35", built={"id": "ami-0123456789abcdef0", "release": "1.35.6-20260714"})
    assert found.image_id("t4") == "ami-0123456789abcdef0"
    assert (found.kubernetes.driver, found.image_driver("t4")) == ("595.91.07", "580.159.03")
    assert remarks(found) == []


def test_a_pool_may_name_an_image_by_its_id_whose_driver_nobody_knows() -> None:
    found = held(of_pool={"ami": "ami-0fedcba987654321f"})
    assert found.image_id("t4") == "ami-0fedcba987654321f"
    assert found.image_driver("t4") is None
    (unbuilt, unknown) = remarks(found)
    assert unbuilt == "ami gpu: not built; run its pipeline and write built (docs/ami.md#build)"
    assert unknown.endswith("run nvidia-smi on a node of ami-0fedcba987654321f first")


@on_that_day
def test_the_pinned_toolkit_makes_cdi_determinable() -> None:
    def said(**changes: Any) -> list[str]:
        return [remark for remark in held(minor="1.36", of_pool={"cdi": True}, **changes).remarks if "cdi is" in remark]

    assert len(said()) == 1, "no source names the toolkit of AWS' image for 1.36"
    assert said(built={"id": "ami-0123456789abcdef0", "release": "1.36.3-20260911"}) == []


def test_an_unknown_release_without_a_branch_is_a_remark() -> None:
    (_, remark) = remarks(held(release="1.34.99-20261101"))
    assert remark == (
        "ami gpu: no source names the driver of release 1.34.99-20261101; write driverBranch, so that the plan checks the GPUs "
        "of its pools and the build the driver"
    )


def test_the_bill_has_the_snapshots_of_built_images_alone() -> None:
    def lines(**changes: Any) -> list[tuple[str, float, float]]:
        found = lines_of("usw2", held(**changes), date(2026, 11, 23))
        return [(line.what, line.least, line.most) for line in found if line.item == "AMI gpu"]

    assert lines() == []
    # The image in use may be older than the two that stay.
    assert lines(built=BUILT, disk="60Gi", keep=2, regions=["us-east-1"]) == [
        ("snapshots of its images, GiB at most", 120.0, 360.0)
    ]


# -- the document ------------------------------------------------------------------------------------------------------


def parsed(image: GpuAmi, minor: str = "1.34") -> dict[str, Any]:
    (found,) = kubernetes_documents("component", document("gpu", image, minor))
    assert isinstance(found.value, dict)
    return found.value


def scripts(image: GpuAmi, minor: str = "1.34") -> dict[str, str]:
    """The script of each step."""
    return {
        step["name"]: "\n".join(step["inputs"]["commands"]) for phase in parsed(image, minor)["phases"] for step in phase["steps"]
    }


def test_the_document_has_the_phases_and_steps_of_awstoe() -> None:
    found = parsed(ami(prePull=[f"registry.example.com/ci@{DIGEST}"]))
    assert found["schemaVersion"] == 1.0
    assert [(phase["name"], [step["name"] for step in phase["steps"]]) for phase in found["phases"]] == [
        ("build", ["install", "pull", "reset"]),
        ("validate", ["validate"]),
        ("test", ["test"]),
    ], "the test boots the image on a GPU before it is released"
    for phase in found["phases"]:
        for step in phase["steps"]:
            assert set(step) == {"name", "action", "inputs"}
            assert step["action"] == "ExecuteBash"
            assert list(step["inputs"]) == ["commands"]


def test_an_image_without_containers_pulls_none() -> None:
    assert list(scripts(ami())) == ["install", "reset", "validate", "test"]


def test_the_longest_document_fits_the_api() -> None:
    image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/{'x' * 60}"
    longest = ami(prePull=[f"{image}{index}@{DIGEST}" for index in range(20)])
    # EC2 Image Builder API, CreateComponent: the longest document.
    assert len(document("gpu", longest, "1.34")) <= 16_000


def test_every_script_stops_at_an_error_is_bash_and_has_no_variable_of_awstoe() -> None:
    for name, script in scripts(ami(prePull=[f"registry.example.com/ci@{DIGEST}"])).items():
        assert script.startswith("set -euo pipefail\n"), name
        assert "{{" not in script, f"{name}: AWSTOE replaces {{{{ … }}}}"
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)  # noqa: S607 - the system's bash
        for variable in set(re.findall(r"\$\{?([A-Z]+)\b", script)) - {"BASH_REMATCH"}:
            assert f'\n{variable}="' in script, f"{name}: {variable} is not set"


def test_the_image_gets_what_the_guides_has() -> None:
    """Seed 000: NVIDIA's driver, the container runtime, nvtop, persistence mode."""
    found = scripts(ami(toolkit="1.18.2-1"))
    install, test = found["install"], found["test"]
    assert 'TOOLKIT="1.18.2-1"' in install
    assert "dnf versionlock" in install, "an update of a node would move the toolkit"
    assert "dnf install -y nvtop\n" in install
    assert "datacenter-gpu-manager-4-cuda$cuda" in install
    assert "systemctl enable nvidia-persistenced\n" in install
    for check in ("\nnvidia-smi\n", "persistence_mode", "nvtop --version", "dcgmi diag --run 1", "nvidia-ctk --version"):
        assert check in test, f"the test on a GPU lacks {check}"


@on_that_day
@pytest.mark.parametrize(
    ("changes", "driver"),
    [
        ({}, "580.159.03"),
        ({"release": "1.34.99-20261101", "driverBranch": 595}, "595."),
        ({"release": "1.34.99-20261101"}, ""),
    ],
)
def test_the_test_asks_for_the_driver_that_the_plan_counted_with(changes: dict[str, Any], driver: str) -> None:
    assert f'\nDRIVER="{driver}"\n' in scripts(ami(**changes))["test"]


def test_the_kernel_module_of_the_machine_that_builds_stays_out_of_the_image() -> None:
    found = scripts(ami())
    assert "kmod-util remove" in found["reset"]
    assert "nvidia-disable-gsp.conf" in found["reset"], "g4dn and g5 need it, and other GPUs fail with it"
    assert "dkms status" in found["validate"]


def test_an_image_is_pulled_by_digest_without_its_tag() -> None:
    found = scripts(ami(prePull=[f"registry.example.com:5000/team/ci:1.2@{DIGEST}", f"docker.io/x/y@{DIGEST}"]))
    names = f'IMAGES="registry.example.com:5000/team/ci@{DIGEST} docker.io/x/y@{DIGEST}"'
    assert names in found["pull"], "kubelet looks for the name without the tag"
    assert names in found["test"]


def test_a_recipe_has_another_version_for_each_content() -> None:
    images = [ami(), ami(disk="60Gi"), ami(toolkit="1.18.2-1"), ami(release="1.34.9-20260625"), ami(keep=9)]
    found = [recipe("gpu", image, "1.34")[2] for image in images]
    assert found[0] == found[4], "a setting outside the image changes no recipe"
    assert len(set(found)) == 4
    assert all(re.fullmatch(r"1\.0\.[0-9]+", version) and int(version.split(".")[2]) < 2**30 for version in found)
