"""What spot machines have cost, how often EC2 took them back, and when machines are similar enough for one pool.

Standard library only: the policy pack ships this module. The figures are in `data/spot.csv`, with source and date.
"""

from functools import cache

from fleet.facts.groups import grouped
from fleet.facts.hardware import ON_DEMAND, Machine, price
from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

MIN_TYPES = MIN_ZONES = 2
"""Machine types and zones that a spot pool needs, so that a type that is sold out in a zone does not stop it."""
MAX_SPREAD = 2
"""How many times the vCPUs or memory of another type a type of its pool may have. Cluster Autoscaler counts with one type."""


class Sighting(Record, kw_only=True):
    """What a source says of a machine type in a region.

    `usd_per_hour` is 0 if the source has no price. `saving` is how many percent of the on-demand price the spot price was below
    it, as an average of 30 days and all zones. `interruption` is how often EC2 took such machines back in the last month, as
    AWS's band: "<5%", "5-10%", "10-15%", "15-20%" or ">20%". Empty if the source has none.
    """

    machine: str
    region: str
    usd_per_hour: float
    saving: int | None
    interruption: str
    source: str
    date: str

    @property
    def usd(self) -> float | None:
        """USD an hour. From a saving it is derived with the on-demand price of today. None if a part is not known."""
        if self.usd_per_hour:
            return self.usd_per_hour
        full = price(self.machine, self.region, ON_DEMAND)
        return None if self.saving is None or full is None else full.usd_per_hour * (1 - self.saving / 100)


class History(Record):
    """All sightings of a machine type in a region, oldest first."""

    sightings: tuple[Sighting, ...]

    @property
    def interruption(self) -> str:
        """The latest band of interruptions, or nothing."""
        return next((sighting.interruption for sighting in reversed(self.sightings) if sighting.interruption), "")

    @property
    def sources(self) -> frozenset[str]:
        """Each source with its date."""
        return frozenset(f"{sighting.source}, {sighting.date}" for sighting in self.sightings)

    def __str__(self) -> str:
        often = f"{self.interruption} interrupted in a month" if self.interruption else "interruptions unknown"
        prices = [usd for sighting in self.sightings if (usd := sighting.usd) is not None]
        if len(prices) < 2:
            return f"{prices[0]:.3f} USD/h (one price, no history), {often}" if prices else f"price unknown, {often}"
        return f"{min(prices):.3f}-{max(prices):.3f} USD/h, {often}"


def history(name: str, region: str) -> History:
    """What the sources say of a machine type in a region. It is empty if no source names it."""
    return History(tuple(_sightings().get((name, region), ())))


def spread(first: Machine, second: Machine) -> float:
    """How many times the vCPUs or memory of the smaller machine the larger one has, whichever is more."""
    pairs = ((first.vcpus, second.vcpus), (first.memory_mib, second.memory_mib))
    return max(max(pair) / max(min(pair), 1) for pair in pairs)


@cache
def _sightings() -> dict[tuple[str, str], list[Sighting]]:
    sightings = sorted((entry(Sighting, row) for row in rows("spot.csv")), key=lambda sighting: sighting.date)
    return grouped(((sighting.machine, sighting.region), sighting) for sighting in sightings)
