"""The bill of a fleet: one line for each thing that is paid by the hour."""

from __future__ import annotations

from fleet import hardware
from fleet.placement import Placement
from fleet.pricing import Line, Money, quoted, span
from fleet.providers import PROVIDERS
from fleet.settings import Fleet


def bill(fleet: Fleet) -> tuple[Line, ...]:
    """Every line, cluster by cluster: GPU pools and machines first, then what the provider charges besides."""
    return tuple(line for name, cluster in fleet.clusters_by_name() for line in PROVIDERS[cluster.provider].bill(name, cluster))


def runner_hour(placement: Placement, region: str) -> tuple[Money, Money]:
    """(least, most) USD of one runner-hour: the price of a full machine, shared by the runners that it holds.

    Over the types that may be bought. A reserved machine costs the same hour whether it is full or not.
    """
    return span(
        quoted(hardware.price(found.machine.name, region, placement.host.capacity)).times(1 / found.count)
        for found in placement.fits
        if found.count
    )
