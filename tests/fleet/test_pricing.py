"""Money, lines and bills: nothing unknown counts as 0, an upper bound stays one, and sums are the sums of their lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import hardware
from fleet.bill import bill, runner_hour
from fleet.placement import Placement, fit, place
from fleet.pricing import Line, Money, nodes, quoted, total, units
from fleet.providers import PROVIDERS
from fleet.settings import Fleet, load
from tests.builders import cluster, config, pool, pool_of, runner_of, staging
from tests.strategies import configs

OREGON = "us-west-2"
some = settings(deadline=None, max_examples=60, database=None)


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


@pytest.mark.parametrize(
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


def test_a_line_of_nodes_reckons_with_the_dearest_type() -> None:
    line = nodes("usw2", "pool t4", ["g4dn.2xlarge", "g4dn.4xlarge"], OREGON, "on-demand", 1, 5)
    assert line.cheap == Money(_listed("g4dn.2xlarge"))
    assert line.dear == Money(_listed("g4dn.4xlarge"))
    assert line.idle == Money(_listed("g4dn.4xlarge"))
    assert line.worst.usd == pytest.approx(5 * _listed("g4dn.4xlarge"))
    assert line.what == "g4dn.2xlarge or g4dn.4xlarge on-demand"
    assert line.sources == ("SkyPilot catalogue, 2026-07-20",), "each source once, with its date"


def test_spot_without_a_price_of_its_own_is_bounded_by_on_demand() -> None:
    line = nodes("usw2", "pool t4", ["g4dn.2xlarge"], OREGON, "spot", 0, 5)
    assert line.dear == Money(_listed("g4dn.2xlarge"), at_most=True)
    assert str(line.worst) == "≤3.760"
    assert line.idle == Money(), "no node, no price, no mark"


def test_a_type_without_a_price_is_unknown_in_its_line() -> None:
    line = nodes("usw2", "pool h200", ["p5e.48xlarge"], OREGON, "on-demand", 0, 2)
    assert hardware.price("p5e.48xlarge", OREGON, "on-demand") is None, "else choose another type for this test"
    assert line.cheap == line.dear == Money(unknown=1)
    assert line.worst.exceeds(1e9)
    assert str(line.worst) == "unknown"
    assert line.idle == Money()
    assert line.sources == ()


def test_one_type_without_a_price_marks_the_line_of_several() -> None:
    line = nodes("usw2", "pool h200", ["p5en.48xlarge", "p5e.48xlarge"], OREGON, "on-demand", 1, 2)
    assert line.cheap == Money(_listed("p5en.48xlarge"))
    assert line.dear == Money(unknown=1), "one of the two is bought, and the dearer may be the unpriced one"
    assert line.idle.exceeds(1e9)
    assert str(line.idle) == "unknown"


def test_units_are_priced_by_their_count() -> None:
    line = units("usw2", "disks", "gp3, GiB", "gp3-gb", OREGON, 100.0, 1600.0)
    assert line.idle.usd == pytest.approx(100 * _unit("gp3-gb"))
    assert line.worst.usd == pytest.approx(1600 * _unit("gp3-gb"))
    nowhere = units("euc1", "control plane", "EKS", "eks-control-plane", "eu-central-1", 1, 1)
    assert nowhere.worst == Money(unknown=1), "a region without a price is unknown"


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


@settings(some, max_examples=20)
@given(configs())
def test_the_bill_of_any_fleet_has_a_line_for_each_thing_and_adds_up(document: dict[str, object]) -> None:
    fleet = load(document)
    lines = bill(fleet)
    for name, held in fleet.clusters_by_name():
        items = [line.item for line in lines if line.cluster == name]
        assert items[: len(held.pools)] == [f"pool {each}" for each in held.pools], "GPU pools first, in the file's order"
        assert {"system pool", "control plane", "disks"} < set(items)
        assert len(items) == len(set(items)), "each thing is paid once"
    idle, worst = total(lines)
    assert idle.usd <= worst.usd + 1e-9
    assert worst.usd == pytest.approx(sum(line.most * line.dear.usd for line in lines))
    assert worst.unknown == sum(line.dear.unknown for line in lines if line.most)


def test_the_bill_of_staging_is_the_arithmetic_of_its_prices() -> None:
    gib = _unit("gp3-gb")
    expected = {
        "pool t4-spot": (0.0, 5 * _listed("g4dn.4xlarge"), True),
        "pool t4-release": (0.0, 2 * _listed("g4dn.2xlarge"), False),
        "system pool": (2 * _listed("m6i.large"), 4 * _listed("m6i.large"), False),
        "control plane": (_unit("eks-control-plane"), _unit("eks-control-plane"), False),
        "NAT gateways": (_unit("nat-gateway"), _unit("nat-gateway"), False),
        # 2 x 50 GiB of the system pool; 5 x 200 + 2 x 200 + 4 x 50 GiB
        "disks": (100 * gib, 1600 * gib, False),
    }
    lines = {line.item: line for line in bill(staging())}
    assert list(lines) == list(expected)
    for item, (at_idle, at_worst, at_most) in expected.items():
        assert lines[item].idle.usd == pytest.approx(at_idle, abs=1e-9), item
        assert lines[item].worst.usd == pytest.approx(at_worst, abs=1e-9), item
        assert lines[item].worst.at_most is at_most, item
    idle, worst = total(lines.values())
    assert (str(idle), str(worst)) == ("0.348", "≤8.228"), "at the prices of 2026-07-20"


def _fleet(**changes: object) -> Fleet:
    return load(config(clusters={"usw2": cluster(**changes)}))


def _item(fleet: Fleet, item: str) -> Line | None:
    return next((line for line in bill(fleet) if line.item == item), None)


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
    idle, worst = total(bill(_fleet(pools={"h200": pool(instanceTypes=["p5e.48xlarge"])}, runners={})))
    assert not idle.exceeds(1), "no node stands idle"
    assert worst.exceeds(1e9)
    assert str(worst).endswith(" + unknown")


def test_every_provider_has_a_bill() -> None:
    assert [name for name, row in PROVIDERS.items() if not callable(row.bill)] == []


# -- runner-hours ------------------------------------------------------------------------------------------------------


def _on(*types: str, gpus: int = 1, cpu: int = 4, memory: str = "8Gi", capacity: str = "on-demand") -> Placement:
    asked, held = runner_of(gpus, cpu, memory), pool_of(instanceTypes=list(types), capacity=capacity)
    return Placement("usw2", "gpu", asked, "t4", held, tuple(fit(asked, machine, held.disk) for machine in held.machines))


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


def test_a_runner_that_fits_nowhere_has_no_price() -> None:
    assert runner_hour(_on("g4dn.2xlarge", gpus=4), OREGON) == (Money(unknown=1), Money(unknown=1))


def test_the_runner_hours_of_staging() -> None:
    spot, release = (runner_hour(found, OREGON) for found in place(staging()))
    assert list(map(str, spot)) == ["≤0.752", "≤1.204"]
    assert list(map(str, release)) == ["0.752", "0.752"]
