"""How long AWS supports a Kubernetes minor on EKS, and which price its control plane has on a day.

The rows of `data/eks_support.csv`. Standard library only: the policy pack ships this module.
"""

import re
from datetime import date

from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

STANDARD, EXTENDED = "eks-control-plane", "eks-control-plane-extended"
"""Items of `data/prices.csv`: an hour of an EKS control plane in standard and in extended support. Each is the whole price."""


class Support(Record):
    """One Kubernetes minor. AWS charges for extended support from the day `standard_until` on.

    From `extended_until` on, AWS may upgrade the control plane on any day, without a notice (EKS user guide, version lifecycle).
    """

    minor: str
    released: date
    standard_until: date
    extended_until: date


EKS_SUPPORT = {row["minor"]: entry(Support, row) for row in rows("eks_support.csv")}
"""Support on EKS by Kubernetes minor, the oldest first."""


def control_plane(version: str, day: date) -> str:
    """The item that prices an EKS control plane of a version ("1.36", also "1.36.3" or "v1.36") on a day.

    The answer is never too cheap. A minor newer than the table has the dates of the newest row, because its support ends later.
    A minor older than the table counts as extended, and so does text that is not a version.
    """
    *_, newest = EKS_SUPPORT.values()
    minor = _minor(version)
    row = EKS_SUPPORT.get(f"{minor[0]}.{minor[1]}") or (newest if minor > _minor(newest.minor) else None)
    return STANDARD if row is not None and day < row.standard_until else EXTENDED


def _minor(version: str) -> tuple[int, int]:
    match = re.fullmatch(r"v?([0-9]{1,3})[.]([0-9]{1,3})(?:[.].*)?", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
