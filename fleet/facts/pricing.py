"""Money, and the lines of a bill: what each costs in an idle, an average and the worst hour (`fleet.facts.bill` counts them).

Standard library only, besides `hardware`, because the policy pack contains this module. No hour includes data transfer between
zones and to the internet, load balancers and taxes.
"""

import math
from collections.abc import Iterable, Mapping

from fleet.facts import hardware
from fleet.facts.disks import GP3_IOPS, GP3_MIBPS
from fleet.facts.manifest import filled
from fleet.facts.record import Record


def rounded_up(usd: float, digits: int = 2) -> float:
    """An amount that is a bound, with so many digits: never below it."""
    unit: float = 10**digits
    return math.ceil(round(usd * unit, 4)) / unit


class Money(Record):
    """USD per hour. `unknown` counts the parts whose price is not known, which `usd` lacks. `at_most`: an upper bound."""

    usd: float = 0.0
    at_most: bool = False
    unknown: int = 0

    def __add__(self, more: "Money") -> "Money":
        return Money(self.usd + more.usd, self.at_most or more.at_most, self.unknown + more.unknown)

    def times(self, count: float) -> "Money":
        """The price of `count` of them. Zero of them cost 0, even if the price is unknown."""
        return Money(self.usd * count, self.at_most, self.unknown) if count else Money()

    def exceeds(self, ceiling: float) -> bool:
        """Whether it is above a ceiling in USD per hour. An unknown price always is."""
        return self.unknown > 0 or self.usd > ceiling

    def __str__(self) -> str:
        if self.unknown and not self.usd:
            return "unknown"
        # Tenths of a cent below ten dollars: a NAT gateway costs 0.045.
        digits = 3 if self.usd < 10 else 2
        # An upper bound is rounded up, or it would be none.
        amount = rounded_up(self.usd, digits) if self.at_most else self.usd
        usd = f"{amount:.{digits}f}" if self.usd else "0"
        return f"{'≤' if self.at_most else ''}{usd}" + (" + unknown" if self.unknown else "")


def quoted(price: hardware.Price | None) -> Money:
    """A listed price as money. No price is unknown, never 0."""
    return Money(unknown=1) if price is None else Money(price.usd_per_hour, price.at_most)


class Line(Record):
    """One item of a cluster's bill: its counts when idle, on average and at worst, and the lowest and highest price of one.

    `average` is None if it is always the least.
    """

    cluster: str
    item: str
    what: str
    least: float
    most: float
    cheap: Money
    dear: Money
    sources: tuple[str, ...]
    average: float | None = None

    @property
    def idle(self) -> Money:
        """The price of the least count on the most expensive type, because the autoscaler chooses the type."""
        return self.dear.times(self.least)

    @property
    def usual(self) -> float:
        """The average count of a week without jobs."""
        return self.least if self.average is None else self.average

    @property
    def mean(self) -> Money:
        """The price of that count on the most expensive type."""
        return self.dear.times(self.usual)

    @property
    def worst(self) -> Money:
        """The price of the greatest count on the most expensive type."""
        return self.dear.times(self.most)


def span(prices: Iterable[Money]) -> tuple[Money, Money]:
    """(lowest, highest) of several prices, of which one is paid. The highest is unknown unless all prices are known."""
    choices = list(prices)
    if not (sorted_prices := sorted((price for price in choices if not price.unknown), key=lambda price: price.usd)):
        return Money(unknown=1), Money(unknown=1)
    return sorted_prices[0], sorted_prices[-1] if len(sorted_prices) == len(choices) else Money(unknown=1)


USD_PER_HOUR = "GPU_CI_USD_PER_HOUR"
"""Variable of a runner: what its part of the machine costs, as `range_text` writes it. The action job-cost reads it."""


def range_text(prices: Iterable[Money]) -> str:
    """Several prices of which one is paid, for programs: "0.376", or "0.188-0.376". Empty if a price is unknown.

    An upper bound is a range from 0. Plain ASCII, at most six digits.
    """
    choices = list(prices)
    low, high = span(choices)
    if high.unknown:
        return ""
    least = 0 if any(price.at_most for price in choices) else low.usd
    return f"{high.usd:.6g}" if least == high.usd else f"{least:.6g}-{high.usd:.6g}"


def nodes(cluster: str, item: str, types: Iterable[str], region: str, capacity: str, least: float, most: float) -> Line:
    """The line of a group of nodes of one or several types."""
    prices = {name: hardware.price(name, region, capacity) for name in types}
    what = f"{' or '.join(prices)} {capacity}"
    return Line(cluster, item, what, least, most, *span(map(quoted, prices.values())), _sources(prices.values()))


def units(cluster: str, item: str, what: str, unit: str, region: str, least: float, most: float) -> Line:
    """The line of an item that is sold by the hour or the GiB-hour."""
    return bundle(cluster, item, what, {unit: 1}, region, least, most)


def bundle(cluster: str, item: str, what: str, parts: Mapping[str, float], region: str, least: float, most: float) -> Line:
    """The line of an item that is paid by its units: `parts` has the number of each unit in one item."""
    prices = {unit: hardware.unit_price(unit, region) for unit in parts}
    money = sum((quoted(price).times(parts[unit]) for unit, price in prices.items()), Money())
    return Line(cluster, item, what, least, most, money, money, _sources(prices.values()))


def _sources(prices: Iterable[hardware.Price | None]) -> tuple[str, ...]:
    return tuple(sorted({f"{price.source}, {price.date}" for price in prices if price}))


_OCI_VPUS = 10
"""VPUs per GB that the price of a balanced volume includes."""


def gp3_volume(gib: float, iops: float, throughput: float) -> dict[str, float]:
    """The units of a gp3 volume: its GiB, and the IOPS and MiB/s beyond the included ones."""
    return filled({"gp3-gb": gib, "gp3-iops": max(iops - GP3_IOPS, 0), "gp3-mibps": max(throughput - GP3_MIBPS, 0)})


def oci_volume(gib: float, vpus: float) -> dict[str, float]:
    """The units of an OCI block volume with this number of VPUs per GB, at least 10."""
    return filled({"oci-volume-gb": gib, "oci-vpu-gb": gib * max(vpus - _OCI_VPUS, 0)})


def total(lines: Iterable[Line]) -> tuple[Money, Money]:
    """(idle, worst) of a bill."""
    bill = list(lines)
    return sum((line.idle for line in bill), Money()), sum((line.worst for line in bill), Money())


def average(lines: Iterable[Line]) -> Money:
    """USD of an average hour of a week without jobs, with the windows of schedules."""
    return sum((line.mean for line in lines), Money())
