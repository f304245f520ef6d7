"""The day whose prices, exceptions and support dates a plan uses."""

from datetime import date

from fleet.facts.day import fault, parsed, today
from fleet.facts.errors import InputError, quoted


def day_of(option: str | None = None) -> date:
    """The day of option --as-of, else of the environment variable GPU_CI_AS_OF, else today.

    Raises InputError for a text that is not a day as YYYY-MM-DD.
    """
    if option is None:
        try:
            return today()
        except ValueError as error:
            raise InputError(str(error)) from None
    day = parsed(option)
    if day is None:
        raise InputError(fault("--as-of", quoted(option)))
    return day
