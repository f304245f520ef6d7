"""The figures of the page on EKS nodes are those of the facts."""

from __future__ import annotations

import pytest

from fleet.facts.disks import FAST_PULL_MIBPS, GP3_MIBPS, ebs_mibps, write_seconds
from fleet.facts.hardware import machines
from fleet.facts.pricing import bundle
from fleet.providers.eks.capacity import IMAGE_GIB
from fleet.providers.eks.node_options import DiskPerformance
from tests.docs.markdown import ROOT, section

PAGE = ROOT / "docs" / "eks-nodes.md"
SLOW = ("g4dn", "g5", "g6", "g6e", "g7e")


@pytest.mark.parametrize("disk", [DiskPerformance(throughput=417), DiskPerformance(throughput=1000, iops=4000)], ids=str)
def test_a_faster_root_disk_costs_and_saves_what_the_table_says(disk: DiskPerformance) -> None:
    least = write_seconds(IMAGE_GIB, GP3_MIBPS)
    saved = least - write_seconds(IMAGE_GIB, disk.throughput)
    usd = bundle("", "", "", disk.extra, "us-east-1", 1, 1).dear
    (row,) = [line for line in section(PAGE, "faster-starts").splitlines() if f"root disk, {disk.throughput:,} MiB/s" in line]
    assert [cell.strip() for cell in row.split("|")][-3:-1] == [str(usd), f"0-{saved:.0f} of {least:.0f}"]


def test_the_types_on_which_no_ebs_volume_is_fast_enough_are_those_of_the_page() -> None:
    slow = {each.name for each in machines("aws") if each.gpus and 0 < (ebs_mibps(each) or 0) < FAST_PULL_MIBPS}
    small = {
        each.name
        for each in machines("aws")
        if (each.name.split(".")[0] in SLOW and each.name.split(".")[1] in ("xlarge", "2xlarge"))
    }
    assert slow == small | {"g4dn.4xlarge", "g5.4xlarge"}
    text = " ".join(section(PAGE, "node-settings").split())
    assert f"on {', '.join(SLOW[:-1])} and {SLOW[-1]} types up to 2xlarge, nor on g4dn.4xlarge and g5.4xlarge" in text
