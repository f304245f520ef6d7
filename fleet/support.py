"""How long AWS supports a Kubernetes minor on EKS, and which price its control plane has on a day.

A view of `data/eks_support.csv`. Standard library only: the policy pack ships this module.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date
from pathlib import Path

STANDARD, EXTENDED = "eks-control-plane", "eks-control-plane-extended"
"""Items of `data/prices.csv`: an hour of an EKS control plane in standard and in extended support. Each is the whole price."""


@dataclass(frozen=True, slots=True)
class Support:
    """One minor. AWS charges for extended support from `standard_until` on, that day included
    (EKS user guide, version lifecycle).

    From `extended_until` on AWS may upgrade the control plane on any day, without a notice.
    """

    minor: str
    standard_until: date
    extended_until: date


def _read() -> dict[str, Support]:
    with (Path(__file__).parent / "data" / "eks_support.csv").open(encoding="utf-8", newline="") as table:
        return {
            row["minor"]: Support(
                row["minor"], date.fromisoformat(row["standard_until"]), date.fromisoformat(row["extended_until"])
            )
            for row in csv.DictReader(table)
        }


EKS_SUPPORT: dict[str, Support] = _read()
"""Kubernetes minor → its support on EKS, the oldest first."""


def control_plane(minor: str, day: date) -> str:
    """The item that prices an EKS control plane of a minor ("1.36") on a day.

    The answer is never too cheap: a minor newer than the table has at least the support of the newest row, and a minor older
    than the table counts as extended.
    """
    oldest, *_, newest = EKS_SUPPORT.values()
    row = EKS_SUPPORT.get(minor) or (newest if _parts(minor) > _parts(oldest.minor) else None)
    return STANDARD if row is not None and day < row.standard_until else EXTENDED


def _parts(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split(".") if part.isdecimal())
