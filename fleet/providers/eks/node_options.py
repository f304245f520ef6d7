"""Options of a pool's EC2 machines: their placement group, and the performance of their root disk, a gp3 volume."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.facts.disks import GP3_IOPS, GP3_IOPS_PER_MIBPS, GP3_MIBPS, GP3_MOST_IOPS, GP3_MOST_MIBPS
from fleet.facts.pricing import gp3_volume
from fleet.settings.model import Model
from fleet.settings.refusals import problem, refusal, refuse

SPREAD_PER_ZONE = 7
"""Running machines of a spread placement group in one zone (EC2 user guide, placement group rules and limitations)."""


class PlacementGroup(Model):
    """A new placement group with a strategy, or an existing one by its name. EC2 charges nothing for it."""

    strategy: Literal["cluster", "spread", "partition"] | None = None
    """How EC2 places the machines of a new group: `cluster` close together in one zone, `spread` on different hardware,
    `partition` in separate groups of racks. Give this or `name`."""
    partitions: Annotated[int, Field(ge=1, le=7)] | None = None
    """Partitions in each zone, with the strategy `partition`. EC2's default is 2. Unit: partitions. Example: `3`"""
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Name of an existing placement group. Give this or `strategy`. Example: `training`"""

    @refusal
    def _group_rules(self) -> None:
        """Refuse a group that is new and existing, or neither, and partitions of another strategy."""
        refuse(placement_group=(self.strategy is None) == (self.name is None))
        refuse("partitions", partitions=self.partitions is not None and self.strategy != "partition")

    @property
    def one_zone(self) -> bool:
        """Whether its machines have to be in one zone. The strategy of an existing group is not known here."""
        return self.strategy in (None, "cluster")


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
            raise problem("disk_throughput", at=("throughput",), per_mibps=GP3_IOPS_PER_MIBPS, iops=self.iops, needed=needed)

    @property
    def extra(self) -> dict[str, float]:
        """The IOPS and MiB/s of a disk that cost extra, by unit of the price table."""
        return gp3_volume(0, self.iops, self.throughput)

    def __str__(self) -> str:
        """For example "gp3, 600 MiB/s, 3000 IOPS"."""
        return f"gp3, {self.throughput} MiB/s, {self.iops} IOPS"
