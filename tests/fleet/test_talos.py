"""A cluster of one's own machines: what goes together, what its nodes are and offer, what an owner reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.facts import hardware, versions
from fleet.facts.errors import FleetError
from fleet.facts.offer import allocatable, for_runners
from fleet.facts.pricing import total
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.placement import place, pool_host
from fleet.providers import installed
from fleet.providers.fleet import Fleet
from fleet.providers.talos.cluster import TalosCluster
from fleet.render.isolation import network_policy
from fleet.settings import compatibility
from fleet.settings.machines import OwnMachine
from tests.builders import cluster, config, gitops, host, oke_cluster, own_machine, runner, talos_cluster, talos_pool
from tests.cases import cases
from tests.day import AS_OF

TAKEN = {"1.12": {"1.34", "1.35"}, "1.13": {"1.34", "1.35", "1.36"}, "1.14": {"1.34", "1.35", "1.36"}}
"""Of the pinned Kubernetes minors those that a Talos minor takes, by hand: siderolabs/talos pkg/machinery/compatibility."""


def fleet_of(**changes: Any) -> Fleet:
    """A fleet of the one cluster home."""
    return load(config(clusters={"home": talos_cluster(**changes)}))


def home(**changes: Any) -> TalosCluster:
    """The settings of a Talos cluster."""
    held = fleet_of(**changes).clusters["home"]
    assert isinstance(held, TalosCluster)
    return held


def lines(**changes: Any) -> list[str]:
    """What is wrong with a Talos cluster, a line each, without the cluster's path."""
    try:
        home(**changes)
    except FleetError as error:
        return [str(problem).removeprefix("gpu-ci:clusters.home.") for problem in error.problems]
    return []


def hosts(first: int, count: int = 1) -> dict[str, Any]:
    """That many hosts at addresses in a row."""
    return {"hosts": {f"host-{number}": host(number) for number in range(first, first + count)}}


# -- versions ----------------------------------------------------------------------------------------------------------


def test_every_pinned_talos_has_a_row_here() -> None:
    assert set(TAKEN) == set(versions.TALOS)
    assert set().union(*TAKEN.values()) == set(versions.TALOS_KUBERNETES)


@cases("talos", TAKEN)
@cases("kubernetes", [*versions.TALOS_KUBERNETES, "1.33", "1.37"])
def test_a_talos_release_takes_the_kubernetes_minors_of_its_table_and_no_other(talos: str, kubernetes: str) -> None:
    told = lines(talosVersion=talos, kubernetesVersion=kubernetes, enablement="device-plugin")
    if kubernetes in TAKEN[talos]:
        assert told == []
    else:
        known = ", ".join(sorted(TAKEN[talos]))
        assert told == [
            f"kubernetesVersion: no pinned release of this minor works with Talos {talos}; use one of: {known} "
            f'(got "{kubernetes}")'
        ]


def test_the_releases_behind_the_minors_are_the_pinned_ones() -> None:
    held = home(talosVersion="1.12", kubernetesVersion="1.34", enablement="device-plugin")
    assert (held.release, held.kubernetes) == (versions.TALOS["1.12"], versions.TALOS_KUBERNETES["1.34"])


@pytest.mark.parametrize(("talos", "supported"), [("1.12", False), ("1.13", True), ("1.14", True)])
def test_the_operator_runs_from_the_talos_on_that_nvidia_supports(talos: str, supported: bool) -> None:
    assert (lines(talosVersion=talos, enablement="gpu-operator") == []) is supported
    assert lines(talosVersion=talos, enablement="device-plugin") == []


# -- hosts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_pool_has_as_many_nodes_as_hosts_always(count: int) -> None:
    nodes = home(pools={"gpu": talos_pool(nodes=hosts(20, count))}).pools["gpu"].nodes
    assert (nodes.min, nodes.max, len(nodes.hosts)) == (count, count, count)


@pytest.mark.parametrize("bounds", [{"min": 1}, {"max": 2}, {"min": 0, "max": 2}])
def test_a_count_beside_hosts_is_refused_even_where_hosts_are_forgotten(bounds: dict[str, int]) -> None:
    bound, value = next(iter(bounds.items()))
    line = f"pools.gpu.nodes.{bound}: hosts already determines the number of your own machines; remove {bound} (got {value})"
    for held in (hosts(20), {}):
        assert lines(pools={"gpu": talos_pool(nodes=held | bounds)}) == [line]


@cases("held", [{}, {"hosts": None}, {"hosts": []}, {"hosts": {}}])
def test_a_pool_without_hosts_is_told_of_its_hosts_alone(held: dict[str, Any]) -> None:
    (line,) = lines(pools={"gpu": talos_pool(nodes=held)})
    assert line.startswith("pools.gpu.nodes.hosts: ")


def test_the_system_pool_is_the_control_plane_unless_it_has_hosts_of_its_own() -> None:
    plain = home()
    assert not plain.system.hosts, "then the control plane runs the controllers"
    apart = home(system=hosts(14, 2))
    assert set(apart.system.hosts) == {"host-14", "host-15"}


def test_hosts_are_all_machines_by_their_place_in_the_file() -> None:
    held = home(controlPlane=hosts(11, 3), system=hosts(14), pools={"gpu": talos_pool(nodes=hosts(20))})
    assert [(".".join(path), name, each.address) for path, name, each in held.hosts()] == [
        ("controlPlane.hosts.host-11", "host-11", "192.0.2.11"),
        ("controlPlane.hosts.host-12", "host-12", "192.0.2.12"),
        ("controlPlane.hosts.host-13", "host-13", "192.0.2.13"),
        ("system.hosts.host-14", "host-14", "192.0.2.14"),
        ("pools.gpu.nodes.hosts.host-20", "host-20", "192.0.2.20"),
    ]


def test_one_address_in_two_spellings_is_one_address() -> None:
    machines = {"one": {"address": "2001:db8::14"}, "two": {"address": "2001:DB8:0::14"}}
    assert lines(pools={"gpu": talos_pool(nodes={"hosts": machines})}) == [
        'pools.gpu.nodes.hosts.one.address: another host has that address; correct it (got "2001:db8::14")'
    ]


@cases("count", range(1, 6))
def test_etcd_has_an_odd_number_of_members(count: int) -> None:
    assert (lines(controlPlane=hosts(11, count)) == []) is bool(count % 2)


@cases(
    "url",
    [
        "192.0.2.10",
        "http://192.0.2.10:6443",
        "https://192.0.2.10",
        "https://192.0.2.10:6443/",
        "https://user@home.example.com:6443",
    ],
)
def test_what_is_no_url_of_a_control_plane_is_refused(url: str) -> None:
    (line,) = lines(endpoint=url)
    assert line.startswith("endpoint: not the control plane's URL; ")


# -- pools -------------------------------------------------------------------------------------------------------------


def with_gpu(gpu: str, **changes: Any) -> dict[str, Any]:
    """Changes of a cluster whose one machine has this GPU of 16 GiB; `changes` are those of its pool."""
    machine = own_machine(gpu=gpu, gpuMemory="16Gi")
    return {"machines": {"mine": machine}, "pools": {"gpu": talos_pool(instanceTypes=["mine"], **changes)}}


@cases(
    ("gpu", "modules", "refused"),
    [
        ("V100", "proprietary", ""),
        ("V100", "open", "NVIDIA's open kernel modules support GPUs from Turing on, V100 is older; write proprietary"),
        ("T4", "open", ""),
        ("RTX 4090", "proprietary", ""),
        ("RTX 5090", "proprietary", "only NVIDIA's open kernel modules support RTX 5090 (Blackwell); write open"),
        ("RTX 5090", "open", ""),
    ],
)
def test_kernel_modules_fit_the_architecture(gpu: str, modules: str, refused: str) -> None:
    driver = {"kernelModules": modules, "tier": "lts" if gpu == "V100" else "production"}
    expected = [f'pools.gpu.driver.kernelModules: {refused} (got "{modules}")'] if refused else []
    assert lines(**with_gpu(gpu, driver=driver)) == expected


MACHINES = {"one": own_machine(), "two": own_machine(cpus=16)}


@cases(
    ("changes", "expected"),
    [
        (
            {"machines": MACHINES, "pools": {"gpu": talos_pool(instanceTypes=["one", "two"])}},
            "pools.gpu.instanceTypes: the hosts of a pool have one machine type; keep one, and add a pool for each other type "
            '(got ["one", "two"])',
        ),
        (
            {"machines": MACHINES, "pools": {"gpu": talos_pool(instanceTypes=["tow"])}},
            'pools.gpu.instanceTypes.0: no machine of this name; name one of: one, two (got "tow")',
        ),
        # What a cloud sells is never somebody's machine, whatever its name.
        (
            {"pools": {"gpu": talos_pool(instanceTypes=["g4dn.xlarge"])}},
            "pools.gpu.instanceTypes: Talos nodes are machines of your own; name one that is below machines of the cluster "
            '(got "g4dn.xlarge")',
        ),
        # A person's name can hide no row of the table, because it has no full stop.
        (
            {"machines": {"g4dn.xlarge": own_machine()}},
            "machines.g4dn.xlarge: a name is a DNS label: lower-case letters, digits and hyphens, a letter first, at most 63 "
            'characters; rename it (got "g4dn.xlarge")',
        ),
        (
            with_gpu("MI300X"),
            "machines.mine.gpu: no NVIDIA GPU of fleet/facts/data/gpus.csv; write for example RTX 4090, or add a row "
            '(got "MI300X")',
        ),
    ],
)
def test_a_machine_that_is_not_described_correctly_is_one_error(changes: dict[str, Any], expected: str) -> None:
    assert lines(**changes) == [expected]


@cases("tier", ["production", "lts"])
@cases("talos", versions.TALOS)
def test_a_pools_driver_is_that_of_its_tier_in_the_talos_release(talos: str, tier: str) -> None:
    held = home(talosVersion=talos, enablement="device-plugin", pools={"gpu": talos_pool(driver={"tier": tier})})
    assert held.image_driver("gpu") == versions.TALOS[talos].drivers[tier]


@cases(
    ("talos", "tier", "like"),
    [
        (talos, tier, like)
        for talos in versions.TALOS
        for tier in ("production", "lts")
        for like in ("V100", "T4", "RTX PRO 6000")
    ],
)
def test_a_gpu_that_its_tier_does_not_drive_is_told(talos: str, tier: str, like: str) -> None:
    driver, gpu = versions.TALOS[talos].drivers[tier], hardware.gpus()[like]
    branch = compatibility.branch(driver)
    fits = (gpu.min_driver_branch or 0) <= branch <= (gpu.max_driver_branch or 999)
    told = lines(
        talosVersion=talos,
        enablement="device-plugin",
        **with_gpu(like, driver={"tier": tier, "kernelModules": "proprietary" if like == "V100" else "open"}),
    )
    assert [line.partition(":")[0] for line in told] == ([] if fits else ["pools.gpu.driver.tier"])


def test_v100_keeps_to_the_tier_that_still_drives_it() -> None:
    assert lines(**with_gpu("V100")) == [
        "pools.gpu.driver.tier: V100 (mine) works with driver branch R580 or older; use a driver of that branch "
        f'(got "{versions.TALOS["1.13"].drivers["production"]}")'
    ]


# -- what nodes offer --------------------------------------------------------------------------------------------------


def described(**changes: Any) -> hardware.Machine:
    """The machine of `own_machine` as hardware."""
    return OwnMachine.model_validate(own_machine(**changes)).as_machine("mine")


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_talos_node_offers_what_talos_kubelet_leaves(gpus: int) -> None:
    """siderolabs/talos pkg/machinery/constants: 50m and 384Mi for the system; kubelet evicts at 100Mi and takes 110 pods."""
    offer = allocatable(described(gpus=gpus), 1000 * 1024)
    # 48 threads; 128 GiB x 0.925 = 121241, less 384 and 100.
    assert (offer.cpu, offer.memory, offer.gpus, offer.pods) == (47_950, 120_757, gpus, 110)
    # The larger of what clouds keep: Talos itself reserves 256Mi.
    assert offer.storage == int(1000 * 1024 * 0.9) - 1024


@pytest.mark.parametrize("size", [{}, {"cpus": 2, "memory": "4Gi"}, {"gpus": 16, "cpus": 1024, "memory": "4096Gi"}])
def test_an_own_machine_offers_less_than_it_has_and_all_of_its_gpus(size: dict[str, Any]) -> None:
    machine = described(**size)
    offer = allocatable(machine, 200 * 1024)
    assert 0 < offer.cpu < machine.vcpus * 1000
    assert 0 < offer.memory < machine.memory_mib
    assert 0 < offer.storage < 200 * 1024
    assert offer.gpus == machine.gpus > 0


@cases(
    ("changes", "taken"),
    [
        # Flannel 100m and 50Mi, the container that enforces NetworkPolicies as much again, the plugin 50m and 100Mi.
        ({"talosVersion": "1.12", "kubernetesVersion": "1.35", "enablement": "device-plugin"}, (150, 150, 2)),
        ({"enablement": "device-plugin"}, (250, 200, 2)),
        # The five pods of the operator on an image with driver and toolkit: 185m and 804Mi.
        ({}, (385, 904, 6)),
        # With configs its plugin and feature discovery have a second container each: 70m and 164Mi more.
        ({"pools": {"gpu": talos_pool(sharing={"strategy": "time-slicing", "replicas": 4})}}, (455, 1068, 6)),
        # Another network is not known: it is taken to need what Flannel does alone.
        ({"cni": "none", "enablement": "device-plugin"}, (150, 150, 2)),
    ],
)
def test_flannel_and_what_advertises_gpus_take_their_part(
    changes: dict[str, Any], taken: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "PLAIN", ())
    host = pool_host(fleet_of(**changes).clusters["home"], "gpu")
    (machine,) = host.machines
    offer, left = allocatable(machine, host.disk), for_runners(machine, host.disk, host.daemonsets)
    assert (offer.cpu - left.cpu, offer.memory - left.memory, offer.pods - left.pods) == taken


def test_runners_are_placed_on_own_machines_as_on_rented_ones() -> None:
    sharing = {"strategy": "time-slicing", "replicas": 4}
    fleet = fleet_of(pools={"gpu": talos_pool(sharing=sharing)}, runners={"gpu-3090": runner(pool="gpu", scale={"max": 8})})
    (placement,) = place(fleet)
    (fit,) = placement.fits
    # Eight shares; of 120757Mi less 1068Mi seven runners of 16Gi.
    assert (fit.machine.name, fit.count) == ("rig", 7)


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_the_bill_has_a_line_a_pool_which_is_the_same_idle_and_busy() -> None:
    pools = {
        "gpu": talos_pool(nodes=hosts(20, 2)),
        "small": talos_pool(instanceTypes=["single"], nodes=hosts(30)),
    }
    found = bill(fleet_of(pools=pools, system=hosts(14, 2)), AS_OF)
    assert [line.item for line in found] == ["pool gpu", "pool small", "GitHub"]
    for kind in ("idle", "worst"):
        assert [getattr(line, kind).usd for line in found] == pytest.approx([2 * 0.33, 0.24, 0])
    idle, worst = total(found)
    assert idle == worst
    assert idle.unknown == 0, "each machine has a price"
    line, _ = bill(fleet_of(machines={"rig": own_machine()}), AS_OF)
    assert (line.what, line.idle.unknown) == ("rig, price not stated", 1), "an owner who names no price gets no made-up one"


def test_nobody_deploys_own_machines_and_pulumi_deploys_all_others() -> None:
    assert not fleet_of().deployable
    assert load(config(clusters={"usw2": cluster(), "sjc": oke_cluster()})).deployable


# -- remarks -----------------------------------------------------------------------------------------------------------

REAL = {
    "endpoint": "https://192.168.178.11:6443",
    "controlPlane": {"hosts": {"control-0": {"address": "192.168.178.11"}}},
    "pools": {"gpu": talos_pool(nodes={"hosts": {"gpu-0": {"address": "fd00::20"}}})},
}


def test_a_cluster_of_ones_own_addresses_with_walls_leaves_nothing_to_say() -> None:
    assert home(**REAL).remarks == ()


def test_a_pre_release_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.TALOS, "1.14", replace(versions.TALOS["1.14"], release="v1.14.0-rc.1"))
    assert home(**REAL, talosVersion="1.14").remarks == (
        "talosVersion: v1.14.0-rc.1 is a pre-release, the newest release whose source was checked",
        "talosVersion: talhelper 3.1.16 does not know the config documents of 1.14; use talosctl (docs/talos.md)",
    )


@cases(
    ("talos", "cni", "hold", "told"),
    [
        ("1.12", "flannel", False, "network policies: Flannel of Talos 1.12 enforces none, so jobs can reach your network; "),
        ("1.12", "none", False, "cni none: nodes stay NotReady until you install a network plugin; "),
        ("1.13", "flannel", True, ""),
        ("1.13", "none", False, "cni none: nodes stay NotReady until you install a network plugin; "),
    ],
)
def test_walls_hold_where_flannel_enforces_policies_and_else_it_is_told(talos: str, cni: str, hold: bool, told: str) -> None:
    held = home(**REAL, talosVersion=talos, cni=cni, enablement="device-plugin")
    assert held.enforces_policies is hold
    assert [remark for remark in held.remarks if remark.startswith(told)] == list(held.remarks)
    assert len(held.remarks) == bool(told)


def test_jobs_at_home_reach_nothing_that_is_private_but_what_is_opened() -> None:
    held = home(privateEgress=["192.168.178.0/24"])
    (_, internet, *_) = network_policy(held.closed_networks, held.private_egress)["egress"]
    assert {block["ipBlock"]["cidr"] for block in internet["to"]} == {"0.0.0.0/0", "192.168.178.0/24"}
    assert {"10.0.0.0/8", "192.168.0.0/16"} <= set(internet["to"][0]["ipBlock"]["except"])


def test_jobs_do_not_reach_the_machines_themselves_at_public_addresses_either() -> None:
    public = {"gpu-0": {"address": "8.8.4.4"}, "gpu-1": {"address": "2001:4860::8"}}
    held = home(pools={"gpu": talos_pool(nodes={"hosts": public})})
    assert "8.8.4.4/32" in held.closed_networks
    assert not [each for each in held.closed_networks if ":" in each], "policies are of IPv4"


@pytest.mark.parametrize(
    ("host_name", "address", "told"), [("gpu-0", "192.0.2.99", "a host gpu-0"), ("gpu-9", "192.0.2.20", "the address 192.0.2.20")]
)
def test_a_machine_is_of_one_cluster(host_name: str, address: str, told: str) -> None:
    pools = {"gpu": talos_pool(nodes={"hosts": {host_name: {"address": address}}})}
    away = talos_cluster(
        endpoint="https://192.0.2.12:6443",
        controlPlane={"hosts": {"control-9": {"address": "192.0.2.12"}}},
        gitops=gitops() | {"path": "clusters/away"},
        pools=pools,
        runners={"gpu-away": runner(pool="gpu")},
    )
    with pytest.raises(FleetError, match=f"cluster home also has {told} in home; give each its own"):
        load(config(clusters={"home": talos_cluster(), "away": away}))


def test_two_places_may_each_have_their_own_private_addresses() -> None:
    away = talos_cluster(region="away", gitops=gitops() | {"path": "clusters/away"}, runners={"gpu-away": runner(pool="gpu")})
    assert len(load(config(clusters={"home": talos_cluster(), "away": away})).clusters) == 2


@cases("address", ["127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1"])  # noqa: S104 - wrong on purpose
def test_an_address_is_one_that_others_reach(address: str) -> None:
    with pytest.raises(FleetError, match="not the IP address of a host"):
        home(pools={"gpu": talos_pool(nodes={"hosts": {"gpu-0": {"address": address}}})})
