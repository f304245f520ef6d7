"""Limits of gp3 volumes and of the machines that use them."""

from __future__ import annotations

from typing import Any

import botocore.loaders
import pytest

from fleet.facts import disks, hardware
from tests.builders import reference


@pytest.mark.parametrize(("mibps", "seconds"), [(125, 205), (417, 61), (1000, 26)])
def test_25_gib_take_the_seconds_that_their_bytes_need(mibps: int, seconds: int) -> None:
    assert round(disks.write_seconds(25, mibps)) == seconds


def test_a_volume_is_as_fast_as_its_machine_lets_it_be() -> None:
    assert disks.gp3_on(hardware.machine("g4dn.2xlarge"), 1000) == 417
    assert disks.gp3_on(hardware.machine("g4dn.2xlarge"), 125) == 125
    assert disks.gp3_on(hardware.machine("p3.2xlarge"), 125) is None, "no source has the EBS limit of p3"


def test_the_limits_of_gp3_are_those_of_the_api() -> None:
    shapes: Any = botocore.loaders.Loader().load_service_model("ec2", "service-2")["shapes"]
    members = shapes["LaunchTemplateEbsBlockDeviceRequest"]["members"]
    assert f"gp3: {disks.GP3_IOPS:,} - {disks.GP3_MOST_IOPS:,} IOPS" in members["Iops"]["documentation"].replace("</code>", "")
    throughput = members["Throughput"]["documentation"]
    assert f"Minimum value of {disks.GP3_MIBPS}. Maximum value of {disks.GP3_MOST_MIBPS:,}." in throughput


@pytest.mark.reference
def test_the_limits_of_machines_are_those_of_karpenter() -> None:
    rows = [row.split(",") for row in reference("starts/disks.csv").read_text(encoding="utf-8").splitlines()[1:]]
    listed = {row[0]: int(row[2]) for row in rows}
    ours = {each.name: disks.ebs_mibps(each) for each in hardware.machines("aws") if each.name in listed}
    assert len(ours) > 40
    assert ours == {name: listed[name] for name in ours}
