"""How many examples a property test tries: few in each run, many in `make search`, which looks for what no run had before."""

from __future__ import annotations

from hypothesis import settings

SEARCHES = settings.get_current_profile_name() == "search"


def examples(enough: int) -> int:
    """A quarter of the examples that are enough to trust a property, at least 20 or all; in a search four times as many."""
    return 4 * enough if SEARCHES else min(enough, max(20, enough // 4))
