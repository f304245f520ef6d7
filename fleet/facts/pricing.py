"""What an hour costs, before anything is bought: line by line, idle and at worst.

Standard library only, hardware aside: the policy pack ships this module. *Idle* is every pool at its minimum, *worst* every
pool at its maximum on its dearest type. Data transfer, load balancers and taxes are in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.facts import hardware


@dataclass(frozen=True, slots=True)
class Money:
    """USD an hour. `unknown` counts the parts without any price, which are not in `usd`; `at_most` marks an upper bound."""

    usd: float = 0.0
    at_most: bool = False
    unknown: int = 0

    def __add__(self, other: Money) -> Money:
        return Money(self.usd + other.usd, self.at_most or other.at_most, self.unknown + other.unknown)

    def times(self, count: float) -> Money:
        """The same for `count` of them; nothing bought costs nothing, even at an unknown price."""
        return Money(self.usd * count, self.at_most, self.unknown) if count else Money()

    def exceeds(self, ceiling: float) -> bool:
        """Whether it breaks a ceiling in USD an hour; an unknown price always does."""
        return self.unknown > 0 or self.usd > ceiling

    def __str__(self) -> str:
        if self.unknown and not self.usd:
            return "unknown"
        # Tenths of a cent below ten dollars: a NAT gateway costs 0.045.
        digits = 3 if self.usd < 10 else 2
        usd = f"{self.usd:.{digits}f}" if self.usd else "0"
        return f"{'≤' if self.at_most else ''}{usd}" + (" + unknown" if self.unknown else "")


def quoted(price: hardware.Price | None) -> Money:
    """A listed price as money; none at all is unknown, never 0."""
    return Money(unknown=1) if price is None else Money(price.usd_per_hour, price.at_most)


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a cluster's bill: the counts at idle and at worst, and the least and greatest price of one."""

    cluster: str
    item: str
    what: str
    least: float
    most: float
    cheap: Money
    dear: Money
    sources: tuple[str, ...]

    @property
    def idle(self) -> Money:
        """At the least count; on the dearest type, since which one is bought is not ours to choose."""
        return self.dear.times(self.least)

    @property
    def worst(self) -> Money:
        """At the greatest count, on the dearest type."""
        return self.dear.times(self.most)


def span(prices: Iterable[Money]) -> tuple[Money, Money]:
    """(least, most) of what is paid when one of several is bought: without all their prices the most is unknown."""
    asked = list(prices)
    known = sorted((price for price in asked if not price.unknown), key=lambda price: price.usd)
    if not known:
        return Money(unknown=1), Money(unknown=1)
    return known[0], known[-1] if len(known) == len(asked) else Money(unknown=1)


def nodes(cluster: str, item: str, types: Iterable[str], region: str, capacity: str, least: int, most: int) -> Line:
    """The line of a group of nodes of one or several types."""
    prices = {name: hardware.price(name, region, capacity) for name in types}
    cheapest, dearest = span(map(quoted, prices.values()))
    return Line(
        cluster,
        item,
        f"{' or '.join(prices)} {capacity}",
        least,
        most,
        cheapest,
        dearest,
        tuple(sorted({f"{price.source}, {price.date}" for price in prices.values() if price})),
    )


def units(cluster: str, item: str, what: str, unit: str, region: str, least: float, most: float) -> Line:
    """The line of something sold by the hour or the GiB-hour."""
    price = hardware.unit_price(unit, region)
    money = quoted(price)
    return Line(cluster, item, what, least, most, money, money, (f"{price.source}, {price.date}",) if price else ())


def bundle(cluster: str, item: str, what: str, parts: Mapping[str, float], region: str, least: float, most: float) -> Line:
    """The line of something paid by its parts: `parts` says how many of each unit one of them has."""
    prices = {unit: hardware.unit_price(unit, region) for unit in parts}
    money = sum((quoted(price).times(parts[unit]) for unit, price in prices.items()), Money())
    sources = tuple(sorted({f"{price.source}, {price.date}" for price in prices.values() if price}))
    return Line(cluster, item, what, least, most, money, money, sources)


_GP3_IOPS, _GP3_MIBPS = 3_000, 125
"""What every gp3 volume has without paying more."""
_OCI_VPUS = 10
"""VPUs a GB that are in the price of a balanced volume."""


def gp3_volume(gib: float, iops: float, throughput: float) -> dict[str, float]:
    """The units of a gp3 volume: its GiB, and the IOPS and MiB/s beyond those that each has."""
    parts = {"gp3-gb": gib, "gp3-iops": max(iops - _GP3_IOPS, 0), "gp3-mibps": max(throughput - _GP3_MIBPS, 0)}
    return {unit: count for unit, count in parts.items() if count}


def oci_volume(gib: float, vpus: float) -> dict[str, float]:
    """The units of a block volume of OCI's with so many VPUs a GB, 10 at least."""
    parts = {"oci-volume-gb": gib, "oci-vpu-gb": gib * max(vpus - _OCI_VPUS, 0)}
    return {unit: count for unit, count in parts.items() if count}


def total(lines: Iterable[Line]) -> tuple[Money, Money]:
    """(idle, worst) of a bill."""
    idle = worst = Money()
    for line in lines:
        idle, worst = idle + line.idle, worst + line.worst
    return idle, worst
