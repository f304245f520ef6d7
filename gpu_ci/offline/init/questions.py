"""The questions of `init` and `add`: an answer is that of a flag, or else of the terminal."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import typer
from rich.prompt import Confirm, Prompt

from fleet.facts.errors import InputError
from fleet.facts.record import Record
from gpu_ci.app import Gpu, console
from gpu_ci.offline.init.answers import JOBS, PROVIDERS, one_of

_Read = TypeVar("_Read")
Provider = Annotated[str | None, typer.Option("--provider", help=f"One of: {', '.join(PROVIDERS)}.")]
Region = Annotated[str | None, typer.Option("--region", help="Region of the cloud, such as us-west-2 or us-ashburn-1.")]
JobKinds = Annotated[str | None, typer.Option("--jobs", help=f"With commas between: {', '.join(JOBS)}.")]
"""Options of all commands that write a cluster."""


class Wanted(Record):
    """The options of a new cluster. None: a person answers on the terminal."""

    provider: Provider = None
    region: Region = None
    gpu: Gpu = None
    jobs: JobKinds = None


def on_terminal() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty()


def confirmed(question: str) -> bool:
    """Whether a person says yes. Raises InputError without a terminal."""
    if not on_terminal():
        raise InputError("--yes: required without a terminal; read the change above, then add --yes")
    try:
        return Confirm.ask(question, console=console(), default=False)
    except EOFError:
        return False


class Questions:
    """Takes each answer from its flag, or else from the terminal. Without a terminal it collects the flags that are missing."""

    def __init__(self, given: dict[str, str | None]) -> None:
        self.given = given
        self.missing: list[str] = []

    def answer(self, name: str, question: str, choices: Sequence[str], default: str, reader: Callable[[str], _Read]) -> _Read:
        """The value that `reader` reads from the text. On a terminal it asks again until the text is valid. Raises InputError."""
        if (flag := self.given.get(name)) is not None:
            return reader(flag)
        listed = f" ({', '.join(choices)})" if choices else ""
        proposed: dict[str, Any] = {"default": default} if choices else {}
        if not on_terminal():
            self.missing.append(f"--{name}{listed}")
            return reader(default)
        while True:
            try:
                return reader(Prompt.ask(f"{question}{listed}", console=console(), **proposed))
            except EOFError:
                raise InputError(f"--{name}: the input ended without an answer; give this option") from None
            except InputError as error:
                sys.stdout.write(f"{error}\n")

    def choice(self, name: str, question: str, choices: Sequence[str]) -> str:
        """One of the choices, of which the first is proposed."""
        return self.answer(name, question, choices, choices[0], partial(one_of, f"--{name}", known=choices))

    def require(self) -> None:
        """Raise InputError if flags are missing."""
        if self.missing:
            raise InputError(f"{self.missing[0].split()[0]}: required without a terminal; add {' and '.join(self.missing)}")
