"""`gpu-ci plan`: the resources, placement, price and policies of a stack."""

import sys
from pathlib import Path

import typer

from fleet.facts.day import day_of
from fleet.loading.home import ROOT
from gpu_ci.app import PROVE, Annotations, AsOf, File, Json, Markdown, Quiet, Stack, Strict, Verbose, app, console, exit_status
from gpu_ci.offline.annotations import annotate, of_input, print_annotations
from gpu_ci.offline.base import read_base, touched
from gpu_ci.offline.data import to_json
from gpu_ci.offline.markdown import markdown, wrong_input
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.report import report


@app.command(rich_help_panel=PROVE)
def plan(
    stack: Stack,
    file: File = None,
    base: Path | None = None,
    as_json: Json = False,
    as_markdown: Markdown = False,
    with_annotations: Annotations = False,
    as_of: AsOf = None,
    strict: Strict = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Show placement, price, resources and policies of a stack."""

    def tell(error: Exception) -> None:
        if as_markdown:
            sys.stdout.write(wrong_input(stack, error, ROOT))
        if with_annotations:
            print_annotations(of_input(error, ROOT))

    with exit_status(tell, as_json):
        with Progress() as progress:
            day = day_of(as_of)
            proved = make_plan(stack, ROOT, file, progress, day)
            before = None if base is None else read_base(stack, ROOT, base, file, progress, day)
            if before is not None and base is not None:
                proved = touched(proved, before.plan, base)
        if as_json:
            sys.stdout.write(to_json(proved, before) + "\n")
        elif as_markdown:
            sys.stdout.write(markdown(proved, before, strict))
        else:
            report(proved, console(), strict, verbose, before, quiet=quiet)
        if with_annotations:
            print_annotations(annotate(proved, ROOT, before, strict))
        raise typer.Exit(0 if proved.passes(strict) else 1)
