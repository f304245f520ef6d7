"""`python -m offline`: plan and render a stack without engine or cloud.

Exit status: 0 clean, 1 a proof or a mandatory policy fails, 2 the input is wrong, 70 the program itself is at fault.
"""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import pulumi
import typer

from fleet.facts.credentials import mask
from fleet.loading.load import fleet_of
from fleet.loading.stackfile import load
from offline.annotations import Annotation, annotate, of_input
from offline.base import read_base
from offline.changes import report_changes
from offline.console import MaskingConsole
from offline.data import to_json
from offline.day import day_of
from offline.errors import InputError
from offline.inventory.page import document as inventory_page
from offline.inventory.placed import unplaced
from offline.manifests.check import make_check
from offline.manifests.report import annotated
from offline.manifests.report import report as report_check
from offline.manifests.report import to_json as check_to_json
from offline.markdown import markdown, wrong_input
from offline.pack import write_pack
from offline.plan import make_plan
from offline.policydocs import document
from offline.progress import Progress
from offline.render import differences
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
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="Take prices, exceptions and ends of support of this day, YYYY-MM-DD; default: GPU_CI_AS_OF, else today."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail also where a critical policy cannot tell.")]


@app.command()
def plan(
    stack: Stack,
    file: File = None,
    base: Annotated[Path | None, typer.Option("--base", help="Show what changes from the checkout in this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="GitHub Markdown, for a comment or a job's summary.")] = False,
    with_annotations: Annotated[bool, typer.Option("--annotations", help="Also GitHub's annotations, on stderr.")] = False,
    as_of: AsOf = None,
    strict: Strict = False,
) -> None:
    """Show resources, placement, price and policies of a stack."""
    try:
        with _faults_are_ours(), Progress() as progress:
            if as_json and as_markdown:
                raise InputError("--json, --markdown: one form at a time; leave one of them out")
            day = day_of(as_of)
            found = make_plan(stack, ROOT, file, progress, day)
            before = None if base is None else read_base(stack, ROOT, base, file, progress, day)
    except (InputError, pulumi.RunError) as error:
        if as_markdown and not as_json:
            sys.stdout.write(wrong_input(stack, error, ROOT))
        if with_annotations:
            _say(of_input(error, file or ROOT / f"Pulumi.{stack}.yaml", ROOT))
        raise _wrong(error) from error
    with _faults_are_ours():
        if as_json:
            sys.stdout.write(to_json(found, before) + "\n")
        elif as_markdown:
            sys.stdout.write(markdown(found, before, strict))
        else:
            console = _console()
            if before is not None:
                report_changes(found, before, console)
            report(found, console, strict)
        if with_annotations:
            _say(annotate(found, ROOT, before, strict))
    raise typer.Exit(0 if found.passes(strict) else 1)


@app.command()
def render(
    stack: Stack,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    file: File = None,
    as_of: AsOf = None,
    strict: Strict = False,
    check_only: Annotated[bool, typer.Option("--check", help="Write nothing; fail where the folder differs.")] = False,
) -> None:
    """Write the stack's Kubernetes manifests and chart values, one file an object, and what its machines boot.

    Where ArgoCD delivers, that is the folder which it reads.
    """
    try:
        with _faults_are_ours(), Progress() as progress:
            found = make_plan(stack, ROOT, file, progress, day_of(as_of))
        if not found.passes(strict):
            report(found, MaskingConsole(stderr=True), strict)
            raise typer.Exit(1)
        with _faults_are_ours():
            astray = differences(found, out) if check_only else ()
            files = () if check_only else write_files(found, out)
    except (InputError, pulumi.RunError) as error:
        raise _wrong(error) from error
    if astray:
        sys.stderr.writelines(f"{line}\n" for line in astray)
        sys.stderr.write(f"error: {len(astray)} files are not what the settings give; render again, and commit what changed\n")
        raise typer.Exit(1)
    sys.stdout.writelines(f"{path}\n" for path in files or (f"{out}: as the settings give it",))


@app.command()
def check(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of manifests, or one file.")],
    stack: Annotated[str, typer.Option("--stack", help="Judge by the levels and the config of this stack.")] = "staging",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    with_annotations: Annotated[bool, typer.Option("--annotations", help="Also GitHub's annotations, on stderr.")] = False,
    as_of: AsOf = None,
    strict: Strict = False,
) -> None:
    """Judge Kubernetes manifests from anywhere by the policies."""
    try:
        with _faults_are_ours(), Progress() as progress:
            found = make_check(folder, stack, ROOT, progress, day_of(as_of))
    except InputError as error:
        if with_annotations:
            _say(of_input(error, Path(folder), Path.cwd()))
        raise _wrong(error) from error
    with _faults_are_ours():
        if as_json:
            sys.stdout.write(check_to_json(found, strict) + "\n")
        else:
            report_check(found, _console(), strict)
        if with_annotations:
            _say(annotated(found, strict))
    raise typer.Exit(0 if found.passes(strict) else 1)


@app.command()
def policies() -> None:
    """Print the page that docs/policies.md is: every policy in its own words."""
    sys.stdout.write(document())


@app.command()
def inventory(stack: Stack, file: File = None) -> None:
    """Print the page that docs/inventory-STACK.md is: every GPU workload of a stack, and what it needs of nodes."""
    try:
        with _faults_are_ours():
            fleet = fleet_of(load(stack, ROOT, stack_file=file))
            refused = tuple(unplaced(fleet))
            page = "" if refused else inventory_page(stack, fleet)
    except InputError as error:
        raise _wrong(error) from error
    sys.stderr.writelines(f"error: {mask(line)}\n" for line in refused)
    sys.stdout.write(mask(page))
    raise typer.Exit(1 if refused else 0)


@app.command(name="policy-pack")
def policy_pack(out: Annotated[Path, typer.Option(help="Folder to write.")]) -> None:
    """Write the policy pack as a folder of its own, which `pulumi policy publish` takes."""
    try:
        files = write_pack(out)
    except InputError as error:
        raise _wrong(error) from error
    sys.stdout.writelines(f"{path}\n" for path in files)
    sys.stdout.write(f"publish it: pulumi -C {shlex.quote(str(out.resolve()))} policy publish YOUR-ORGANIZATION\n")


@contextmanager
def _faults_are_ours() -> Iterator[None]:
    """Whatever is no fault of the input ends with a status of its own, 70.

    Python's would be 1: a pipeline must not take a fault of ours for a failed proof.
    """
    try:
        yield
    except (InputError, pulumi.RunError):
        raise
    except Exception as error:
        sys.stderr.write(mask(traceback.format_exc()))
        raise typer.Exit(_OUR_FAULT) from error


def _say(found: tuple[Annotation, ...]) -> None:
    sys.stderr.writelines(f"{annotation}\n" for annotation in found)


def _wrong(error: Exception) -> typer.Exit:
    sys.stderr.writelines(f"error: {line}\n" for line in mask(str(error)).splitlines())
    return typer.Exit(2)


def _console() -> MaskingConsole:
    return MaskingConsole(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
