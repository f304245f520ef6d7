"""`gpu-ci remove`: a pool, runner class, region or cluster less in a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_ci.app import WRITE, AsOf, File, Stack, app, exit_status
from gpu_ci.offline.day import day_of
from gpu_ci.offline.grow.change import Yes, finish, growing
from gpu_ci.offline.grow.removals import KINDS, remove_entry
from gpu_ci.offline.init.answers import one_of


@app.command(rich_help_panel=WRITE)
def remove(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.")],
    stack: Stack,
    name: Annotated[str, typer.Argument(help="Its name in the stack file. A region has one cluster.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="The cluster of the pool or class, if there are several.")
    ] = None,
    references: Annotated[
        bool,
        typer.Option("--with-references", help="Also remove what names it and works without, and pools of that class alone."),
    ] = False,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Remove a pool, class, region or cluster from a stack file.

    It shows the change, the price and which running jobs end. It asks on a terminal, and writes nothing unless the plan passes.
    """
    with exit_status():
        grown = growing(stack, file)
        remove_entry(grown, one_of("KIND", kind, KINDS), cluster, name, references=references)
        finish(grown, day_of(as_of), yes=yes, own_file=file is None)
