"""The performance of a pool's root disk, a gp3 volume."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.facts.disks import GP3_IOPS, GP3_IOPS_PER_MIBPS, GP3_MIBPS, GP3_MOST_IOPS, GP3_MOST_MIBPS
from fleet.facts.pricing import gp3_volume
from fleet.settings.model import Model, problem, refusal


class DiskPerformance(Model):
    """Throughput and IOPS of a root disk. What is above 125 MiB/s and 3,000 IOPS costs extra."""

    throughput: Annotated[int, Field(ge=GP3_MIBPS, le=GP3_MOST_MIBPS)] = GP3_MIBPS
    """Throughput of the root disk. Above 125 it costs extra, and each MiB/s needs 4 IOPS. Unit: MiB/s. Example: `600`"""
    iops: Annotated[int, Field(ge=GP3_IOPS, le=GP3_MOST_IOPS)] = GP3_IOPS
    """IOPS of the root disk. IOPS above 3,000 cost extra. Unit: operations per second. Example: `6000`"""

    @refusal
    def _gp3_rules(self) -> None:
        """Refuse a throughput that EC2 refuses for the IOPS."""
        if (needed := self.throughput * GP3_IOPS_PER_MIBPS) > self.iops:
            raise problem(
                "disk_throughput",
                f"gp3 needs {GP3_IOPS_PER_MIBPS} IOPS per MiB/s, and the disk has {self.iops}; raise iops to {needed}, or lower "
                "throughput",
                at=("throughput",),
            )

    @property
    def extra(self) -> dict[str, float]:
        """The IOPS and MiB/s of a disk that cost extra, by unit of the price table."""
        return gp3_volume(0, self.iops, self.throughput)

    def __str__(self) -> str:
        """For example "gp3, 600 MiB/s, 3000 IOPS"."""
        return f"gp3, {self.throughput} MiB/s, {self.iops} IOPS"


DEFAULT = DiskPerformance()
"""What every gp3 volume has."""
