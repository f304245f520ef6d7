"""The values that seed 000 spells out, held against the staging stack and the right-size example."""

from __future__ import annotations

import tomllib
from itertools import chain
from pathlib import Path

import pytest

from fleet import charts, hardware, placement, settings, versions
from fleet.pool import Pool
from fleet.scheduling import GPU_RESOURCE, GPU_TOLERATION, Effect, Taint
from tests.builders import ROOT, pool_of, read_stack, runner_of, staging

EXAMPLE = ROOT / "examples" / "Pulumi.right-size.yaml"
USW2 = staging().clusters["usw2"]
SET = USW2.runners["gpu-t4"]
POD = charts.runner_set("gpu-t4", SET, "https://github.com/example", "gpu").values["template"]["spec"]


def right_size() -> dict[str, Pool]:
    pools: dict[str, Pool] = settings.load(read_stack(EXAMPLE)).clusters["usw2"].pools
    return pools


def test_the_default_set_is_reached_by_the_guides_labels():
    assert SET.labels == ("self-hosted", "linux", "x64", "gpu", "cuda")


def test_a_runner_asks_and_is_limited_as_in_the_guide():
    resources = POD["containers"][0]["resources"]
    guide = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"cpu": "8", "memory": "32Gi"}}
    for kind, amounts in guide.items():
        held = {name: str(amount) for name, amount in resources[kind].items()}
        assert held.items() >= {**amounts, GPU_RESOURCE: "1"}.items(), kind


def test_the_default_image_is_pinned_by_digest_and_a_set_may_have_its_own():
    assert POD["containers"][0]["image"] == versions.RUNNER_IMAGE
    assert "@sha256:" in versions.RUNNER_IMAGE, "a tag may change under a running fleet"
    own = runner_of(image="123456789012.dkr.ecr.us-west-2.amazonaws.com/runner-gpu:1")
    values = charts.runner_set("own", own, "https://github.com/example", "gpu").values
    assert values["template"]["spec"]["containers"][0]["image"] == own.image


def test_a_runner_tolerates_the_guides_taint():
    assert POD["tolerations"] == [GPU_TOLERATION.manifest()]
    assert GPU_TOLERATION.covers(Taint("nvidia.com/gpu", "true", Effect.NO_SCHEDULE))


def test_runners_and_nodes_scale_between_the_guides_bounds():
    nodes = USW2.pools["t4-spot"].nodes
    assert (SET.scale.min, SET.scale.max) == (0, 10)
    assert (nodes.min, nodes.max) == (0, 5)


def test_an_idle_node_may_wait_as_long_as_either_delay_of_the_guide():
    assert USW2.pools["t4-spot"].idle_delay == 300
    assert pool_of(idleDelay="1m").idle_delay == 60


def test_the_burst_pool_is_spot_over_two_sizes_of_g4dn():
    pool = USW2.pools["t4-spot"]
    assert pool.capacity == "spot"
    assert pool.instance_types == ("g4dn.2xlarge", "g4dn.4xlarge")


def test_the_guides_runner_needs_more_than_the_guides_default_type():
    host = placement.pool_host(USW2, "t4-spot")
    assert placement.fit(SET, hardware.machine("g4dn.xlarge"), host).count == 0, "or the guide's default would do after all"
    assert placement.fit(SET, hardware.machine("g4dn.2xlarge"), host).count == 1


@pytest.mark.parametrize(
    ("pool", "machine", "gpus", "gpu", "vcpus", "memory", "use"),
    [
        ("t4-small", "g4dn.xlarge", 1, "T4", 4, 16, "Small builds, testing"),
        ("t4-medium", "g4dn.2xlarge", 1, "T4", 8, 32, "Medium builds"),
        ("v100", "p3.2xlarge", 1, "V100", 8, 61, "Training, large builds"),
        ("a100", "p4d.24xlarge", 8, "A100", 96, 1152, "Large-scale training"),
    ],
)
def test_the_example_has_the_guides_table_of_types(pool, machine, gpus, gpu, vcpus, memory, use):
    (found,) = right_size()[pool].machines
    assert (found.name, found.gpus, found.vcpus) == (machine, gpus, vcpus)
    assert found.gpu is not None
    assert found.gpu.name == gpu
    assert found.memory_mib == memory * 1024
    assert f"# {use}" in EXAMPLE.read_text(), "the example says what the pool is for"


@pytest.mark.parametrize("prefix", ["g4dn.", "p3.", "p4d."])
def test_the_guides_families_are_known(prefix):
    assert [machine for machine in hardware.machines("aws") if machine.name.startswith(prefix)]


def test_every_pool_has_a_gpu_that_the_driver_of_the_node_image_drives():
    with (Path(versions.__file__).parent / "data" / "versions.toml").open("rb") as file:
        branch = int(tomllib.load(file)["driver"]["al2023-nvidia"]["version"].partition(".")[0])
    assert branch >= 535, "the guide's branch"
    for pool in chain(USW2.pools.values(), right_size().values()):
        for gpu in (machine.gpu for machine in pool.machines if machine.gpu):
            least, most = gpu.min_driver_branch or 0, gpu.max_driver_branch or branch
            assert least <= branch <= most, f"{gpu.name} needs another driver branch than {branch}"


def test_no_release_is_older_than_the_guides():
    assert [int(part) for part in charts.device_plugin().version.split(".")] >= [0, 14, 5]
