"""One line of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

OK, WRONG, SKIPPED = "ok", "wrong", "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found in an area. `fix` is the command or the edit that fixes it, empty unless the state is wrong."""

    state: str
    area: str
    said: str
    fix: str = ""


def ok(area: str, said: str) -> Finding:
    """The check passed."""
    return Finding(OK, area, said)


def wrong(area: str, said: str, fix: str) -> Finding:
    """The check failed."""
    return Finding(WRONG, area, said, fix)


def skipped(area: str, reason: str) -> Finding:
    """Nothing could be checked, for this reason."""
    return Finding(SKIPPED, area, reason)


def guarded(
    found: Iterator[Finding],
    area: str,
    what: str,
    errors: tuple[type[Exception], ...],
    reason: Callable[[Exception], str] = str,
) -> Iterator[Finding]:
    """The findings of a check. The rest of the check is skipped with the reason if a call fails with one of the errors, or if an
    answer lacks a field that the check reads.
    """
    try:
        yield from found
    except errors as failure:
        yield skipped(area, f"{what}: {reason(failure)}")
    except (LookupError, TypeError, AttributeError) as failure:
        yield skipped(area, f"{what}: an answer does not have the expected form ({type(failure).__name__}: {failure})")
