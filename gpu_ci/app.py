"""The typer application of `gpu-ci`, with the options, exit statuses and output that its commands share."""

import inspect
import json
import shutil
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fleet.facts.credentials import mask
from fleet.facts.errors import Fault, InputError
from fleet.facts.tables import beside
from fleet.loading.home import TREE
from fleet.loading.stackfile import name_of_file
from gpu_ci.errors import input_errors
from gpu_ci.offline.jsontext import document, fields_of
from gpu_ci.offline.layout import MaskingConsole, is_plain, without_commands

PROVE, RUN, WRITE, DOCUMENT = "Prove", "Run", "Write", "Document"
"""The groups of commands in `--help`."""

F = TypeVar("F", bound=Callable[..., object])


_ROWS: dict[str, dict[str, dict[str, Any]]] = beside(__file__, "options.toml")


class Program(typer.Typer):
    """A typer application whose commands end as `exit_status` has it."""

    def command(self, *args: Any, **options: Any) -> Callable[[F], F]:
        """Register a command. Each of its parameters that is a dataclass becomes the options of its fields.

        A parameter or field with a row in `options.toml` has the flags and the help of that row.
        """
        register = super().command(*args, **options)

        def registered(function: F) -> F:
            register(_command(function))
            return function

        return registered


def _command(function: Callable[..., object]) -> Callable[..., None]:
    parameters = _parameters(function)
    groups = {
        key: _parameters(parameter.annotation)
        for key, parameter in parameters.items()
        if is_dataclass(parameter.annotation) and isinstance(parameter.annotation, type)
    }

    def run(**values: Any) -> None:
        with exit_status(as_json=values.get("as_json", False)):
            if values.get("as_json") and values.get("as_markdown"):
                raise InputError("--json, --markdown: choose one output format; remove one of them")
            for key, options in groups.items():
                values[key] = parameters[key].annotation(**{option: values.pop(option) for option in options})
            function(**values)

    options = [option for key, parameter in parameters.items() for option in groups.get(key, {key: parameter}).values()]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def _parameters(of: Callable[..., object]) -> dict[str, inspect.Parameter]:
    rows, parameters = _ROWS.get(of.__name__, {}), dict(inspect.signature(of, eval_str=True).parameters)
    for name, row in rows.items():
        default = ... if parameters[name].default is inspect.Parameter.empty else parameters[name].default
        about = {key: value for key, value in row.items() if key not in ("argument", "flags")}
        flags = row.get("flags", [f"--{name.replace('_', '-')}"])
        option = typer.Argument(default, **about) if row.get("argument") else typer.Option(default, *flags, **about)
        parameters[name] = parameters[name].replace(default=option)
    return parameters


app = Program(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="""\
Plan, check and render a stack without Pulumi's engine and without a cloud; send jobs to it, build its runner image.

STACK is a name: staging reads Pulumi.staging.yaml of the current project.

Exit status: 0 success, 1 a proof, a mandatory policy or a job fails, 2 the input is wrong, 70 an error in this program, 141 the
reader of stdout has ended.""",
)

if is_plain():
    # Its import takes 3 % of a plan, and typer needs it only for --help and for its own errors.
    from typer import rich_utils

    rich_utils.COLOR_SYSTEM = None


def program_version() -> str:
    """The version of this program."""
    return str(tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["version"])


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"gpu-ci {program_version()}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


Text = str | None
Texts = list[str] | None
_NAMED = "Name of the stack: staging reads Pulumi.staging.yaml."
Stack = Annotated[str, typer.Argument(metavar="STACK", callback=name_of_file, help=_NAMED)]
_COMPARED = "Compare with this stack, and say why nothing of it fits."
OfStack = Annotated[str | None, typer.Option("--stack", callback=name_of_file, help=_COMPARED)]
File = Annotated[Path | None, typer.Option("--file", help="Read this stack file instead.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Only this cluster of the stack.")]
Pools = Annotated[list[str] | None, typer.Option("--pool", help="Only this pool of the stack. Repeat the option for more.")]
_TESTED = "Also run test-gpu.yml of this repository of GitHub, ORG/REPO, on the stack's runners."
Repository = Annotated[str | None, typer.Option("--repository", help=_TESTED)]
Folder = Annotated[Path, typer.Option("--out", help="Folder to write.")]
_DAY = "Use the prices, exceptions and support dates of this day, YYYY-MM-DD; default: GPU_CI_AS_OF, else today."
AsOf = Annotated[str | None, typer.Option("--as-of", help=_DAY)]
Strict = Annotated[bool, typer.Option("--strict", help="Also fail if a critical policy cannot decide.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="List everything that is otherwise one line with a count.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what fails, and the result.")]
RecordFile = Annotated[Path | None, typer.Option("--record", help="Write the record of the run into this file.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
CheckOnly = Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if something would change.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print GitHub Markdown, for a comment or a job summary.")]
Gpu = Annotated[str | None, typer.Option("--gpu", help="GPU model, such as T4, A10G or L4, if nothing else says it.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, also for wrong input.")]
Annotations = Annotated[bool, typer.Option("--annotations", help="Also print GitHub annotations, on stderr.")]


@contextmanager
def exit_status(on_input_error: Callable[[Exception], None] = lambda _: None, as_json: bool = False) -> Iterator[None]:
    """Exit with status 2 on an input error, after `on_input_error` and its lines on stderr; with 70 on any other exception.

    With `as_json` the lines of an input error are also a JSON document on stdout.

    Python exits with 1 for an exception. A pipeline would take that for a failed proof.
    """
    try:
        yield
    except typer.Exit:
        raise
    except input_errors() as error:
        on_input_error(error)
        if as_json:
            reply(_errors_json(error))
        reply((f"error: {without_commands(line)}" for line in mask(str(error)).splitlines()), err=True)
        raise typer.Exit(2) from error
    except Exception as error:
        reply(traceback.format_exc(), err=True)
        # EX_SOFTWARE of sysexits.h.
        raise typer.Exit(70) from error


def reply(content: Mapping[str, Any] | str | Iterable[str], err: bool = False) -> None:
    """Print a JSON document, a text, or lines of text, with credentials masked; with `err` on stderr."""
    out = sys.stderr if err else sys.stdout
    if isinstance(content, Mapping):
        out.write(document(content) + "\n")
    else:
        out.write(mask(content if isinstance(content, str) else "".join(f"{line}\n" for line in content)))


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record of a run; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _errors_json(error: Exception) -> dict[str, Any]:
    """The lines of an input error. An unknown value is an empty text, or null for the line."""
    faults = error.faults if isinstance(error, InputError) else map(Fault.of, str(error).splitlines())
    return {"errors": [fields_of(fault, "file", "line", "path", "rule", "message", "value") for fault in faults]}


def console() -> MaskingConsole:
    """The console for stdout. Output that is not a terminal has 160 columns, so that logs have no extra line breaks."""
    return MaskingConsole(width=shutil.get_terminal_size().columns if sys.stdout.isatty() else 160)
