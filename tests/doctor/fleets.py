"""Fleets for the checks, and what the findings say."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.providers.finding import Finding
from fleet.providers.fleet import Fleet
from tests.builders import ROOT


@cache
def shipped(stack: str) -> Fleet:
    """The fleet of a shipped stack."""
    return fleet_of(load(stack, ROOT))


def edited(stack: str, folder: Path, *changes: tuple[str, str]) -> Fleet:
    """The fleet of a copy of a shipped stack file, in which each first text is replaced by the second."""
    return fleet_of(load(stack, ROOT, stack_file=copy(stack, folder, *changes)))


OWN = (
    ("https://github.com/example", "https://github.com/acme"),
    ('"123456"', '"1047291"'),
    ('"12345678"', '"58930417"'),
    ("203.0.113.0/24", "93.184.216.0/24"),
    ("ci-alerts@example.com", "ci@acme-robotics.io"),
    ("123456789012", "987600001234"),
)
"""Values of somebody's own instead of the examples of staging, which doctor refuses."""


def copy(stack: str, folder: Path, *changes: tuple[str, str]) -> Path:
    """A copy of a shipped stack file with these replacements."""
    text = (ROOT / f"Pulumi.{stack}.yaml").read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / f"Pulumi.{stack}.yaml"
    path.write_text(text)
    return path


def lines(found: Iterable[Finding]) -> list[str]:
    """Each finding as "state: text"."""
    return [f"{each.state}: {each.said}" for each in found]


def fixes(found: Iterable[Finding]) -> list[str]:
    """The fixes of the findings that have one."""
    return [each.fix for each in found if each.fix]
