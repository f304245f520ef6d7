"""`gpu-ci remove`: a pool, runner class, region or cluster less in a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_ci.app import WRITE, AsOf, File, Stack, app, exit_status
from gpu_ci.offline.day import day_of
from gpu_ci.offline.grow import removals
from gpu_ci.offline.grow.command import Yes, finish, growing

_Cluster = Annotated[str | None, typer.Option("--cluster", help="The cluster, if the stack has several.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the stack file.")]
_References = Annotated[bool, typer.Option("--with-references", help="Also remove what names it, where its entry works without.")]

group = typer.Typer(no_args_is_help=True, help="Remove a pool, a runner class, a region or a cluster from a stack.")
app.add_typer(group, name="remove", rich_help_panel=WRITE)


@group.command()
def pool(
    stack: Stack,
    name: _Name,
    cluster: _Cluster = None,
    references: _References = False,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Remove a pool. With --with-references also from the lists of classes that have other pools.

    It shows the change, the price and which running jobs end, asks on a terminal, and writes nothing unless the plan passes.
    """
    with exit_status():
        grown = growing(stack, file)
        removals.remove_pool(grown, grown.cluster(cluster), name, references=references)
        finish(grown, file, day_of(as_of), yes=yes)


@group.command(name="class")
def runner_class(
    stack: Stack,
    name: _Name,
    cluster: _Cluster = None,
    references: _References = False,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Remove a runner class. With --with-references also what names it, and the pools that only it uses.

    It shows the change, the price and which running jobs end, asks on a terminal, and writes nothing unless the plan passes.
    """
    with exit_status():
        grown = growing(stack, file)
        removals.remove_class(grown, grown.cluster(cluster), name, references=references)
        finish(grown, file, day_of(as_of), yes=yes)


@group.command()
def region(
    stack: Stack,
    region: Annotated[str, typer.Argument(metavar="REGION", help="The region, such as eu-west-1. It has one cluster.")],
    references: _References = False,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Remove the cluster of a region. With --with-references also every `sameAs` that names its classes.

    It shows the change, the price and which running jobs end, asks on a terminal, and writes nothing unless the plan passes.
    """
    with exit_status():
        grown = growing(stack, file)
        removals.remove_cluster(grown, removals.cluster_of(grown, region), references=references)
        finish(grown, file, day_of(as_of), yes=yes)


@group.command()
def cluster(
    stack: Stack, name: _Name, references: _References = False, file: File = None, yes: Yes = False, as_of: AsOf = None
) -> None:
    """Remove a cluster. With --with-references also every `sameAs` that names its classes.

    It shows the change, the price and which running jobs end, asks on a terminal, and writes nothing unless the plan passes.
    """
    with exit_status():
        grown = growing(stack, file)
        removals.remove_cluster(grown, name, references=references)
        finish(grown, file, day_of(as_of), yes=yes)
