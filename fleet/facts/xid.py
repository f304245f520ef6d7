"""NVIDIA's Xid errors: what each code means and what to do. Source and date are in `data/xid.csv`."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.tables import entry, rows

FATAL = ("gpu-reset", "node-reboot", "hardware")
"""Categories in which the GPU cannot run jobs until somebody acts."""
APPLICATION = ("application",)
"""The category of faults in a job's own program. The GPU is healthy."""
UNCLEAR = ("software", "undecided")
"""Categories that need a person to read the kernel log."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `action` is NVIDIA's immediate action, `investigation` the one after it; empty if NVIDIA names none.

    Category `information` needs no action.
    """

    code: str
    meaning: str
    action: str
    investigation: str
    category: str


XIDS = {row["code"]: entry(Xid, row) for row in rows("xid.csv")}
"""Every code that NVIDIA's catalog describes. It covers the A100 and newer GPUs; older GPUs use the same numbers."""
