"""`offline check`: Kubernetes manifests of any origin, checked by the policies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.loading.stackfile import name_of_file
from gpu_ci.offline.annotations import of_input
from gpu_ci.offline.app import PROVE, ROOT, Annotations, AsOf, Json, Strict, Verbose, app, console, exit_status, print_annotations
from gpu_ci.offline.day import day_of
from gpu_ci.offline.manifests.check import make_check
from gpu_ci.offline.manifests.report import annotated, report, to_json
from gpu_ci.offline.progress import Progress


@app.command(rich_help_panel=PROVE)
def check(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of manifests, or one file.")],
    stack: Annotated[
        str, typer.Option("--stack", callback=name_of_file, help="Use the policy levels and the config of this stack.")
    ] = "staging",
    as_json: Json = False,
    with_annotations: Annotations = False,
    as_of: AsOf = None,
    strict: Strict = False,
    verbose: Verbose = False,
) -> None:
    """Check Kubernetes manifests of any origin by the policies."""

    def annotate_error(error: Exception) -> None:
        if with_annotations:
            print_annotations(of_input(error, Path.cwd()))

    with exit_status(annotate_error, as_json):
        with Progress() as progress:
            found = make_check(folder, stack, ROOT, progress, day_of(as_of))
        if as_json:
            sys.stdout.write(to_json(found, strict) + "\n")
        else:
            report(found, console(), strict, verbose)
        if with_annotations:
            print_annotations(annotated(found, strict))
        raise typer.Exit(0 if found.passes(strict) else 1)
