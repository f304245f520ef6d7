"""`gpu-ci remove`: a pool, runner class, region or cluster less in a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_ci.app import WRITE, AsOf, Cluster, File, Stack, Yes, app, exit_status
from gpu_ci.offline.day import day_of
from gpu_ci.offline.grow.change import finish, growing
from gpu_ci.offline.grow.removals import KINDS, remove_entry

group = typer.Typer(
    no_args_is_help=True,
    help="""\
Remove a pool, class, region or cluster from a stack file.

It shows the change, the price and which running jobs end. It asks on a terminal, and writes nothing unless the plan passes.""",
)
app.add_typer(group, name="remove", rich_help_panel=WRITE)


def _remove(
    context: typer.Context,
    stack: Stack,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in the stack file, or the region.")],
    cluster: Cluster = None,
    references: Annotated[
        bool, typer.Option("--with-references", help="Also remove what names it and works without it.")
    ] = False,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    with exit_status():
        grown = growing(stack, file)
        remove_entry(grown, str(context.info_name), cluster, name, references=references)
        finish(grown, day_of(as_of), yes=yes, own_file=file is None)


for kind, text in KINDS.items():
    group.command(name=kind, help=text)(_remove)
