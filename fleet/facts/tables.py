"""Reads the data files in `data/`. Each row has its source and date."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with (_DATA / name).open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def toml(name: str) -> dict[str, Any]:
    """A TOML file."""
    with (_DATA / name).open("rb") as file:
        return tomllib.load(file)
