"""EKS support of a Kubernetes minor, as text for the plan and the bill."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.hardware import unit_price
from fleet.facts.lifecycle import Use, of_eks
from fleet.facts.remark import costs, todo
from fleet.facts.support import EKS_SUPPORT, EXTENDED, STANDARD, control_plane
from fleet.settings.budget import MONTH

AUTOMATIC, EXTENDED_POLICY = "STANDARD", "EXTENDED"
"""The `upgradePolicy` with which AWS upgrades a control plane whose standard support ends, and the one that chooses extended
support."""


def billed(minor: str, day: date) -> tuple[str, str]:
    """(item of the price list, words for the bill) of a control plane on a day."""
    item, until = control_plane(minor, day), EKS_SUPPORT[minor].standard_until
    support = f"standard support until {until}" if item == STANDARD else f"extended support since {until}"
    return item, f"EKS {minor}, {support}"


def supported(minor: str, region: str, policy: str | None) -> Iterator[Use]:
    """Standard and extended support of a minor, with what AWS charges for the second. `policy` is the cluster's `upgradePolicy`.

    A cluster that chose extended support has only the end of that.
    """
    upgrade = "raise kubernetesVersion by one minor (docs/operate.md)"
    for extended in (True,) if policy == EXTENDED_POLICY else (False, True):
        if (life := of_eks(minor, extended=extended)) is not None:
            yield Use(life, upgrade, "" if extended else _more(region))


def remarks(minor: str, region: str, day: date, policy: str | None) -> Iterator[str]:
    """The end of support, what happens then, and what to do. `policy` is the cluster's `upgradePolicy`.

    The price follows from minor and day alone: the policy says what AWS does at the end of standard support, not what it bills.
    """
    support, cost = EKS_SUPPORT[minor], _cost(region)
    until = support.standard_until
    if day < until and policy == AUTOMATIC:
        yield (
            f"kubernetesVersion: EKS {minor} is in standard support until {until}; from that day on AWS upgrades the control "
            f"plane to the next minor by itself (upgradePolicy {AUTOMATIC}); upgrade before (docs/operate.md)"
        )
    elif day < until:
        yield costs(f"kubernetesVersion: EKS {minor} is in standard support until {until}; from that day on, {cost}")
    elif day < support.extended_until:
        yield costs(
            f"kubernetesVersion: EKS {minor} has been in extended support since {until}: {cost}; upgrade one "
            f"minor at a time (docs/operate.md) before {support.extended_until}, when AWS starts to force upgrades",
            act=True,
        )
    else:
        yield costs(
            f"kubernetesVersion: EKS {minor} has been out of support since {support.extended_until}: AWS may upgrade the control "
            f"plane on any day; {cost}",
            act=True,
        )
    if day >= until and policy == AUTOMATIC:
        yield todo(
            f"upgradePolicy: {AUTOMATIC} contradicts kubernetesVersion: EKS {minor} has had no standard support since {until}. "
            "EKS refuses to change the policy now, and AWS upgrades a cluster that had it before; set kubernetesVersion to the "
            "minor that the control plane has, or remove upgradePolicy"
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
