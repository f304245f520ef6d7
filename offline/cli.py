"""`python -m offline`: plan and render a stack without engine or cloud.

Exit status: 0 clean, 1 a proof or a mandatory policy fails, 2 the input is wrong, 70 the program itself is at fault.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import pulumi
import typer
from rich.console import Console

from offline.data import to_json
from offline.errors import InputError
from offline.plan import Plan, make_plan
from offline.progress import Progress
from offline.render import render as write_files
from offline.report import report

ROOT = Path(__file__).resolve().parent.parent
_OUR_FAULT = 70
"""EX_SOFTWARE of sysexits.h."""
_PLAIN_WIDTH = 160
"""Columns where the output is no terminal: a log does not wrap for us."""

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

Stack = Annotated[str, typer.Argument(help="Name of the stack: staging reads Pulumi.staging.yaml.")]
File = Annotated[Path | None, typer.Option("--file", help="Read this stack file instead.")]


@app.command()
def plan(
    stack: Stack, file: File = None, as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False
) -> None:
    """Show resources, placement, price and policies of a stack."""
    found = _plan(stack, file)
    if as_json:
        sys.stdout.write(to_json(found) + "\n")
    else:
        report(found, _console())
    raise typer.Exit(0 if found.clean else 1)


@app.command()
def render(stack: Stack, out: Annotated[Path, typer.Option(help="Folder to write.")], file: File = None) -> None:
    """Write the stack's Kubernetes manifests and chart values, one file an object, and the boot script of its machines."""
    found = _plan(stack, file)
    if not found.clean:
        report(found, Console(stderr=True, highlight=False, markup=False, emoji=False))
        raise typer.Exit(1)
    try:
        files = write_files(found, out)
    except InputError as error:
        raise _wrong(error) from error
    sys.stdout.writelines(f"{path}\n" for path in files)


def _plan(stack: str, file: Path | None) -> Plan:
    with Progress() as progress:
        try:
            return make_plan(stack, ROOT, file, progress)
        except (InputError, pulumi.RunError) as error:
            raise _wrong(error) from error
        except Exception as error:
            # Python's own status would be 1: a pipeline must not take a fault of ours for a failed proof.
            traceback.print_exc()
            raise typer.Exit(_OUR_FAULT) from error


def _wrong(error: Exception) -> typer.Exit:
    sys.stderr.writelines(f"error: {line}\n" for line in str(error).splitlines())
    return typer.Exit(2)


def _console() -> Console:
    # No markup: names and labels are data, and [red] in one of them is no colour.
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
