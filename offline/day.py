"""The day that a plan judges: the prices, exceptions and ends of support of that day count."""

from __future__ import annotations

import os
import re
from datetime import date

from offline.errors import InputError, shown

VARIABLE = "GPU_CI_AS_OF"
"""The policy pack reads the same variable (`policies/__main__.py`)."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def day_of(option: str | None = None) -> date:
    """The day of option --as-of, else of the environment variable GPU_CI_AS_OF, else today.

    Raises InputError for what is not a day written as YYYY-MM-DD.
    """
    given = os.environ.get(VARIABLE, "")
    if option is not None:
        return _parsed("--as-of", option)
    return _parsed(VARIABLE, given) if given else date.today()


def _parsed(name: str, text: str) -> date:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InputError(f"{name}: must be a day as YYYY-MM-DD; got {shown(text)}; correct it")
