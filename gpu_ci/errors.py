"""What says that the input is wrong."""

import sys

from fleet.facts.errors import InputError


def input_errors() -> tuple[type[Exception], ...]:
    """The errors of wrong input. Only a process that has loaded Pulumi's SDK can get one of it."""
    return (InputError, sdk.RunError) if (sdk := sys.modules.get("pulumi")) else (InputError,)
