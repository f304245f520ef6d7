"""The day that a plan, an update, a check or the policy pack judges: the variable GPU_CI_AS_OF, else today."""

import os
import re
from collections.abc import Mapping
from datetime import date

from fleet.facts.errors import quoted

VARIABLE = "GPU_CI_AS_OF"


def parsed(text: str) -> date | None:
    """The day that a text names as YYYY-MM-DD; None for any other text and for a day from the year 3000 on."""
    try:
        # Before the year 3000, so that a year can be added to it.
        return date.fromisoformat(text) if re.fullmatch(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None


def fault(name: str, shown: str) -> str:
    """The error line for a value that is not a day. `name` is the option or variable. `shown` is the value, safe to print."""
    return f"{name}: must be a day before the year 3000 as YYYY-MM-DD; got {shown}; correct it"


def today(environment: Mapping[str, str] = os.environ) -> date:
    """The day of the variable, else the date. Raises ValueError, with the error line, if the variable names no day."""
    text = environment.get(VARIABLE)
    day = parsed(text) if text else date.today()
    if day is None:
        raise ValueError(fault(VARIABLE, quoted(text or "")))
    return day
