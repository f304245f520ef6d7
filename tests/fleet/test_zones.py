"""fleet/facts/data/zones.csv: the regions that `make init` offers."""

from __future__ import annotations

import re
from datetime import date

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from fleet.facts import hardware
from fleet.facts.hardware import ON_DEMAND
from fleet.facts.tables import rows
from fleet.providers.oke.ocid import in_region, key_of
from tests.builders import ROOT
from tests.cases import cases

ROWS = rows("zones.csv")
AWS, OCI = ([row for row in ROWS if row["cloud"] == cloud] for cloud in ("aws", "oci"))
PAID = ("eks-control-plane", "eks-control-plane-extended", "nat-gateway", "kms-key", "ecr-gb", "gp3-gb")
"""What a cluster on EKS pays besides machines."""


def test_each_row_has_a_cloud_a_source_and_a_date() -> None:
    sources = (ROOT / "fleet" / "facts" / "data" / "README.md").read_text()
    assert len({row["region"] for row in ROWS}) == len(ROWS) == len(AWS) + len(OCI)
    for row in ROWS:
        assert f"| {row['source']} |" in sources, row
        assert date.fromisoformat(row["date"]) <= date(2026, 11, 23), row


@cases("row", AWS)
def test_a_region_of_aws_has_zones_that_ec2_has_and_every_price_of_a_new_cluster(row: dict[str, str]) -> None:
    region, zones = row["region"], row["zones"].split()
    assert zones == [zone.name for zone in RegionsAndZonesBackend.zones[region]][:3]
    assert [item for item in PAID if hardware.unit_price(item, region) is None] == []
    assert hardware.price("m6i.large", region, ON_DEMAND) is not None, "the system pool"
    assert any(each.gpus and hardware.price(each.name, region, ON_DEMAND) for each in hardware.machines("aws"))


def test_every_region_of_aws_with_a_price_is_offered() -> None:
    assert {row["region"] for row in rows("prices.csv")} - {"*"} == {row["region"] for row in AWS}


@cases("row", OCI)
def test_availability_domains_are_those_of_the_region(row: dict[str, str]) -> None:
    assert key_of(row["region"])
    assert [int(re.sub(r".*-AD-", "", name)) for name in row["zones"].split()] in ([1], [1, 2, 3])
    assert all(in_region(f"abcd:{name}", row["region"]) for name in row["zones"].split())
