"""What the commands of `add` and `remove` share: the stack, the question, and what is printed and written."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from rich.prompt import Confirm

from fleet.facts.credentials import mask
from fleet.facts.errors import InputError
from fleet.loading.home import INSTALLED, ROOT
from gpu_ci.app import console
from gpu_ci.offline.agree import replace_files
from gpu_ci.offline.grow.change import planned
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.init.questions import on_terminal
from gpu_ci.offline.plan import require_sdk
from gpu_ci.offline.progress import Progress

Yes = Annotated[bool, typer.Option("--yes", help="Write without a question.")]


def growing(stack: str, file: Path | None) -> GrowingStack:
    """The stack to edit. Raises InputError."""
    require_sdk("add, remove")
    return GrowingStack(stack, ROOT, file)


def one_of_list(text: str) -> tuple[str, ...]:
    """The words of a list with commas."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def finish(stack: GrowingStack, file: Path | None, day: date, *, yes: bool) -> None:
    """Show the change and write it, if a person or `yes` agrees. Raises InputError without both, and Exit after a no."""
    with Progress() as progress:
        change = planned(stack, day, progress, own_file=file is None)
    sys.stdout.write(mask(change.diff()))
    out = console()
    for line in (*stack.notes, *change.lines()):
        out.print(line, markup=False, highlight=False)
    if not yes and not _confirmed():
        out.print("Nothing was written.")
        raise typer.Exit(1)
    replace_files(change.files, ROOT)
    out.print(f"Wrote {', '.join(change.files)}.")
    plan = f"gpu-ci plan {stack.stack}" if INSTALLED else f"make plan STACK={stack.stack}"
    out.print(f"Next: {plan} shows everything. Commit the files together.")


def _confirmed() -> bool:
    if not on_terminal():
        raise InputError("--yes: required without a terminal; read the change above, then add --yes")
    try:
        return Confirm.ask("Write this?", console=console(), default=False)
    except EOFError:
        return False
