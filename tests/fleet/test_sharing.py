"""Sharing of GPUs: how units are called and counted, what the device plugin gets, and that pods, walls and prices follow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.charts.device_plugin import PLUGIN_CONFIG_DEFAULT, plugin_configs
from fleet.facts import hardware
from fleet.facts.scheduling import EKS_PROFILE, PLUGIN_CONFIG_LABEL, is_gpu_resource
from fleet.loading.config import load
from fleet.prove import bill
from fleet.prove.namespace_limits import resource_quota
from fleet.prove.placement import Placement, place
from fleet.settings import sharing
from fleet.settings.pool import Pool
from fleet.settings.sharing import config_name
from tests import yaml12
from tests.builders import cluster, config, pool, pool_of, reference, runner
from tests.cases import cases
from tests.fleet.conformance import cluster_charts

SLICED = {"strategy": "time-slicing", "replicas": 4}
MPS = {"strategy": "mps", "replicas": 8}
MIG = {"strategy": "mig", "profile": "1g.5gb"}
A100 = {"instanceTypes": ["p4d.24xlarge"]}
MIG_GPUS = sorted({(m.gpu.name, round(m.gpu_memory_mib / 1024)) for m in hardware.machines() if m.gpu and m.gpu.mig})


def _told(*pools: Pool, by_operator: bool = False) -> dict[str, Any]:
    """The configs as the plugin reads them, by name."""
    found = plugin_configs(pools, by_operator=by_operator)
    return {} if found is None else {name: _read(text) for name, text in found.files.items()}


def _read(text: str) -> Any:
    return yaml12.read(text)


# -- names and counts ----------------------------------------------------------------------------------------------------


@cases(
    ("shared", "resource", "shares", "several", "mounts_shm"),
    [
        (None, "nvidia.com/gpu", 1, True, True),
        (SLICED, "nvidia.com/gpu.shared", 4, False, True),
        (SLICED | {"rename": False, "allowSeveral": True}, "nvidia.com/gpu", 4, True, True),
        (MPS, "nvidia.com/gpu.shared", 8, False, False),
        (MIG, "nvidia.com/mig-1g.5gb", 7, True, True),
        (MIG | {"naming": "single"}, "nvidia.com/gpu", 7, True, True),
        ({"strategy": "mig", "profile": "1g.5gb.me"}, "nvidia.com/mig-1g.5gb.me", 1, True, True),
    ],
)
def test_a_pool_says_what_its_gpus_are_called_and_how_many_there_are(
    shared: dict[str, Any] | None, resource: str, shares: int, several: bool, mounts_shm: bool
) -> None:
    held = pool_of(**A100, sharing=shared)
    assert (held.resource, held.shares, held.several, held.mounts_shm) == (resource, shares, several, mounts_shm)
    assert held.units(held.machines[0]) == 8 * shares
    assert is_gpu_resource(held.resource), "policies count it"


def test_every_gpu_that_can_be_cut_has_profiles_and_no_other_has_any() -> None:
    for machine in hardware.machines():
        assert bool(sharing.profiles(machine)) is bool(machine.gpu and machine.gpu.mig), machine.name
    assert {(gpu, gib) for gpu, gib in sharing._profiles()} == set(MIG_GPUS), "no row that no machine has"


@cases(("gpu", "gib"), MIG_GPUS)
def test_parts_of_a_profile_fit_the_gpus_memory_and_its_slices(gpu: str, gib: int) -> None:
    """A profile's name says how many of at most seven compute slices it has, and its memory in GB, rounded up."""
    for profile, count in sharing._profiles()[gpu, gib].items():
        slices, _, rest = profile.partition("g.")
        assert int(slices) * count <= 7, profile
        assert (int(rest.partition("gb")[0]) - 1) * count <= gib + 1, profile
        assert is_gpu_resource(f"nvidia.com/mig-{profile}"), profile


@pytest.mark.reference
def test_profiles_are_those_of_the_operators_default_mig_config() -> None:
    file = reference("mig/gpu-operator-v26.3.0-default-mig-parted-config.yaml")
    layouts = _read(_read(file.read_text(encoding="utf-8"))["data"]["config.yaml"])["mig-configs"]
    for held in sharing._profiles().values():
        for profile, count in held.items():
            counts = {parts for entry in layouts[f"all-{profile}"] for parts in entry["mig-devices"].values()}
            assert count in counts, profile


# -- what the device plugin gets -----------------------------------------------------------------------------------------


def test_whole_gpus_need_no_config() -> None:
    assert plugin_configs([pool_of()], by_operator=False) is None
    assert plugin_configs([pool_of(cdi=True)], by_operator=True) is None, "the operator hands GPUs over by variables"
    assert plugin_configs([pool_of(**A100, sharing=MIG)], by_operator=True) is None, "its manager cuts them by a label"


def test_a_time_sliced_pool_is_told_in_the_plugins_words() -> None:
    flags = {"migStrategy": "none", "plugin": {"deviceListStrategy": "envvar"}}
    assert _told(pool_of(), pool_of(sharing=SLICED)) == {
        PLUGIN_CONFIG_DEFAULT: {"version": "v1", "flags": flags},
        "time-slicing-4": {
            "version": "v1",
            "flags": flags,
            "sharing": {
                "timeSlicing": {
                    "renameByDefault": True,
                    "failRequestsGreaterThanOne": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
                }
            },
        },
    }


def test_under_the_operator_a_config_has_no_flags_which_its_variables_would_beat() -> None:
    found = _told(pool_of(sharing=MPS), by_operator=True)
    assert set(found["mps-8"]) == {"version", "sharing"}
    assert found[PLUGIN_CONFIG_DEFAULT] == {"version": "v1"}


SHARED = st.one_of(
    st.none(),
    st.builds(
        lambda strategy, replicas, rename, several: {
            "strategy": strategy,
            "replicas": replicas,
            "rename": rename,
            "allowSeveral": several,
        },
        st.sampled_from(["time-slicing", "mps"]),
        st.integers(2, 48),
        st.booleans(),
        st.booleans(),
    ),
)
POOLS = st.lists(st.builds(lambda shared, cdi: pool_of(sharing=shared, cdi=cdi), SHARED, st.booleans()), min_size=1, max_size=4)


@given(POOLS, st.booleans())
def test_whatever_the_pools_their_labels_name_configs_that_say_what_they_are(pools: list[Pool], by_operator: bool) -> None:
    found = plugin_configs(pools, by_operator=by_operator)
    shared = [held for held in pools if held.sharing]
    if found is None:
        assert not shared
        return
    assert found.default in found.files, "the chart does not check it"
    for held in pools:
        label = held.node_labels("c", "p", EKS_PROFILE).get(PLUGIN_CONFIG_LABEL, found.default)
        told = _read(found.files[label])
        assert told["version"] == "v1", "the plugin knows no other"
        ways = told.get("sharing", {})
        assert set(ways) == ({{"time-slicing": "timeSlicing"}.get(held.sharing.strategy, "mps")} if held.sharing else set())
        for way in ways.values():
            (only,) = way["resources"]
            assert only["replicas"] == held.shares >= 2
            assert way["failRequestsGreaterThanOne"] is not held.several
            assert ("nvidia.com/gpu.shared" if way["renameByDefault"] else "nvidia.com/gpu") == held.resource
        if not by_operator:
            assert told["flags"]["plugin"]["deviceListStrategy"] == ("cdi-cri" if held.cdi else "envvar")


@given(POOLS, POOLS)
def test_a_config_map_has_another_name_exactly_when_it_has_another_content(one: list[Pool], other: list[Pool]) -> None:
    first, second = (plugin_configs(pools, by_operator=False) for pools in (one, other))
    if first and second:
        assert (first.name == second.name) is (first.files == second.files)
        assert len(first.name) <= 63


def test_the_order_of_pools_changes_nothing() -> None:
    held = [pool_of(), pool_of(sharing=SLICED), pool_of(sharing=MPS, cdi=True)]
    assert plugin_configs(held, by_operator=False) == plugin_configs(held[::-1], by_operator=False)


def test_a_configs_name_is_a_label_value_and_a_file_name() -> None:
    longest = pool_of(sharing={"strategy": "time-slicing", "replicas": 10**6, "rename": False, "allowSeveral": True}, cdi=True)
    assert config_name(longest) == "time-slicing-1000000-unrenamed-several-cdi"
    assert len(config_name(longest)) <= 63


# -- runners, walls, placement, price ------------------------------------------------------------------------------------

SMALL = {"cpu": {"request": 1, "limit": 2}, "memory": {"request": "4Gi", "limit": "6Gi"}, "scratch": "10Gi"}


def _placed(shared: dict[str, Any] | None, *, types: str = "g4dn.2xlarge", **asks: Any) -> tuple[Placement, dict[str, Any]]:
    """One set on a pool of that sharing, and its chart's pod."""
    held = pool(instanceTypes=[types], sharing=shared)
    enablement = "gpu-operator" if shared and shared["strategy"] == "mig" else "device-plugin"
    fleet = load(
        config(clusters={"usw2": cluster(pools={"t4": held}, enablement=enablement, runners={"gpu": runner(**SMALL | asks)})})
    )
    (found,) = place(fleet)
    return found, cluster_charts(fleet, "usw2")["gpu"].values["template"]["spec"]


@cases(
    ("shared", "types", "asks", "count", "limited"),
    [
        (None, "g4dn.2xlarge", "1 GPU, 1 CPU, 4Gi", 1, "GPUs"),
        (SLICED, "g4dn.2xlarge", "1/4 GPU, 1 CPU, 4Gi", 4, "shares"),
        (SLICED, "g4dn.xlarge", "1/4 GPU, 1 CPU, 4Gi", 3, "CPU"),
        (MPS, "g4dn.2xlarge", "1/8 GPU, 1 CPU, 4Gi", 7, "CPU"),
        (MIG, "p4d.24xlarge", "MIG 1g.5gb, 1 CPU, 4Gi", 56, "shares"),
    ],
)
def test_a_node_holds_as_many_runners_as_it_has_shares_if_the_rest_suffices(
    shared: dict[str, Any] | None, types: str, asks: str, count: int, limited: str
) -> None:
    more = {"scratch": "1Gi"} if types == "p4d.24xlarge" else {}
    found, pod = _placed(shared, types=types, **more)
    assert (found.asks, found.worst.count, found.worst.limited_by) == (asks, count, limited)
    (container,) = pod["containers"]
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert {name for name in limits if is_gpu_resource(name)} == {found.host.resource}
    assert limits[found.host.resource] == requests[found.host.resource] == 1


def test_several_units_in_words() -> None:
    found, _ = _placed(SLICED | {"allowSeveral": True}, gpus=2)
    assert found.asks == "2 x 1/4 GPU, 1 CPU, 4Gi"
    assert found.worst.count == 2


def test_a_runner_that_wants_more_shares_than_a_node_has_is_told_so() -> None:
    found, _ = _placed(SLICED | {"allowSeveral": True}, gpus=5)
    assert found.error == "asks for 5 shares, g4dn.2xlarge has 4; the smallest type that is large enough is g4dn.12xlarge"


def test_shares_that_nothing_uses_are_told() -> None:
    (remark,) = [each for each in _placed(MPS)[0].remarks if "idle" in each]
    assert remark == "1 of 8 shares of a full g4dn.2xlarge stay idle: CPU runs out first"


def test_a_runner_on_shares_pays_its_part_of_the_machine() -> None:
    whole, part = (bill.runner_hour(_placed(shared)[0], "us-west-2")[1].usd for shared in (None, SLICED))
    assert part == pytest.approx(whole / 4)


def test_under_mps_a_pod_leaves_dev_shm_to_the_plugin() -> None:
    """The plugin mounts the control daemon's /dev/shm (internal/plugin/mps.go); a volume of our own would hide it."""
    for shared, mounted in ((SLICED, True), (MPS, False)):
        _, pod = _placed(shared)
        assert bool(pod["volumes"]) is mounted
        assert bool(pod["containers"][0]["volumeMounts"]) is mounted


@pytest.mark.parametrize(("shared", "resource"), [(SLICED, "nvidia.com/gpu.shared"), (MPS | {"rename": False}, "nvidia.com/gpu")])
def test_the_wall_around_a_set_counts_what_its_runners_ask_for(shared: dict[str, Any], resource: str) -> None:
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": pool(sharing=shared)}, runners={"gpu": runner()})}))
    hard = resource_quota(cluster_charts(fleet, "usw2")["gpu"])["hard"]
    assert hard == {"requests.nvidia.com/gpu": "0", f"requests.{resource}": "4", "pods": "6"}


def test_sharing_survives_a_round_trip() -> None:
    for shared in (SLICED, MPS, MIG):
        held = pool_of(**A100, sharing=shared)
        assert held.sharing is not None
        again = pool_of(**A100, sharing=json.loads(held.sharing.model_dump_json(by_alias=True)))
        assert again == held


@pytest.mark.parametrize(("naming", "told"), [("mixed", False), ("single", True)])
def test_parts_that_are_called_like_whole_gpus_are_remarked_on(naming: str, told: bool) -> None:
    """NVIDIA/gpu-operator#2670: a pod took the whole GPU of a node whose GPUs were not cut yet."""
    pools = {"t4": pool(**A100, sharing=MIG | {"naming": naming})}
    (held,) = load(config(clusters={"usw2": cluster(pools=pools, enablement="gpu-operator")})).clusters.values()
    assert any(each.startswith("pool t4: until the MIG manager") for each in held.remarks) is told
