"""The EC2 placement group of a pool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.settings.model import Model, problem, refusal

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
        if (self.strategy is None) == (self.name is None):
            raise problem(
                "placement_group", "a placement group is a new one (strategy) or an existing one (name); give one of the two"
            )
        if self.partitions is not None and self.strategy != "partition":
            raise problem("partitions", "only the strategy partition has partitions; remove them", at=("partitions",))

    @property
    def one_zone(self) -> bool:
        """Whether its machines have to be in one zone. The strategy of an existing group is not known here."""
        return self.strategy in (None, "cluster")
