"""What a person can put right: the input of a plan is wrong."""

from fleet.facts.credentials import mask, masked

_MOST_SHOWN = 80


class InputError(Exception):
    """A stack file, project file or policy config that cannot be used.

    The text is complete for the reader: file and line where known, the field, the rule, the value, how to fix it.
    Credentials in it are masked. The command line prints it alone and exits with status 2.
    """

    def __init__(self, text: str) -> None:
        super().__init__(mask(text))


def shown(value: object) -> str:
    """A value for an error line: as Python writes it, credentials masked, cut to 80 characters."""
    text = repr(masked(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
