"""The simulated cloud: sizes, boots, refusals, faults, and what machines cost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fleet.facts.scheduling import SYSTEM_POOL
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world.cloud import Cloud
from gpu_ci.world.plane import FAKE_NODE
from tests.builders import ROOT, read_stack
from tests.fleet.test_starts import DAY
from tests.world.clouds import STAGING, Memory, clouded, group

BOOT = 10
"""Seconds: the 100 s of staging's pools over the factor 10."""


def grown(count: int = 1, pool: str = "t4-release") -> tuple[Cloud, Memory, str]:
    """A cloud whose first group of a pool has so many nodes."""
    cloud, api, clock = clouded()
    at = group(cloud, pool)
    cloud.increase(at, count)
    clock.now += BOOT
    cloud.once()
    return cloud, api, at


def test_system_nodes_are_there_from_the_start_and_others_after_their_boot() -> None:
    cloud, api, clock = clouded()
    assert api.nodes() == ["system-1", "system-2"]
    cloud.increase(group(cloud, "t4-spot"), 2)
    clock.now += BOOT - 1
    cloud.once()
    assert len(api.nodes()) == 2
    clock.now += 1
    cloud.once()
    assert api.nodes() == ["system-1", "system-2", "t4-spot-1", "t4-spot-2"]
    node = api.held[f"{NODES}/t4-spot-1"]
    assert node["spec"]["providerID"] == "gpu-ci-world:///us-west-2a/t4-spot-1"
    assert cloud.find(node["spec"]["providerID"]) is cloud.find("t4-spot-1") is not None


def test_a_group_never_grows_beyond_its_most_nodes() -> None:
    cloud, _, _ = clouded()
    with pytest.raises(ValueError, match="has 0 machines, and at most 2"):
        cloud.increase(group(cloud, "t4-spot"), 3)
    assert cloud.sizes[group(cloud, "t4-spot")] == 0


def test_system_nodes_spread_over_their_zones() -> None:
    cloud, _, _ = clouded()
    assert [one.zone for one in cloud.of(group(cloud, SYSTEM_POOL))] == ["us-west-2a", "us-west-2b"]


def test_on_demand_takes_the_first_type_and_spot_any() -> None:
    cloud, _, _ = clouded()
    bought: dict[str, set[int]] = {"t4-spot": set(), "t4-release": set()}
    for _ in range(20):
        for pool, types in bought.items():
            at = group(cloud, pool)
            cloud.increase(at, 1)
            types |= {one.at for one in cloud.of(at)}
            cloud.delete(at, [one.name for one in cloud.of(at)])
    assert bought == {"t4-spot": {0, 1}, "t4-release": {0}}


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_refused_machine_waits_until_the_cloud_has_one() -> None:
    cloud, api, clock = clouded()
    at = group(cloud, "t4-spot")
    cloud.refuse("t4-spot")
    cloud.increase(at, 1)
    clock.now += 10 * BOOT
    cloud.once()
    assert ([one.refused for one in cloud.of(at)], len(api.nodes())) == ([True], 2)
    assert "t4-spot" not in cloud.usage().seconds, "a machine that was refused costs nothing"
    cloud.accept()
    cloud.once()
    clock.now += BOOT
    cloud.once()
    assert "t4-spot-1" in api.nodes()


def test_a_cloud_refuses_a_pool_or_a_zone_or_all_pools_and_never_the_system() -> None:
    cloud, _, _ = clouded()
    cloud.refuse("t4-spot", "us-west-2b")
    assert cloud.refuses == {group(cloud, "t4-spot", "us-west-2b")}
    cloud.refuse(zone="us-west-2a")
    assert len(cloud.refuses) == 4
    cloud.refuse()
    assert cloud.refuses == {one.id for one in cloud.groups.values() if one.pool != SYSTEM_POOL}


# -- faults ------------------------------------------------------------------------------------------------------------


def test_the_cloud_replaces_a_machine_that_it_loses() -> None:
    cloud, api, at = grown()
    cloud.lose("t4-release-1")
    cloud.once()
    assert "t4-release-1" not in api.nodes()
    assert [one.name for one in cloud.of(at)] == ["t4-release-2"]


def test_nothing_replaces_a_machine_of_the_owner() -> None:
    cloud, api, _ = clouded(ROOT / "Pulumi.homelab.yaml", "home")
    assert api.nodes() == ["gpu-1", "system-1", "system-2"]
    assert api.held[f"{NODES}/gpu-1"]["status"]["allocatable"]["nvidia.com/gpu.shared"] == "8"
    cloud.lose("gpu-1")
    cloud.once()
    assert api.nodes() == ["system-1", "system-2"]


def test_a_deleted_machine_makes_its_group_smaller_and_one_of_another_group_is_refused() -> None:
    cloud, api, at = grown()
    with pytest.raises(ValueError, match="system-1 is not in"):
        cloud.delete(at, ["system-1"])
    cloud.delete(at, ["t4-release-1", "gone"])
    cloud.once()
    assert (cloud.sizes[at], api.nodes()) == (0, ["system-1", "system-2"])


def test_a_withdrawn_request_ends_no_node() -> None:
    cloud, api, _ = grown()
    at = group(cloud, "t4-release", "us-west-2b")
    cloud.increase(at, 1)
    cloud.decrease(at, 1)
    cloud.decrease(group(cloud, "t4-release"), 1)
    cloud.once()
    assert (cloud.sizes[at], "t4-release-1" in api.nodes()) == (0, True)


def test_a_silent_kubelet_is_one_that_kwok_does_not_keep() -> None:
    cloud, api, _ = grown()
    cloud.silence("t4-release-1")
    assert FAKE_NODE not in api.held[f"{NODES}/t4-release-1"]["metadata"]["annotations"]
    cloud.silence("t4-release-1", silent=False)
    assert api.held[f"{NODES}/t4-release-1"]["metadata"]["annotations"][FAKE_NODE] == "fake"


def test_a_node_that_loses_a_gpu_offers_fewer() -> None:
    cloud, api, _ = grown()
    cloud.lose_gpus("t4-release-1")
    status = api.held[f"{NODES}/t4-release-1"]["status"]
    assert (status["allocatable"]["nvidia.com/gpu"], status["capacity"]["nvidia.com/gpu"]) == ("0", "0")
    assert status["allocatable"]["cpu"] == "7910m"


def test_a_drained_node_takes_no_pod_and_loses_all_but_those_of_daemonsets() -> None:
    cloud, api, _ = grown()
    for name, owner in {"job": "EphemeralRunner", "agent": "DaemonSet"}.items():
        api.pod(name, "t4-release-1", owner=owner)
    assert cloud.drain("t4-release-1")
    assert api.evicted == ["job"]
    assert api.held[f"{NODES}/t4-release-1"]["spec"]["unschedulable"] is True


def test_an_update_replaces_every_node_of_a_group() -> None:
    cloud, api, at = grown()
    cloud.roll(at)
    assert ([one.name for one in cloud.of(at)], cloud.sizes[at]) == (["t4-release-2"], 1)
    assert "t4-release-1" not in api.nodes()


# -- money -------------------------------------------------------------------------------------------------------------


def test_machines_cost_their_price_for_the_time_of_the_fleet() -> None:
    cloud, _, clock = clouded()
    cloud.increase(group(cloud, "t4-release"), 1)
    clock.now += 360
    usage = cloud.usage()
    assert usage.seconds == {"system": 7200, "t4-release": 3600}, "360 s of the world are an hour of the fleet"
    assert usage.usd.usd == pytest.approx(2 * 0.096 + 0.752)
    assert usage.peak == {"system": 2, "t4-release": 1}
    assert usage.hour.usd == pytest.approx(2 * 0.096 + 0.752)


def test_the_worst_hour_of_a_full_fleet_is_that_of_the_plan() -> None:
    cloud, _, _ = clouded()
    for one in cloud.groups.values():
        cloud.increase(one.id, one.span.max - cloud.sizes[one.id])
    plan = sum(line.worst.usd for line in bill(load(read_stack(STAGING)), DAY) if line.item.startswith(("pool ", "system")))
    assert 0.5 * plan < cloud.usage().hour.usd <= plan


Act = st.tuples(st.sampled_from(["more", "less", "lose", "refuse", "accept", "wait"]), st.integers(0, 20))


@given(st.lists(Act, max_size=30))
def test_whatever_happens_the_nodes_are_those_of_the_machines(acts: list[tuple[str, int]]) -> None:
    cloud, api, clock = clouded()
    ids = [*cloud.groups]
    for act, number in acts:
        at = ids[number % len(ids)]
        if act == "more" and cloud.sizes[at] < cloud.groups[at].span.max:
            cloud.increase(at, 1)
        elif act == "less" and cloud.of(at):
            cloud.delete(at, [cloud.of(at)[0].id])
        elif act == "lose" and cloud.of(at):
            cloud.lose(cloud.of(at)[-1].name)
        elif act == "refuse":
            cloud.refuse(cloud.groups[at].pool)
        elif act == "accept":
            cloud.accept()
        clock.now += number
        cloud.once()
        cloud.once()
        assert {name: len(cloud.of(name)) for name in ids} == cloud.sizes
        assert api.nodes() == sorted(one.name for one in cloud.instances.values() if one.made)
    cloud.accept()
    cloud.once()
    clock.now += BOOT
    cloud.once()
    assert len(api.nodes()) == sum(cloud.sizes.values())
