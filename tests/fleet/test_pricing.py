"""Money, lines and bills: nothing unknown counts as 0, an upper bound stays one, and sums are the sums of their lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from fleet.charts.device_plugin import PLUGIN_POD
from fleet.facts import hardware
from fleet.facts.pricing import Line, Money, average, bundle, nodes, quoted, range_text, total, units
from fleet.facts.versions import daemonsets
from fleet.loading.config import load
from fleet.prove.bill import bill, runner_hour
from fleet.prove.placement import Host, Placement, fit, place
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from tests.builders import (
    ROOT,
    THERE,
    cluster,
    config,
    oke_cluster,
    oke_pool,
    oke_runner,
    place as place_of,
    pool,
    read_stack,
    reserved,
    runner_of,
    staging,
    vm,
    vm_per_job,
)
from tests.cases import cases
from tests.day import AS_OF
from tests.examples import WHOLE, examples
from tests.strategies import configs

OREGON = "us-west-2"
P4D = 21.957642
"""p4d.24xlarge in us-east-1."""
some = settings(max_examples=examples(60), database=None)


def _listed(name: str, region: str = OREGON, capacity: str = hardware.ON_DEMAND) -> float:
    price = hardware.price(name, region, capacity)
    assert price is not None, f"{name} has a price in {region}"
    return price.usd_per_hour


def _unit(item: str) -> float:
    price = hardware.unit_price(item, OREGON)
    assert price is not None, item
    return price.usd_per_hour


# -- money -------------------------------------------------------------------------------------------------------------

_MONEY = st.builds(Money, st.floats(0, 1000), st.booleans(), st.integers(0, 3))


@some
@given(st.lists(_MONEY, max_size=5))
def test_a_sum_keeps_every_mark_of_its_parts(parts: list[Money]) -> None:
    result = sum(parts, Money())
    assert result.usd == pytest.approx(sum(part.usd for part in parts))
    assert result.at_most is any(part.at_most for part in parts)
    assert result.unknown == sum(part.unknown for part in parts)


@some
@given(_MONEY, st.integers(0, 9))
def test_several_keep_the_marks_and_none_costs_nothing(money: Money, count: int) -> None:
    several = money.times(count)
    if count == 0:
        assert several == Money(), "nothing bought costs nothing, whatever its price"
        return
    assert several.usd == pytest.approx(money.usd * count)
    assert (several.at_most, several.unknown) == (money.at_most, money.unknown)


@some
@given(_MONEY, st.floats(0, 2000))
def test_an_unknown_price_exceeds_every_ceiling(money: Money, ceiling: float) -> None:
    assert money.exceeds(ceiling) is (money.unknown > 0 or money.usd > ceiling)


def test_a_ceiling_may_be_reached_but_not_passed() -> None:
    assert not Money(10.0).exceeds(10.0)
    assert Money(10.01).exceeds(10.0)
    assert Money(unknown=1).exceeds(1e9)


@cases(
    ("money", "text"),
    [
        (Money(), "0"),
        (Money(1.204), "1.204"),
        (Money(6.02, at_most=True), "≤6.020"),
        (Money(unknown=1), "unknown"),
        (Money(unknown=2, at_most=True), "unknown"),
        (Money(5.0, unknown=1), "5.000 + unknown"),
        (Money(5.0, at_most=True, unknown=1), "≤5.000 + unknown"),
    ],
)
def test_money_is_written_with_its_marks(money: Money, text: str) -> None:
    assert str(money) == text


def test_no_price_is_unknown_and_never_zero() -> None:
    assert quoted(None) == Money(unknown=1)
    assert quoted(hardware.Price(2.0, at_most=True, source="list", date="2026-01-01")) == Money(2.0, at_most=True)


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
def test_a_line_of_nodes_reckons_with_the_dearest_type() -> None:
    line = nodes("usw2", "pool t4", ["g4dn.2xlarge", "g4dn.4xlarge"], OREGON, "on-demand", 1, 5)
    assert line.cheap == Money(_listed("g4dn.2xlarge"))
    assert line.dear == Money(_listed("g4dn.4xlarge"))
    assert line.idle == Money(_listed("g4dn.4xlarge"))
    assert line.worst.usd == pytest.approx(5 * _listed("g4dn.4xlarge"))
    assert line.what == "g4dn.2xlarge or g4dn.4xlarge on-demand"
    assert line.sources == ("invented, 2026-01-01",), "each source once, with its date"


@pytest.mark.usefixtures("numbers")
def test_spot_without_a_price_of_its_own_is_bounded_by_on_demand() -> None:
    line = nodes("usw2", "pool t4", ["g4dn.2xlarge"], OREGON, "spot", 0, 5)
    assert line.dear == Money(_listed("g4dn.2xlarge"), at_most=True)
    assert str(line.worst) == "≤3.760"
    assert line.idle == Money(), "no node, no price, no mark"


def test_a_type_without_a_price_is_unknown_in_its_line() -> None:
    line = nodes("usw2", "pool h200", ["p5e.48xlarge"], OREGON, "on-demand", 0, 2)
    assert hardware.price("p5e.48xlarge", OREGON, "on-demand") is None, "else choose another type for this test"
    assert line.cheap == line.dear == Money(unknown=1)
    assert line.worst == Money(unknown=1)
    assert line.worst.exceeds(1e9)
    assert str(line.worst) == "unknown"
    assert line.idle == Money()
    assert line.sources == ()


def test_one_type_without_a_price_marks_the_line_of_several() -> None:
    line = nodes("usw2", "pool h200", ["p5en.48xlarge", "p5e.48xlarge"], OREGON, "on-demand", 1, 2)
    assert line.cheap == Money(_listed("p5en.48xlarge"))
    assert line.dear == Money(unknown=1), "one of the two is bought, and the more expensive may be the unpriced one"
    assert line.idle == Money(unknown=1)
    assert line.idle.exceeds(1e9)
    assert str(line.idle) == "unknown"


def test_units_are_priced_by_their_count() -> None:
    line = units("usw2", "disks", "gp3, GiB", "gp3-gb", OREGON, 100.0, 1600.0)
    assert line.idle.usd == pytest.approx(100 * _unit("gp3-gb"))
    assert line.worst.usd == pytest.approx(1600 * _unit("gp3-gb"))
    nowhere = units("afs1", "control plane", "EKS", "eks-control-plane", "af-south-1", 1, 1)
    assert nowhere.worst == Money(unknown=1), "a region without a price is unknown"


@pytest.mark.usefixtures("numbers")
def test_something_paid_by_its_parts_costs_their_sum() -> None:
    line = bundle("sjc", "system pool", "a node", {"oci-e5-ocpu": 4, "oci-e5-gb": 32}, "us-sanjose-1", 2, 3)
    each = 4 * 0.03 + 32 * 0.002
    assert line.cheap == line.dear
    assert line.dear.usd == pytest.approx(each)
    assert line.idle.usd == pytest.approx(2 * each)
    assert line.worst.usd == pytest.approx(3 * each)
    assert line.sources == ("invented, 2026-01-01",)


@pytest.mark.usefixtures("numbers")
def test_a_part_without_a_price_makes_the_whole_unknown_besides() -> None:
    line = bundle("sjc", "system pool", "a node", {"oci-e5-ocpu": 1, "no-such-unit": 1}, "us-sanjose-1", 1, 1)
    assert line.worst == Money(0.03, unknown=1)


_LINES = st.builds(
    Line,
    st.just("usw2"),
    st.just("pool"),
    st.just("nodes"),
    st.integers(0, 3),
    st.integers(3, 9),
    _MONEY,
    _MONEY,
    st.just(()),
)


@some
@given(st.lists(_LINES, max_size=6))
def test_a_total_is_the_sum_of_its_lines(lines: list[Line]) -> None:
    idle, worst = total(lines)
    assert idle.usd == pytest.approx(sum(line.idle.usd for line in lines))
    assert worst.usd == pytest.approx(sum(line.worst.usd for line in lines))
    assert worst.at_most is any(line.worst.at_most for line in lines)
    assert worst.unknown == sum(line.worst.unknown for line in lines)


# -- bills -------------------------------------------------------------------------------------------------------------


@settings(some, max_examples=examples(20, WHOLE))
@given(configs())
def test_the_bill_of_any_fleet_has_a_line_for_each_thing_and_adds_up(document: dict[str, object]) -> None:
    fleet = load(document)
    lines = bill(fleet, AS_OF)
    for name, held in fleet.clusters_by_name():
        items = [line.item for line in lines if line.cluster == name]
        assert items[: len(held.pools)] == [f"pool {each}" for each in held.pools], "GPU pools first, in the file's order"
        if fleet.deployable:
            assert {"system pool", "control plane", "disks"} < set(items)
        else:
            assert items[len(held.pools) :] in ([], ["GitHub"]), "of own machines what hosts beside the pools cost is not known"
        assert len(items) == len(set(items)), "each thing is paid once"
    idle, worst = total(lines)
    assert idle.usd <= average(lines).usd + 1e-9
    assert average(lines).usd <= worst.usd + 1e-9
    assert worst.usd == pytest.approx(sum(line.most * line.dear.usd for line in lines))
    assert worst.unknown == sum(line.dear.unknown for line in lines if line.most)


@pytest.mark.usefixtures("numbers")
def test_the_bill_of_staging_is_the_arithmetic_of_its_prices() -> None:
    gib = _unit("gp3-gb")
    expected = {
        "pool t4-spot": (0.0, 5 * _listed("g4dn.4xlarge"), True),
        "pool t4-ondemand": (0.0, 2 * _listed("g4dn.2xlarge"), False),
        "pool t4-release": (0.0, 2 * _listed("g4dn.2xlarge"), False),
        "system pool": (2 * _listed("m6i.large"), 4 * _listed("m6i.large"), False),
        # 2 x 50 GiB of the system pool; 5 x 200 + 2 x 200 + 2 x 200 + 4 x 50 GiB
        "disks": (100 * gib, 2000 * gib, False),
        # EKS starts two nodes more in the one group that it updates.
        "update": (0.0, 2 * (_listed("g4dn.4xlarge") + 200 * gib), True),
        # Nine new nodes pull 10 GB each.
        "NAT traffic": (0.0, 9 * 10 * _unit("nat-gateway-gb"), False),
        "control plane": (_unit("eks-control-plane"), _unit("eks-control-plane"), False),
        "control-plane logs": (0.02 * 0.5, 0.1 * 0.5, False),
        "NAT gateways": (_unit("nat-gateway"), _unit("nat-gateway"), False),
        "addresses": (0.005, 0.005, False),
        # 60 minutes of twelve runners: GitHub has postponed its charge.
        "GitHub": (0.0, 0.0, False),
    }
    lines = {line.item: line for line in bill(staging(), AS_OF)}
    assert list(lines) == list(expected)
    for item, (at_idle, at_worst, at_most) in expected.items():
        assert lines[item].idle.usd == pytest.approx(at_idle, abs=1e-9), item
        assert lines[item].worst.usd == pytest.approx(at_worst, abs=1e-9), item
        assert lines[item].worst.at_most is at_most, item
    idle, worst = total(lines.values())
    assert (str(idle), str(worst)) == ("0.363", "≤16.34"), "at the prices of 2026-07-20"


def _fleet(**changes: object) -> Fleet:
    return load(config(clusters={"usw2": cluster(**changes)}))


def _item(fleet: Fleet, item: str) -> Line | None:
    return next((line for line in bill(fleet, AS_OF) if line.item == item), None)


@pytest.mark.parametrize(("network", "count"), [({}, 1), ({"natGateways": "one"}, 1), ({"natGateways": "per-zone"}, 3)])
def test_nat_gateways_are_paid_once_or_for_each_zone(network: dict[str, str], count: int) -> None:
    line = _item(_fleet(zones=["us-west-2a", "us-west-2b", "us-west-2c"], network=network), "NAT gateways")
    assert line is not None
    assert line.idle.usd == line.worst.usd == pytest.approx(count * _unit("nat-gateway"))


def test_a_given_network_pays_no_nat_gateway_of_ours() -> None:
    subnets = {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}
    assert _item(_fleet(network={"vpcId": "vpc-01234567", "privateSubnets": subnets}), "NAT gateways") is None


def test_disks_follow_the_nodes() -> None:
    pools = {"a": pool(disk="100Gi", nodes={"min": 1, "max": 3}), "b": pool(disk="300Gi", nodes={"max": 2})}
    system = {"nodes": {"min": 3, "max": 5}, "disk": "40Gi"}
    line = _item(_fleet(pools=pools, runners={}, system=system), "disks")
    assert line is not None
    assert (line.least, line.most) == (100 + 3 * 40, 3 * 100 + 2 * 300 + 5 * 40)


def test_an_unpriced_pool_makes_the_worst_hour_unknown_but_not_the_idle_one() -> None:
    idle, worst = total(bill(_fleet(pools={"h200": pool(instanceTypes=["p5e.48xlarge"])}, runners={}), AS_OF))
    assert (idle.unknown, worst.unknown) == (0, 2), "no node is idle, and an update would start some"
    assert not idle.exceeds(1)
    assert worst.exceeds(1e9)
    assert str(worst).endswith(" + unknown")


def test_a_reserved_pool_is_paid_whole_used_or_not() -> None:
    reservation = {"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 3}
    held = pool(instanceTypes=["p4d.24xlarge"], capacity="reserved", reservation=reservation, nodes={"min": 0, "max": 2})
    line = _item(_fleet(pools={"a100": held}, runners={}), "pool a100")
    assert line is not None
    assert (line.least, line.most) == (3, 3), "all machines that are held, though two nodes at most use them"
    assert line.idle == line.worst == Money(3 * _listed("p4d.24xlarge"))
    assert not line.worst.at_most, "EC2 bills a reservation at the on-demand price"
    disks = _item(_fleet(pools={"a100": held}, runners={}), "disks")
    assert disks is not None
    assert (disks.least, disks.most) == (2 * 50, 2 * 200 + 4 * 50), "a disk is paid for a node, not for a reservation"


@pytest.mark.usefixtures("numbers")
def test_a_capacity_block_is_paid_whole_at_its_own_price_or_unknown() -> None:
    block = {"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 3}
    bought = {"capacity": "capacity-block", "reservation": block, "nodes": {"min": 0, "max": 2}}
    line = _item(_fleet(pools={"h200": pool(instanceTypes=["p5en.48xlarge"], **bought)}, runners={}), "pool h200")
    assert line is not None
    assert (line.least, line.most) == (3, 3)
    assert line.idle == line.worst == Money(3 * 41.61)
    unpriced = _item(_fleet(pools={"h100": pool(instanceTypes=["p5.48xlarge"], **bought)}, runners={}), "pool h100")
    assert unpriced is not None
    assert unpriced.idle.unknown == unpriced.worst.unknown == 1, "no price of a capacity block follows from the on-demand price"


# -- OKE ---------------------------------------------------------------------------------------------------------------


def _oke(**changes: object) -> dict[str, Line]:
    fleet = load(config(clusters={"sjc": oke_cluster(**changes)}))
    lines = {line.item: line for line in bill(fleet, AS_OF)}
    assert len(lines) == len(bill(fleet, AS_OF)), "each thing is paid once"
    return lines


@pytest.mark.usefixtures("numbers")
def test_the_bill_of_an_oke_cluster_is_the_arithmetic_of_its_prices() -> None:
    lines = _oke(
        runners={
            "gpu-a10": oke_runner(),
            "stands": vm(count=2),
            "boots": vm_per_job(shapes=["VM.GPU.A10.2"], scale={"max": 3}),
        },
        pools={"a10": oke_pool(nodes={"min": 1, "max": 4})},
        system={"ocpus": 4, "memory": "32Gi", "nodes": 3},
    )
    node = 4 * 0.03 + 32 * 0.002
    gb = (0.025 + 10 * 0.0017) / 730
    expected = {
        "pool a10": (2.0, 4 * 2.0),
        "machines stands": (2 * 2.0, 2 * 2.0),
        "machines boots": (0.0, 3 * 4.0),
        "system pool": (3 * node, 3 * node),
        # 3 x 100 GB of the system pool; 1 to 4 nodes, 2 machines and 0 to 3 machines of 400 GB
        "disks": ((300 + 400 + 800) * gb, (300 + 1600 + 800 + 1200) * gb),
        # OKE replaces a system node after the new one has come.
        "update": (0.0, node + 100 * gb),
        "control plane": (0.1, 0.1),
        "GitHub": (0.0, 0.0),
    }
    assert list(lines) == list(expected), "pools, machines, then what the cluster needs besides"
    for item, (idle, worst) in expected.items():
        assert lines[item].idle.usd == pytest.approx(idle, rel=1e-6), item
        assert lines[item].worst.usd == pytest.approx(worst, rel=1e-6), item
        assert not lines[item].worst.at_most, item
        assert not lines[item].worst.unknown, item
    assert lines["system pool"].what == "VM.Standard.E5.Flex, 4 OCPU, 32 GB"


@pytest.mark.usefixtures("numbers")
def test_standing_machines_are_paid_always_and_machines_of_jobs_from_their_least_count() -> None:
    lines = _oke(pools={}, runners={"stands": vm(count=5), "boots": vm_per_job(scale={"min": 1, "max": 20})})
    assert (str(lines["machines stands"].idle), str(lines["machines stands"].worst)) == ("10.00", "10.00")
    assert (str(lines["machines boots"].idle), str(lines["machines boots"].worst)) == ("2.000", "40.00")


@pytest.mark.usefixtures("numbers")
def test_machines_of_several_shapes_are_reckoned_on_the_dearest() -> None:
    shapes = ["BM.GPU4.8", "BM.GPU.B4.8"]
    line = _oke(pools={}, runners={"boots": vm_per_job(shapes=shapes, scale={"max": 3})})["machines boots"]
    assert hardware.price("BM.GPU.B4.8", "us-sanjose-1", "on-demand") is None, "else choose another shape for this test"
    assert line.cheap == Money(24.4)
    assert line.worst == Money(unknown=1), "the unpriced one may be the more expensive"
    assert line.idle == Money(), "none is booted"


@pytest.mark.usefixtures("numbers")
def test_preemptible_capacity_has_its_own_price() -> None:
    runners = {"boots": vm_per_job(shapes=["VM.GPU3.1"], capacity="spot", scale={"max": 3})}
    line = _oke(pools={"v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot")}, runners=runners)
    assert line["machines boots"].worst == Money(3 * 1.475)
    assert line["pool v100"].worst == Money(2 * 1.475)


@pytest.mark.usefixtures("numbers")
def test_an_oci_reservation_is_paid_whole_at_most() -> None:
    held = {"id": "ocid1.capacityreservation.oc1.sjc.example", "zone": "abcd:US-SANJOSE-1-AD-1", "count": 2}
    reserved = oke_pool(instanceTypes=["BM.GPU4.8"], capacity="reserved", reservation=held, nodes={"max": 1})
    line = _oke(pools={"a100": reserved}, runners={})["pool a100"]
    assert line.idle == line.worst == Money(2 * 24.4, at_most=True), "OCI takes less while it is unused"


def test_every_provider_has_a_bill() -> None:
    assert [name for name, row in PROVIDERS.items() if not callable(row.bill)] == []


# -- runner-hours ------------------------------------------------------------------------------------------------------


def _on(*types: str, gpus: int = 1, cpu: int = 4, memory: str = "8Gi", capacity: str = "on-demand") -> Placement:
    asked = runner_of(gpus, cpu, memory)
    machines = tuple(map(hardware.machine, types))
    host = Host("t4", machines, 2, capacity, 200 * 1024, (*daemonsets("eks"), PLUGIN_POD))
    return Placement("usw2", "gpu", asked, host, tuple(fit(asked, machine, host) for machine in machines))


def test_a_runner_hour_is_its_share_of_a_full_node() -> None:
    least, most = runner_hour(_on("g4dn.12xlarge"), OREGON)
    assert least == most == Money(_listed("g4dn.12xlarge") / 4)


def test_a_runner_hour_spans_the_pools_types() -> None:
    least, most = runner_hour(_on("g4dn.2xlarge", "g4dn.4xlarge", capacity="spot"), OREGON)
    assert least == Money(_listed("g4dn.2xlarge"), at_most=True)
    assert most == Money(_listed("g4dn.4xlarge"), at_most=True)


def test_stranded_gpus_make_a_runner_hour_dear() -> None:
    _, large = runner_hour(_on("g4dn.metal", cpu=29, memory="115Gi"), OREGON)
    _, right = runner_hour(_on("g4dn.8xlarge", cpu=29, memory="115Gi"), OREGON)
    assert large.usd == pytest.approx(_listed("g4dn.metal") / 3), "three of eight GPUs are used"
    assert right.usd == pytest.approx(_listed("g4dn.8xlarge"))
    assert large.usd > right.usd


def test_a_runner_hour_on_a_type_without_a_price_is_unknown_at_most() -> None:
    least, most = runner_hour(_on("p5en.48xlarge", "p5e.48xlarge", gpus=8), OREGON)
    assert least == Money(_listed("p5en.48xlarge"))
    assert most == Money(unknown=1)
    assert runner_hour(_on("p5e.48xlarge", gpus=8), OREGON) == (Money(unknown=1), Money(unknown=1))


def test_a_runner_hour_of_a_reserved_pool_is_its_share_of_the_full_price() -> None:
    least, most = runner_hour(_on("p4d.24xlarge", cpu=11, memory="128Gi", capacity="reserved"), OREGON)
    assert least == most == Money(_listed("p4d.24xlarge") / 8)


@pytest.mark.usefixtures("numbers")
def test_a_runner_hour_of_a_machine_is_the_machines() -> None:
    runners = {
        "stands": vm(count=2),
        "boots": vm_per_job(shapes=["VM.GPU.A10.2"], places=[place_of(), place_of(THERE)]),
        "cheap": vm_per_job(shapes=["VM.GPU3.1"], capacity="spot"),
        "either": vm_per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"]),
    }
    placements = place(load(config(clusters={"sjc": oke_cluster(pools={}, runners=runners)})))
    hours = {found.runner_set: runner_hour(found, "us-sanjose-1") for found in placements}
    assert hours["stands"] == (Money(2.0), Money(2.0))
    assert hours["boots"] == (Money(4.0), Money(4.0)), "a job has the machine with both GPUs"
    assert hours["cheap"] == (Money(1.475), Money(1.475))
    assert hours["either"] == (Money(24.4), Money(unknown=1))


def test_a_runner_that_fits_nowhere_has_no_price() -> None:
    assert runner_hour(_on("g4dn.2xlarge", gpus=4), OREGON) == (Money(unknown=1), Money(unknown=1))


@pytest.mark.usefixtures("numbers")
def test_the_runner_hours_of_staging() -> None:
    spot, fallback, release = (runner_hour(found, OREGON) for found in place(staging()))
    assert list(map(str, spot)) == ["≤0.752", "≤1.204"]
    assert list(map(str, fallback)) == ["0.752", "0.752"]
    assert list(map(str, release)) == ["0.752", "0.752"]


@pytest.mark.usefixtures("numbers")
def test_the_bill_of_prod_is_the_arithmetic_of_its_prices() -> None:
    fleet = load(read_stack(ROOT / "Pulumi.prod.yaml"))
    gib, gb = 0.08 / 730, (0.025 + 10 * 0.0017) / 730
    expected = {
        ("use1", "pool t4-spot"): (0, 10 * 1.204),
        ("use1", "pool t4-ondemand"): (0, 4 * 0.752),
        ("use1", "pool t4-release"): (0, 4 * 0.752),
        ("use1", "pool a10g-spot"): (0, 8 * 1.624),
        ("use1", "pool a10g-ondemand"): (0, 2 * 1.212),
        ("use1", "pool a10g-release"): (0, 2 * 1.212),
        ("use1", "system pool"): (3 * 0.096, 4 * 0.096),
        # 3 x 50 GiB; 10 + 4 + 4 + 8 + 2 + 2 nodes of 200, 4 x 50
        ("use1", "disks"): (150 * gib, (30 * 200 + 200) * gib),
        ("use1", "update"): (0, 2 * (1.624 + 200 * gib)),
        ("use1", "NAT traffic"): (0, 30 * 10 * 0.045),
        ("use1", "control plane"): (0.1, 0.1),
        ("use1", "control-plane logs"): (0.01, 0.05),
        ("use1", "NAT gateways"): (3 * 0.045, 3 * 0.045),
        ("use1", "addresses"): (3 * 0.005, 3 * 0.005),
        # Nothing in it, or 500 GB in the folder of each of two namespaces.
        ("use1", "cache models"): (0, 2 * 500 * 0.30 / 730),
        ("use1", "monitoring"): (50 * gib,) * 2,
        ("use1", "GitHub"): (0, 0),
        ("sjc", "machines oracle-vm-gpu-a10-1"): (0, 20 * 2.0),
        ("sjc", "machines oracle-vm-gpu-a10-2"): (0, 20 * 4.0),
        ("sjc", "system pool"): (2 * (4 * 0.03 + 32 * 0.002),) * 2,
        # 2 x 100 GB; 40 machines of 400
        ("sjc", "disks"): (200 * gb, (200 + 40 * 400) * gb),
        ("sjc", "update"): (0, 4 * 0.03 + 32 * 0.002 + 100 * gb),
        ("sjc", "control plane"): (0.1, 0.1),
        ("sjc", "monitoring"): (50 * gb,) * 2,
        ("sjc", "GitHub"): (0, 0),
    }
    _comes_to(fleet, expected)
    idle, _ = total(bill(fleet, AS_OF))
    assert idle.usd < 1.1, "a fleet that scales to zero costs about 1 USD an hour while it is idle"


@pytest.mark.usefixtures("numbers")
def test_the_bill_of_the_example_with_reserved_capacity_is_the_arithmetic_of_its_prices() -> None:
    gib = 0.08 / 730
    expected = {
        ("use1", "pool a100-reserved"): (P4D, P4D),
        ("use1", "pool a10g"): (0, 4 * 1.212),
        ("use1", "system pool"): (2 * 0.096, 4 * 0.096),
        # 500 + 2 x 50 GiB; one node of 500, 4 of 200, 4 x 50
        ("use1", "disks"): (600 * gib, (500 + 4 * 200 + 200) * gib),
        ("use1", "update"): (0, 2 * (1.212 + 200 * gib)),
        ("use1", "NAT traffic"): (0, 5 * 10 * 0.045),
        ("use1", "control plane"): (0.1, 0.1),
        ("use1", "control-plane logs"): (0.01, 0.05),
        ("use1", "NAT gateways"): (0.045, 0.045),
        ("use1", "addresses"): (0.005, 0.005),
        # Nothing in it, or 500 GB in the folder of each of two namespaces.
        ("use1", "cache models"): (0, 2 * 500 * 0.30 / 730),
        ("use1", "GitHub"): (0, 0),
    }
    _comes_to(reserved(), expected)


def _comes_to(fleet: Fleet, expected: dict[tuple[str, str], tuple[float, float]]) -> None:
    """The bill has exactly these lines, in this order: cluster and item → USD an hour, idle and at worst."""
    lines = {(line.cluster, line.item): line for line in bill(fleet, AS_OF)}
    assert list(lines) == list(expected)
    for item, (at_idle, at_worst) in expected.items():
        assert lines[item].idle.usd == pytest.approx(at_idle, rel=1e-5, abs=1e-9), item
        assert lines[item].worst.usd == pytest.approx(at_worst, rel=1e-5), item
        assert lines[item].worst.at_most is (item[1].endswith("-spot") or "spot" in lines[item].what), item
    idle, worst = total(lines.values())
    assert idle.usd == pytest.approx(sum(least for least, _ in expected.values()), rel=1e-5)
    assert worst.usd == pytest.approx(sum(most for _, most in expected.values()), rel=1e-5)
    assert (idle.unknown, worst.unknown) == (0, 0)


@cases(
    ("prices", "text"),
    [
        ([Money(0.376)], "0.376"),
        ([Money(0.376), Money(0.376)], "0.376"),
        ([Money(0.376), Money(0.188)], "0.188-0.376"),
        ([Money(0.376, at_most=True)], "0-0.376"),
        ([Money(0.376), Money(unknown=1)], ""),
        ([], ""),
    ],
)
def test_prices_of_which_one_is_paid_are_a_range_for_programs(prices, text):
    assert range_text(prices) == text
    assert text.isascii()
