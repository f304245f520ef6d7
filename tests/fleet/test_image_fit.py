"""Which image runs on which pool: the matrix of images/runner-gpu, the driver of the nodes and their GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.facts import hardware
from fleet.facts.versions import IMAGES, RUNNER_GPU, runner_gpu
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove.image_fit import node_driver, pinned_image, unrunnable, with_pinned_image
from fleet.prove.placement import PlacementError, place
from fleet.settings.workloads import SmokeWorkload
from tests.builders import cluster, config, existing_context, oke_cluster, oke_pool, pool, runner
from tests.cases import cases

T4 = hardware.machine("g4dn.2xlarge")
B300 = replace(T4, name="b300", gpu=hardware.machine("p6-b300.48xlarge").gpu)
TAG = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci/runner-gpu:cuda12.1-ubuntu22.04-devel-0123abc"


def test_the_compiler_of_an_image_must_know_the_gpu():
    old, new = RUNNER_GPU["cuda12.1-ubuntu22.04"].image, RUNNER_GPU["cuda12.8-ubuntu24.04"].image
    assert unrunnable(old, [T4], "580.178.04") == ""
    assert unrunnable(old, [T4, B300], "580.178.04") == (
        "its image has or builds code for compute capability 9.0 and older, the B300 of b300 has 10.3; set an image "
        "with a newer CUDA, or use another pool"
    )
    assert unrunnable(new, [B300]) == "", "code for 10.0 runs on 10.3, and 12.0 is newer than 10.3"
    assert unrunnable(IMAGES["pytorch"], [B300]) == "", "an image without a compiler"


def test_the_driver_of_the_nodes_must_be_new_enough():
    image = RUNNER_GPU["cuda12.1-ubuntu22.04"].image
    assert unrunnable(image, [T4], "525.60.13") == ""
    assert unrunnable(image, [T4], None) == "", "nothing is known"
    assert unrunnable(image, [T4], "470.256.02") == (
        "its image needs driver branch R525 or newer, the nodes have 470.256.02; set an image with an older CUDA, or use nodes "
        "with a newer driver"
    )


def test_a_workload_gets_the_first_pinned_image_that_its_pool_can_run():
    def image(shape: str, driver: str | None) -> str:
        images = oke_cluster()["nodeImages"] | {
            "oke-gpu": {"id": "ocid1.image.oc1..own", **({"driver": driver} if driver else {})}
        }
        held = oke_cluster(nodeImages=images, pools={"a10": oke_pool(instanceTypes=[shape])}, runners={})
        settings = load(config(clusters={"sjc": held})).clusters["sjc"]
        workload = SmokeWorkload.model_validate({"kind": "pytorch", "pool": "a10"})
        assert with_pinned_image(settings, workload).image == pinned_image(settings, workload).reference
        own = workload.model_copy(update={"image": "registry.example.com/own:1"})
        assert with_pinned_image(settings, own) is own
        return next(name for name, pinned in IMAGES.items() if pinned is pinned_image(settings, workload))

    assert {
        (shape, driver): image(shape, driver)
        for shape, driver in [
            ("VM.GPU.A10.1", "580.178.04"),
            ("VM.GPU.A10.1", "570.211.01"),
            ("VM.GPU.A10.1", None),
            ("VM.GPU3.1", "580.178.04"),
            ("VM.GPU2.1", "570.211.01"),
            ("BM.GPU.B200.8", "580.178.04"),
            ("BM.GPU.B200.8", "570.211.01"),
            ("VM.GPU.A10.1", "470.256.02"),
        ]
    } == {
        ("VM.GPU.A10.1", "580.178.04"): "pytorch",
        ("VM.GPU.A10.1", "570.211.01"): "pytorch-cuda12.6",
        ("VM.GPU.A10.1", None): "pytorch-cuda12.6",
        ("VM.GPU3.1", "580.178.04"): "pytorch-cuda12.6",
        ("VM.GPU2.1", "570.211.01"): "pytorch-cuda12.6",
        ("BM.GPU.B200.8", "580.178.04"): "pytorch",
        ("BM.GPU.B200.8", "570.211.01"): "pytorch-cuda12.8",
        ("VM.GPU.A10.1", "470.256.02"): "pytorch",
    }, "the last one is refused with the driver that the default needs"


def test_the_driver_is_that_of_the_node_image_or_of_the_operator():
    fleet = load(config(clusters={"usw2": cluster()}))
    assert node_driver(fleet.clusters["usw2"], "t4") == fleet.clusters["usw2"].image_driver("t4")
    operator = oke_cluster(
        enablement="gpu-operator", pools={"a10": oke_pool(image="ubuntu")}, operator={"driver": {"version": "570.195.03"}}
    )
    assert node_driver(load(config(clusters={"sjc": operator})).clusters["sjc"], "a10") == "570.195.03"
    existing = load(config(clusters={"elsewhere": existing_context()})).clusters["elsewhere"]
    assert {node_driver(existing, pool) for pool in existing.pools} == {None}, "no source names it"


@cases(
    ("reference", "row"),
    [
        (TAG, "cuda12.1-ubuntu22.04"),
        (f"{TAG}@sha256:{'0' * 64}", "cuda12.1-ubuntu22.04"),
        ("runner-gpu:cuda12.8-ubuntu24.04-base", "cuda12.8-ubuntu24.04"),
        (TAG.replace("cuda12.1", "build-cuda12.1"), "cuda12.1-ubuntu22.04"),
        (TAG.replace("cuda12.1", "cuda11.8"), None),
        (TAG.replace("/runner-gpu:", "/runner:"), None),
        (TAG.replace("/runner-gpu:", "/my-runner-gpu:"), None),
        (f"registry.example.com:5000/runner-gpu@sha256:{'0' * 64}", None),
        (None, None),
    ],
)
def test_an_image_of_ours_is_known_by_its_repository_and_tag(reference, row):
    found = runner_gpu(reference)
    assert (found.name if found else None) == row


def test_a_runner_class_whose_image_cannot_run_on_its_pool_is_refused():
    def runners(image: str):
        pools = {"b200": pool(instanceTypes=["p6-b200.48xlarge"])}
        held = cluster(pools=pools, runners={"gpu-b200": runner(pool="b200", image=image)})
        return place(load(config(clusters={"usw2": held})))

    (placement,) = runners(TAG)
    assert "has or builds code for compute capability 9.0 and older, the B200 of p6-b200.48xlarge has 10.0" in placement.error
    with pytest.raises(PlacementError, match=r"usw2\.runners\.gpu-b200: its image has"):
        require(load(config()), runners(TAG))
    assert [each.error for each in runners(TAG.replace("12.1", "12.8"))] == [""]
    assert [each.error for each in runners("registry.example.com/own:1")] == [""], "nothing is known of other images"


def test_the_image_of_the_registry_is_checked_for_classes_without_one():
    version = f"build-cuda12.1-ubuntu22.04-devel-7@sha256:{'0' * 64}"
    registry = {"account": "123456789012", "runnerImage": {"version": version}}
    held = cluster(
        pools={"b200": pool(instanceTypes=["p6-b200.48xlarge"])}, runners={"b": runner(pool="b200")}, registry=registry
    )
    (placement,) = place(load(config(clusters={"usw2": held})))
    assert "has or builds code for compute capability 9.0 and older" in placement.error
