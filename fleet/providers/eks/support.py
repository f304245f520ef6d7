"""EKS support of a Kubernetes minor, as text for the plan and the bill."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.hardware import unit_price
from fleet.facts.lifecycle import Use, of_eks
from fleet.facts.support import EKS_SUPPORT, EXTENDED, STANDARD, control_plane
from fleet.settings.budget import MONTH


def billed(minor: str, day: date) -> tuple[str, str]:
    """(item of the price list, words for the bill) of a control plane on a day."""
    item, until = control_plane(minor, day), EKS_SUPPORT[minor].standard_until
    support = f"standard support until {until}" if item == STANDARD else f"extended support since {until}"
    return item, f"EKS {minor}, {support}"


def supported(minor: str, region: str) -> Iterator[Use]:
    """Standard and extended support of a minor, with what AWS charges for the second."""
    upgrade = "raise kubernetesVersion by one minor (docs/operate.md)"
    for extended in (False, True):
        if (life := of_eks(minor, extended=extended)) is not None:
            yield Use(life, upgrade, "" if extended else _more(region))


def remark(minor: str, region: str, day: date) -> str:
    """The end of support, the cost of the control plane after that, and what to do."""
    support, cost = EKS_SUPPORT[minor], _cost(region)
    if day < support.standard_until:
        return f"kubernetesVersion: EKS {minor} is in standard support until {support.standard_until}; from that day on, {cost}"
    if day < support.extended_until:
        return (
            f"kubernetesVersion: EKS {minor} has been in extended support since {support.standard_until}: {cost}; upgrade one "
            f"minor at a time (docs/operate.md) before {support.extended_until}, when AWS starts to force upgrades"
        )
    return (
        f"kubernetesVersion: EKS {minor} has been out of support since {support.extended_until}: AWS may upgrade the control "
        f"plane on any day; {cost}"
    )


def _prices(region: str) -> tuple[float, float] | None:
    """USD an hour of a control plane in standard and in extended support; None if a price is not known."""
    usual, later = unit_price(STANDARD, region), unit_price(EXTENDED, region)
    return None if usual is None or later is None else (usual.usd_per_hour, later.usd_per_hour)


def _more(region: str) -> str:
    prices = _prices(region)
    return "more, at a price that is not known" if prices is None else f"{(prices[1] - prices[0]) * MONTH:.0f} USD a month more"


def _cost(region: str) -> str:
    prices = _prices(region)
    if prices is None:
        return f"the control plane costs more (its price in {region} is unknown)"
    return f"the control plane costs {prices[1]:.2f} instead of {prices[0]:.2f} USD/h, {_more(region)}"
