"""The day whose prices, exceptions and support dates a plan uses."""

from __future__ import annotations

import os
from datetime import date

from fleet.facts.errors import InputError, quoted
from policies.rules.day import VARIABLE, fault, parsed


def day_of(option: str | None = None) -> date:
    """The day of option --as-of, else of the environment variable GPU_CI_AS_OF, else today.

    Raises InputError for a text that is not a day as YYYY-MM-DD.
    """
    name, given = ("--as-of", option) if option is not None else (VARIABLE, os.environ.get(VARIABLE) or None)
    if given is None:
        return date.today()
    day = parsed(given)
    if day is None:
        raise InputError(fault(name, quoted(given)))
    return day
