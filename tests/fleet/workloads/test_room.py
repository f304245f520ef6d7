"""Which pool holds which workload, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from fleet.facts import hardware
from fleet.facts.offer import for_runners
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove import room
from fleet.prove.bill import bill
from fleet.prove.image_fit import unrunnable
from fleet.prove.placement import PlacementError, pool_host
from fleet.providers.fleet import Fleet
from fleet.settings.workloads import WORKLOAD_IMAGES, PoolWorkload
from tests.builders import cluster, config, oke_cluster, oke_pool, pool
from tests.cases import cases
from tests.day import AS_OF
from tests.examples import examples
from tests.fleet.workloads.world import CLUSTERS, OF_POOLS, SLICED, with_workloads, workload
from tests.strategies import pools


def fleet(held: dict[str, Any], **workloads: dict[str, Any]) -> Fleet:
    """A fleet of one cluster with these workloads."""
    return load(config(clusters={"usw2": held | {"workloads": workloads}}))


def refused(held: dict[str, Any], **changes: Any) -> str:
    """Why the one workload of a cluster is refused."""
    found = with_workloads(held, one=workload(**changes))
    asked = found.workloads["one"]
    assert isinstance(asked, PoolWorkload)
    return room.refusal(found, asked)


def of(*types: str, **changes: Any) -> dict[str, Any]:
    """An EKS cluster whose pool t4 is of these types."""
    return cluster(pools={"t4": pool(instanceTypes=list(types), **changes)}, runners={})


@cases("kind", OF_POOLS)
@cases("held", [name for name in CLUSTERS if name != "v100-spot"])
def test_every_pool_of_the_examples_holds_every_workload(held, kind):
    assert refused(CLUSTERS[held], kind=kind) == ""


@pytest.mark.usefixtures("numbers")
@cases(
    ("held", "changes", "reason"),
    [
        (
            of("g4dn.xlarge"),
            {"kind": "ollama"},
            "asks for 4 CPU and 16Gi, g4dn.xlarge leaves pods 3710m of 4 and 14351Mi of 16Gi; "
            "the smallest type that is large enough is g4dn.2xlarge",
        ),
        (
            of("g4dn.xlarge", "g4dn.2xlarge"),
            {"kind": "ollama"},
            "asks for 4 CPU and 16Gi, g4dn.xlarge leaves pods 3710m of 4 and 14351Mi of 16Gi; "
            "the smallest type that is large enough is g4dn.2xlarge",
        ),
        (
            of("g4dn.2xlarge"),
            {"kind": "ollama", "gpus": 2},
            "asks for 2 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
        ),
        (
            of("g4dn.2xlarge", disk="30Gi"),
            {"kind": "pytorch", "scratch": "40Gi"},
            "asks for 40Gi of disk, g4dn.2xlarge leaves pods 26624Mi of 30Gi; raise the pool's disk to 46Gi",
        ),
        (
            oke_cluster(pools={"t4": oke_pool(instanceTypes=["VM.GPU2.1"])}, runners={}),
            {"kind": "comfyui"},
            "its image has code for compute capability 7.5 and newer, the P100 of VM.GPU2.1 has 6.0; set another image, or use "
            "another pool",
        ),
        (
            oke_cluster(
                nodeImages=oke_cluster()["nodeImages"] | {"oke-gpu": {"id": "ocid1.image.oc1..old", "driver": "535.183.01"}},
                runners={},
            ),
            {"kind": "ollama", "pool": "a10"},
            "its image needs driver branch R550 or newer, the nodes have 535.183.01; set an image with an older CUDA, or use "
            "nodes with a newer driver",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(held, changes, reason):
    assert refused(held, **changes) == reason


def test_an_image_is_for_its_architectures_and_newer_gpus_alone():
    image = WORKLOAD_IMAGES["comfyui"]
    t4, v100 = hardware.machine("g4dn.2xlarge"), hardware.machine("p3.2xlarge")
    assert unrunnable(image, [t4]) == ""
    assert "7.5 and newer" in unrunnable(image, [t4, v100])
    grace = replace(t4, name="grace", arch="arm64")
    assert unrunnable(image, [grace]) == "its image is built for x86_64, grace is arm64; set image to a build for it"
    assert unrunnable(None, [grace, v100]) == "", "of an image of one's own nothing is known"
    amd = hardware.machine("BM.GPU.MI300X.8")
    assert unrunnable(None, [amd]) == "needs an NVIDIA GPU, BM.GPU.MI300X.8 has none"
    assert unrunnable(image, [replace(t4, gpu=None)]) == "needs an NVIDIA GPU, g4dn.2xlarge has none"


def test_a_capability_is_a_number_with_two_parts_and_no_fraction():
    b200 = replace(hardware.machine("g4dn.2xlarge"), gpu=hardware.machine("p6-b200.48xlarge").gpu)
    assert unrunnable(WORKLOAD_IMAGES["pytorch"], [b200]) == "", "10.0 is newer than 7.5"


def test_an_image_of_ones_own_runs_where_the_pinned_one_does_not():
    held = CLUSTERS["v100-spot"]
    assert "compute capability 7.5" in refused(held, kind="comfyui")
    assert refused(held, kind="comfyui", image="registry.example.com/comfyui:1") == ""


def test_every_refused_workload_is_named_and_the_fleet_is_not_built():
    found = fleet(of("g4dn.xlarge"), one=workload("ollama"), two=workload("comfyui"), fits=workload("tf-mnist"))
    assert [(each.cluster, each.workload) for each in room.refusals(found)] == [("usw2", "one"), ("usw2", "two")]
    with pytest.raises(PlacementError) as caught:
        require(found, ())
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["usw2.workloads.one", "usw2.workloads.two"]
    require(fleet(of("g4dn.2xlarge"), one=workload("ollama")), ())


def test_a_coral_is_placed_by_nobody():
    require(fleet(cluster(), one=workload("coral")), ())


@hypothesis_settings(max_examples=examples(40))
@given(
    held=pools(["us-west-2a"], st.just(False)),
    kind=st.sampled_from(OF_POOLS),
    sharing=st.sampled_from([None, SLICED]),
    cores=st.integers(1, 200),
    gibibytes=st.integers(2, 2000),
)
def test_a_workload_is_placed_exactly_where_the_scheduler_would_put_it(held, kind, sharing, cores, gibibytes):
    """The scheduler's rule written down a second time: each request is at most what a node of any type leaves."""
    if "reservation" in held:
        held["reservation"]["id"] = "cr-0123456789abcdef0"
    size = {"cpu": {"request": cores, "limit": cores}, "memory": {"request": f"{gibibytes}Gi", "limit": f"{gibibytes}Gi"}}
    changes = {"kind": kind, "image": "registry.example.com/mine:1"} | size
    given_pool = held | ({"sharing": sharing} if sharing else {})
    found = with_workloads(cluster(enablement="device-plugin", pools={"t4": given_pool}, runners={}), one=workload(**changes))
    asked = found.workloads["one"]
    assert isinstance(asked, PoolWorkload)
    host = pool_host(found, "t4")
    offers = [for_runners(machine, host.disk, host.daemonsets) for machine in host.machines]
    fits = all(
        offer.cpu >= cores * 1000 and offer.memory >= gibibytes * 1024 and offer.storage >= asked.scratch and offer.pods >= 1
        for offer in offers
    )
    assert (room.refusal(found, asked) == "") is fits


# -- remarks -----------------------------------------------------------------------------------------------------------


def test_a_workload_that_always_runs_keeps_a_node_that_the_bill_has():
    def nodes(least, **workloads):
        found = fleet(of("g4dn.12xlarge", nodes={"min": least, "max": 2}), **workloads)
        assert list(room.remarks(found)) == []
        return next(line.least for line in bill(found, AS_OF) if line.item == "pool t4")

    assert nodes(0, one=workload("ollama")) == 1
    assert nodes(0, one=workload("ollama"), two=workload("comfyui")) == 1, "they share a node of four GPUs"
    assert nodes(1, one=workload("ollama")) == 1, "it runs on that node"
    assert nodes(0, one=workload("tf-mnist")) == 0, "a Job ends"


def test_workloads_that_fill_a_pool_are_told():
    full = of("g4dn.2xlarge", nodes={"min": 2, "max": 2})
    (remark,) = room.remarks(fleet(full, one=workload("ollama"), two=workload("comfyui")))
    assert remark == (
        "usw2/t4: one and two always take 2 of the 2 GPUs of the full pool, so nothing is left for jobs; raise nodes.max"
    )
    shared = cluster(enablement="device-plugin", pools={"t4": pool(nodes={"min": 1, "max": 1}, sharing=SLICED)}, runners={})
    assert list(room.remarks(fleet(shared, one=workload("ollama"), two=workload("comfyui")))) == [], "two of four shares"


def test_a_pool_of_workloads_is_not_idle():
    found = fleet(cluster(pools={"t4": pool(), "more": pool()}), one=workload("ollama", pool="more"))
    assert not [remark for remark in found.clusters["usw2"].remarks if remark.startswith("pool more: no runner")]
