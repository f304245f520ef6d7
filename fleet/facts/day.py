"""The day that a plan, an update, a check or the policy pack judges: its prices, exceptions and support dates count."""

import os
import re
from datetime import date

from fleet.facts.errors import InputError, quoted

VARIABLE = "GPU_CI_AS_OF"
_DAY = re.compile(r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}")


def day_of(option: str | None = None) -> date:
    """The day of option --as-of, else of the environment variable GPU_CI_AS_OF, else today.

    Raises InputError for a text that is not a day as YYYY-MM-DD.
    """
    name, text = ("--as-of", option) if option is not None else (VARIABLE, os.environ.get(VARIABLE) or None)
    if (day := date.today() if text is None else parsed(text) if _DAY.fullmatch(text) else None) is None:
        raise InputError(f"{name}: must be a day before the year 3000 as YYYY-MM-DD; got {quoted(text)}; correct it")
    return day


def parsed(text: str) -> date | None:
    """The day that an ISO date names; None for any other text."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
