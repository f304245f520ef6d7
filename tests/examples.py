"""How many examples a property test tries: few in each run, many in `make search`, which looks for what no run had before."""

from __future__ import annotations

from hypothesis import settings

SEARCHES = settings.get_current_profile_name() == "search"


WHOLE = 7
"""The least number of examples where each builds a whole fleet, which takes longer than all that is asserted of it."""


def examples(enough: int, least: int = 15) -> int:
    """A quarter of the examples that are enough to trust a property, `least` of them or all; in a search four times as many."""
    return 4 * enough if SEARCHES else min(enough, max(least, enough // 4))
