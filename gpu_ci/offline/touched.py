"""What a pull request writes that has ended already or cannot work: it fails the plan, as any other violation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.facts.limits import read_bytes
from fleet.facts.tables import toml
from gpu_ci.offline.compare import Comparison, identity
from gpu_ci.offline.ended import ENDED
from gpu_ci.offline.plan import Plan

_VERSIONS = "fleet/facts/data/versions.toml"
_PINS = ("reference", "version", "release", "ami-release", "base", "runtime", "devel")
"""Fields of a row that pin something."""


def touched(plan: Plan, before: Plan | None, base: Path) -> Plan:
    """The plan, which fails for what the change writes and `pulumi up` would refuse.

    That is an ended version, in the stack's files or in our versions, and a part that cannot work, if its remark is new or its
    settings change. `before` is the plan of the base, whose checkout is in the folder `base`; None if the base has no plan: then
    the change writes every part, and versions are not compared. Raises OSError and TOMLDecodeError as the base's versions.toml
    does.
    """
    if before is None:
        return replace(plan, written=plan.impossible)
    changed = {setting.name for setting in Comparison(before, plan).settings} if plan.impossible else set()
    written_parts = tuple(
        remark for remark in plan.impossible if remark not in before.impossible or not changed.isdisjoint(remark.parts)
    )
    old = set(map(identity, before.verdicts))
    written = tuple(_written(base / _VERSIONS))
    verdicts = (
        replace(verdict, kind="violation")
        if verdict.kind == ENDED and (identity(verdict) not in old or any(value in verdict.message for value in written))
        else verdict
        for verdict in plan.verdicts
    )
    return replace(plan, verdicts=tuple(verdicts), written=written_parts)


def _written(path: Path) -> Iterator[str]:
    """The pinned values of our versions that the base does not have."""
    if path.is_file():
        before = set(_values(tomllib.loads(read_bytes(path).decode())))
        yield from (value for value in _values(toml("versions.toml")) if value not in before)


def _values(row: Any) -> Iterator[str]:
    """The pinned values of a row and of the rows below it. A message has no room for a digest, so references have none."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _values(value)
        elif key in _PINS:
            yield value.partition("@")[0]
