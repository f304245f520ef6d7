"""What a check of `doctor` finds, and why a source cannot be asked."""

from collections.abc import Callable, Collection, Iterable, Iterator

from fleet.facts.record import Record
from fleet.facts.tables import beside

OK, WRONG, SKIPPED = "ok", "wrong", "skipped"
FRESHNESS = "freshness"
"""The area of checks whether what a fleet pins is still good."""
_FAULTS: dict[str, dict[str, str]] = beside(__file__, "faults.toml")


class Finding(Record):
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


def fault(area: str, row: str, /, **fields: object) -> Finding:
    """The check failed, in the words of a row of faults.toml with its fields filled in."""
    return Finding(WRONG, area, *(_FAULTS[row][part].format(**fields) for part in ("said", "fix")))


def skipped(area: str, reason: str) -> Finding:
    """Nothing could be checked, for this reason."""
    return Finding(SKIPPED, area, reason)


def offer(area: str, what: str, places: Iterable[str], bare: Collection[str], choices: str, fix: str) -> Finding:
    """Whether all places of a group of machines offer one of its types. `bare` are those that do not."""
    if bare:
        return wrong(area, f"{what}: {', '.join(bare)} does not offer {choices}", fix)
    return ok(area, f"{what}: {', '.join(places)} offers {choices}")


def guarded(
    found: Iterator[Finding], area: str, what: str, errors: tuple[type[Exception], ...], reason: Callable[[Exception], str] = str
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


class SourceError(Exception):
    """A source cannot be reached, or its answer is refused. The text is the reason in one line.

    `status` is the HTTP status, 0 if there was none. `challenge` is the header WWW-Authenticate of an answer 401. `limit` says
    how long the source refuses every request of this client, empty if it does not.
    """

    def __init__(self, text: str, status: int = 0, challenge: str = "", limit: str = "") -> None:
        super().__init__(" ".join(text.split())[:300])
        self.status, self.challenge, self.limit = status, challenge, limit
