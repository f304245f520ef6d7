"""The day that a plan, a check or the policy pack judges: the variable GPU_CI_AS_OF, else today."""

from __future__ import annotations

import re
from datetime import date

VARIABLE = "GPU_CI_AS_OF"
_DAY = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")
"""A day before the year 3000, so that a year can be added to it."""


def parsed(text: str) -> date | None:
    """The day that a text names as YYYY-MM-DD; None for any other text."""
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def fault(name: str, shown: str) -> str:
    """The error line for a value that is not a day. `name` is the option or variable. `shown` is the value, safe to print."""
    return f"{name}: must be a day as YYYY-MM-DD; got {shown}; correct it"
