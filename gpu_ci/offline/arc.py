"""Whether a change pins another minor of Actions Runner Controller, and the procedure for it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fleet.facts.versions import CHARTS
from fleet.providers.fleet import Fleet
from fleet.render.arc import SETS, another_minor, upgrade

_VERSIONS = Path("fleet/facts/data/versions.toml")


def pinned_in(folder: Path) -> str:
    """The version of ARC that a checkout pins, or an empty text if it cannot be read there."""
    try:
        version = tomllib.loads((folder / _VERSIONS).read_text(encoding="utf-8"))["charts"][SETS]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return version if isinstance(version, str) else ""


def upgrade_from(before: str, fleet: Fleet, stack: str) -> tuple[str, ...]:
    """The procedure for a stack that was deployed with the version `before`; nothing without another minor."""
    after = CHARTS[SETS].version
    return upgrade(fleet, stack, before, after) if before and another_minor(before, after) else ()
