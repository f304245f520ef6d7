"""The last good day of everything that is pinned. No other module computes one.

A row of `data/versions.toml` has `released` and `ends`: the last good day, or "none published". The tables of releases and of
support dates give the others. Standard library only: the policy pack ships this module.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import Any

from fleet.facts.day import parsed as day_of
from fleet.facts.eks_images import build_of
from fleet.facts.nested import part
from fleet.facts.record import Record
from fleet.facts.support import EKS_SUPPORT
from fleet.facts.tables import rows, toml

"""Values of `ends` and of `released` for which no source has a day."""

INSTALL_WITHIN = 30
"""Days within which GitHub wants each new release of the runner installed (GitHub changelog, 2026-06-12; in force on github.com
since 2026-09-25)."""
WARN_AFTER = 21
"""Age in days at which a plan warns about a runner whose next release is not known."""
NOTICE = 90
"""Days before an end at which a plan names it."""

OKE_NOTICE = 30
"""Days for which Oracle supports a fourth minor at least."""


class Life(Record):
    """How long one pinned version is good.

    `what` names it: "runner 2.338.0". `last` is its last good day; None if no end is published. `effect` says what happens
    after that day. `may_end` is the earliest day on which a runner can end whose next release is not known; None for
    everything else.
    """

    what: str
    last: date | None
    effect: str
    released: date | None = None
    may_end: date | None = None

    def over(self, day: date) -> bool:
        """Whether the version is known to be no longer good on a day. A day that is only possible does not count."""
        return self.last is not None and day > self.last

    def shown(self, day: date) -> bool:
        """Whether a plan of that day names the end: it is past or within `NOTICE`, or a runner is older than `WARN_AFTER`."""
        if self.last is not None:
            return (self.last - day).days <= NOTICE
        return self.may_end is not None and self.released is not None and (day - self.released).days >= WARN_AFTER

    def words(self, day: date) -> str:
        """The end in words, as of a day."""
        if self.last is not None:
            days = (self.last - day).days
            more = {0: "today", 1: "1 more day"}.get(days, f"{days} more days")
            when = f"ended on {self.last}" if days < 0 else f"is good until {self.last}, {more}"
            return f"{self.what} {when}: {self.effect}"
        if self.may_end is not None:
            return f"{self.what} may be refused from {self.may_end}: {self.effect}; `doctor` asks GitHub for the day"
        return f"{self.what}: no end published"


class Use(Record):
    """Something pinned that a stack uses. `fix` is what to do before its end, `cost` what the end costs ("" for nothing)."""

    life: Life
    fix: str
    cost: str = ""


# -- the runner --------------------------------------------------------------------------------------------------------


def runner(version: str, day: date) -> Life:
    """A release of GitHub's runner, with the releases that were published by that day.

    It ends `INSTALL_WITHIN` days after the next release, patch releases included. While no next release is known, it can end
    `INSTALL_WITHIN` days after its own release at the earliest.
    """
    days = {row["version"]: date.fromisoformat(row["released"]) for row in rows("runner_releases.csv")}
    newer = [published for other, published in days.items() if published <= day and numbers(other) > numbers(version)]
    released = days.get(version)
    last = min(newer) + timedelta(INSTALL_WITHIN) if newer else None
    may_end = released + timedelta(INSTALL_WITHIN) if released and last is None else None
    effect = "GitHub gives it no job, its pods exit with code 7, and jobs wait without end"
    return Life(f"runner {version}", last, effect, released, may_end)


def numbers(version: str) -> tuple[int, ...]:
    """The parts of a version as numbers, so that 2.99.0 sorts before 2.333.1. Empty for other text."""
    parts = version.removeprefix("v").split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else ()


RUNNER_REPOSITORY = "ghcr.io/actions/actions-runner"


@lru_cache(maxsize=1024)
def of_image(reference: str, day: date) -> Life | None:
    """The life of a container image; None if no row has its repository and tag."""
    untagged = reference.partition("@")[0]
    repository, _, tag = untagged.rpartition(":")
    if repository == RUNNER_REPOSITORY and numbers(tag):
        return runner(tag, day)
    row = _images().get(reference) or _images().get(untagged)
    return None if row is None else _of_row(f"image {untagged}", row)


@cache
def _images() -> Mapping[str, Mapping[str, Any]]:
    """Rows of images by reference, and by reference without digest. An image with a tag and a digest has both."""
    data = toml("versions.toml")
    images = [*data["images"].values(), *(row for chart in data["chart-images"].values() for row in chart.values())]
    # The row of the autoscaler's image has no version: each Kubernetes minor has its own.
    by_reference = {row["reference"]: row for row in images if "ends" in row}
    for row in data["runner-gpu"].values():
        by_reference |= {row[flavor]: row for flavor in ("base", "runtime", "devel")}
    short = {reference.partition("@")[0]: row for reference, row in by_reference.items() if ":" in reference.partition("@")[0]}
    return short | by_reference


# -- charts, machines, Kubernetes --------------------------------------------------------------------------------------


def of_chart(chart: str, version: str) -> Life | None:
    """The life of a Helm chart's version; None if no row has it."""
    row = toml("versions.toml")["charts"].get(chart)
    return _of_row(f"chart {chart} {version}", row) if row is not None and row["version"] == version else None


def of_row(what: str, *path: str) -> Life:
    """The life of the row at a path of versions.toml: `of_row("Talos v1.13.9", "talos", "1.13")`."""
    return _of_row(what, part(toml("versions.toml"), *path))


def of_eks(minor: str, *, extended: bool = False) -> Life | None:
    """Support of a Kubernetes minor on EKS: its standard support, or with `extended` its extended support. None without a row."""
    if (row := EKS_SUPPORT.get(minor)) is None:
        return None
    # Both columns have the first day after the support.
    end, kind, effect = row.standard_until, "standard", "the control plane costs the price of extended support"
    if extended:
        end, kind, effect = row.extended_until, "extended", "AWS may upgrade the control plane on any day, without a notice"
    return Life(f"EKS {minor}, {kind} support", end - timedelta(1), effect, row.released)


def of_oke(minor: str) -> Life | None:
    """Oracle's support of a Kubernetes minor on OKE; None without a row.

    Oracle ends a minor `OKE_NOTICE` days or more after it offers the third newer one (docs.oracle.com, supported versions).
    """
    by_minor = {row["minor"]: row for row in rows("oke_support.csv")}
    if (row := by_minor.get(minor)) is None:
        return None
    third = by_minor.get(row["ends_after"])
    last = day_of(row["ended"]) or (date.fromisoformat(third["released"]) + timedelta(OKE_NOTICE) if third else None)
    return Life(f"OKE {minor}", last, "Oracle supports it no longer, and creates no cluster of it", day_of(row["released"]))


def of_kubernetes(minor: str) -> Life | None:
    """Support of a Kubernetes minor by the Kubernetes project; None without a row."""
    return _of_table("kubernetes_support.csv", "minor", minor, f"Kubernetes {minor}")


def of_driver(version: str) -> Life | None:
    """Support of the branch of an NVIDIA driver; None if the table does not have the branch."""
    branch = version.partition(".")[0]
    return _of_table("driver_branches.csv", "branch", branch, f"NVIDIA driver branch R{branch}")


def of_node_image(release: str) -> Life:
    """A release of AWS' EKS node image. AWS publishes no end of it; the branch of its driver has one."""
    build = build_of(release)
    return Life(f"node image {release}", None, "", day_of(f"{build[:4]}-{build[4:6]}-{build[6:]}"))


def _of_table(table: str, column: str, value: str, what: str) -> Life | None:
    return next((_of_row(what, row) for row in rows(table) if row[column] == value), None)


def _of_row(what: str, row: Mapping[str, Any]) -> Life:
    effect = "its publisher fixes nothing in it any more, security holes included"
    return Life(what, day_of(row["ends"]), effect, day_of(row["released"]))
