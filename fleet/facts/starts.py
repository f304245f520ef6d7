"""How long each phase of a job's start takes, by public measurements and statements: `data/starts.csv`."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.tables import entry, rows

PHASES = ("capacity", "boot", "driver", "plugin", "pull", "register")
"""The phases in their order: a free node is found or requested, boots, has its driver, advertises its GPUs, has the image of the
runner, and the runner registers and gets the job."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, in seconds. `kind` is measured, stated or derived. A row without seconds is a gap: `kind` is empty."""

    phase: str
    means: str
    low_s: int | None
    high_s: int | None
    kind: str
    note: str
    source: str


ROWS = tuple(entry(Row, row) for row in rows("starts.csv"))


@dataclass(frozen=True, slots=True)
class Phase:
    """The seconds of one phase, from `low` to `high`. `high` is None if no source has a figure; `low` is then 0."""

    name: str
    low: float
    high: float | None
    note: str
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.high is None:
            return "not measured"
        return seconds(self.low, self.high)


def seconds(low: float, high: float) -> str:
    """A range of seconds: "80-120 s", or "80 s" if both ends are equal."""
    return f"{low:.0f} s" if round(low) == round(high) else f"{low:.0f}-{high:.0f} s"


def phase(name: str, means: str) -> Phase:
    """The phase as all rows of `means` give it together: from the least to the greatest figure.

    Raises KeyError if the table has no row.
    """
    figures = [row for row in ROWS if (row.phase, row.means) == (name, means)]
    if not figures:
        raise KeyError(f"{name}, {means}")
    note = "; ".join(f"{row.note} ({row.kind})" if row.kind else row.note for row in figures)
    return Phase(
        name,
        min((row.low_s for row in figures if row.low_s is not None), default=0),
        max((row.high_s for row in figures if row.high_s is not None), default=None),
        note,
        tuple(row.source for row in figures if row.source),
    )


def done(name: str, note: str = "done before the job") -> Phase:
    """A phase that a start does not wait for."""
    return Phase(name, 0, 0, note)
