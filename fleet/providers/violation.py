"""A broken rule over all clusters, and things that several owners claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """`owner` claims the thing that `key` identifies. `at` is the path of the claim in the settings."""

    key: object
    owner: str
    at: Path


IN_CONFIG = object()
"""Stands for the value at the path of a violation."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `rule` is its short name, `at` the path of the setting that breaks it.

    The error shows `value`. Without one it shows the value at the path.
    """

    rule: str
    message: str
    at: Path
    value: object = IN_CONFIG


def conflicts(claims: Iterable[Claim]) -> Iterator[tuple[Claim, str]]:
    """Each claim of a key that another owner claimed first, with that owner."""
    owners: dict[object, str] = {}
    for claim in claims:
        if (first := owners.setdefault(claim.key, claim.owner)) != claim.owner:
            yield claim, first
