"""Support of Kubernetes on EKS: what a control plane costs on a day, in the bill, in the remark and in the cost policy."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from fleet.facts import support, versions
from fleet.facts.pricing import total
from fleet.facts.support import EKS_SUPPORT, EXTENDED, STANDARD, control_plane
from fleet.loading.config import load
from fleet.prove.bill import bill
from tests.builders import cluster, config, pool, runner
from tests.cases import cases
from tests.day import AS_OF

pytestmark = pytest.mark.usefixtures("catalogue")
TABLE = Path(support.__file__).parent / "data" / "eks_support.csv"


@cases(
    ("minor", "day", "item"),
    [
        ("1.34", "2026-12-01", STANDARD),
        ("1.34", "2026-12-02", EXTENDED),
        ("1.34", "2028-01-01", EXTENDED),
        ("1.35", "2027-03-26", STANDARD),
        ("1.35", "2027-03-27", EXTENDED),
        ("1.36", "2027-09-01", EXTENDED),
        ("1.37", "2027-09-01", STANDARD),
        ("1.30", "2026-11-22", EXTENDED),
        ("1.40", "2026-11-22", STANDARD),
        ("1.40", "2028-01-01", EXTENDED),
        ("1.9", "2026-11-22", EXTENDED),
        ("1.34.3", "2026-12-02", EXTENDED),
        ("v1.34", "2026-12-01", STANDARD),
        ("v1.34", "2026-12-02", EXTENDED),
        ("v1.20", "2026-11-22", EXTENDED),
        ("34", "2026-11-22", EXTENDED),
        ("latest", "2026-11-22", EXTENDED),
        ("1." + "9" * 5000, "2026-11-22", EXTENDED),
    ],
)
def test_a_control_plane_costs_more_from_the_first_day_of_extended_support(minor: str, day: str, item: str) -> None:
    assert control_plane(minor, date.fromisoformat(day)) == item


def test_every_minor_has_its_dates_in_order_with_a_source() -> None:
    with TABLE.open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert [row["minor"] for row in rows] == sorted(EKS_SUPPORT, key=versions.minor), "the oldest first"
    for row in rows:
        days = [date.fromisoformat(row[column]) for column in ("released", "standard_until", "extended_until")]
        assert days == sorted(days), row["minor"]
        assert row["source"].strip()
        assert date.fromisoformat(row["date"])


def test_a_minor_of_oke_has_ended_or_ends_after_a_release_with_a_source() -> None:
    with TABLE.with_name("oke_support.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    minors = [row["minor"] for row in rows]
    assert minors == sorted(minors, key=versions.minor), "the oldest first"
    assert set(versions.OKE_KUBERNETES) <= {row["minor"] for row in rows if not row["ended"]}, "no pinned minor has ended"
    releases = [date.fromisoformat(row["released"]) for row in rows]
    assert releases == sorted(releases)
    for row, released in zip(rows, releases, strict=True):
        assert bool(row["ended"]) != bool(row["ends_after"]), row["minor"]
        assert not row["ended"] or released < date.fromisoformat(row["ended"])
        # Oracle takes three minors for new clusters and a fourth for 30 days more.
        assert not row["ends_after"] or versions.minor(row["ends_after"])[1] == versions.minor(row["minor"])[1] + 3
        assert row["source"].strip()
        assert date.fromisoformat(row["date"])


def told(minor: str, day: date, region: str = "us-west-2") -> tuple[str, str, float]:
    """(words of the bill, remark, USD an hour of the control plane) of a cluster."""
    zones = [f"{region}a", f"{region}b"]
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion=minor, region=region, zones=zones)}))
    (line,) = (line for line in bill(fleet, day) if line.item == "control plane")
    (remark,) = fleet.clusters["usw2"].remarks_on(day)
    return line.what, remark, line.idle.usd


def test_the_bill_and_the_remark_say_when_and_how_much() -> None:
    cost = "the control plane costs 0.60 instead of 0.10 USD/h, 365 USD a month more"
    assert told("1.34", date(2026, 12, 1)) == (
        "EKS 1.34, standard support until 2026-12-02",
        f"kubernetesVersion: EKS 1.34 is in standard support until 2026-12-02; from that day on, {cost}",
        0.10,
    )
    assert told("1.34", date(2026, 12, 2)) == (
        "EKS 1.34, extended support since 2026-12-02",
        f"kubernetesVersion: EKS 1.34 has been in extended support since 2026-12-02: {cost}; upgrade one minor at a time "
        "(docs/upgrades.md) before 2027-12-02, when AWS starts to force upgrades",
        0.60,
    )
    assert told("1.34", date(2027, 12, 2))[1] == (
        "kubernetesVersion: EKS 1.34 has been out of support since 2027-12-02: AWS may upgrade the control plane on any day; "
        f"{cost}"
    )


def remarks_of(policy: str | None, day: str) -> tuple[str, ...]:
    changes = {"upgradePolicy": policy} if policy else {}
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion="1.34", **changes)}))
    return tuple(fleet.clusters["usw2"].remarks_on(date.fromisoformat(day)))


def test_with_the_policy_standard_the_remark_says_that_aws_upgrades() -> None:
    (remark,) = remarks_of("STANDARD", "2026-12-01")
    assert remark == (
        "kubernetesVersion: EKS 1.34 is in standard support until 2026-12-02; from that day on AWS upgrades the control plane "
        "to the next minor by itself (upgradePolicy STANDARD); upgrade before (docs/upgrades.md)"
    )


@pytest.mark.parametrize("day", ["2026-12-02", "2027-12-02"])
def test_the_policy_standard_contradicts_a_minor_without_standard_support(day: str) -> None:
    usual = remarks_of(None, day)
    assert remarks_of("EXTENDED", day) == usual
    *first, contradiction = remarks_of("STANDARD", day)
    assert tuple(first) == usual, "the price follows from the day"
    assert contradiction.startswith(
        "upgradePolicy: STANDARD contradicts kubernetesVersion: EKS 1.34 has had no standard support since 2026-12-02. EKS "
    )


@pytest.mark.parametrize("policy", [None, "EXTENDED", "STANDARD"])
def test_the_price_of_a_control_plane_follows_from_the_day_and_not_from_the_policy(policy: str | None) -> None:
    changes = {"upgradePolicy": policy} if policy else {}
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion="1.34", **changes)}))
    prices = [
        next(line.idle.usd for line in bill(fleet, date.fromisoformat(day)) if line.item == "control plane")
        for day in ("2026-12-01", "2026-12-02")
    ]
    assert prices == [0.10, 0.60]


def test_in_a_region_without_a_price_the_remark_says_that() -> None:
    _, remark, _ = told("1.36", AS_OF, "af-south-1")
    assert remark.endswith("the control plane costs more (its price in af-south-1 is unknown)")


def test_the_difference_of_the_two_prices_is_the_difference_of_the_bills() -> None:
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion="1.34")}))
    last = EKS_SUPPORT["1.34"].standard_until
    before, after = (total(bill(fleet, day))[0].usd for day in (last - timedelta(days=1), last))
    assert after - before == pytest.approx(0.5)


def test_a_node_image_whose_driver_no_source_names_makes_compatibility_undeterminable(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(versions.KUBERNETES["1.36"], driver=None)
    monkeypatch.setitem(versions.KUBERNETES, "1.36", row)
    pools = {"v100": pool(instanceTypes=["p3.2xlarge"])}
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion="1.36", pools=pools, runners={"v": runner(pool="v100")})}))
    (remark,) = (each for each in fleet.clusters["usw2"].remarks if "undeterminable" in each)
    assert remark == (
        "pool v100: compatibility of driver, GPU (V100 (p3.2xlarge) works with driver branch R580 or older) and CUDA images is "
        "undeterminable: no source names the NVIDIA driver of its node image; "
        f"run nvidia-smi on a node of {row.ami_release} first"
    )


def test_cdi_on_a_node_image_whose_toolkit_no_source_names_is_undeterminable() -> None:
    fleet = load(config(clusters={"usw2": cluster(kubernetesVersion="1.36", pools={"t4": pool(cdi=True)})}))
    (remark,) = (each for each in fleet.clusters["usw2"].remarks if "cdi" in each)
    image = versions.KUBERNETES["1.36"].ami_release
    assert remark.startswith(f"pool t4: cdi is undeterminable: no source names the container toolkit of node image {image}")
