"""`gpu-ci why`: why the jobs of a run wait, without a kubeconfig, and how long jobs of a repository wait."""

import os
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from fleet.facts.credentials import mask
from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.loading.config import read_fleet
from gpu_ci.app import RUN, AsOf, File, Json, Markdown, OfStack, app, reply
from gpu_ci.doctor.sources.actions import ENDED, Run, refusals, repository_of, run_of
from gpu_ci.offline import gfm
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import log_line, without_commands
from gpu_ci.offline.why.causes import STUCK, Reason, Stack, reasons
from gpu_ci.offline.why.seen import see
from gpu_ci.offline.why.usage import Report, markdown, report

_TARGET_HELP = "URL of a run or a job; with --report OWNER/REPOSITORY or its URL."
_AS_REPORT_HELP = "Report queue times and use for each runs-on, in Markdown."


@app.command(rich_help_panel=RUN)
def why(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET_HELP)],
    stack: OfStack = None,
    file: File = None,
    as_report: Annotated[bool, typer.Option("--report", help=_AS_REPORT_HELP)] = False,
    days: Annotated[int, typer.Option("--days", min=1, max=90, help="Days of the report.")] = 7,
    as_json: Json = False,
    as_markdown: Markdown = False,
    as_of: AsOf = None,
) -> None:
    """Say in one sentence why each job of a GitHub run waits, and whom to ask. Needs no kubeconfig.

    GH_TOKEN goes to github.com and ghe.com alone, GH_ENTERPRISE_TOKEN to the server that GH_HOST names.
    Exit status: 0 no job is stuck, 1 a job needs another label or is refused, 2 the input is wrong or GitHub refuses to answer.
    """
    if file is not None and stack is None:
        raise InputError("--file: needs the name of its stack; add --stack")
    day = day_of(as_of)
    compared = Stack(stack, read_fleet(stack, file), day) if stack is not None else None
    if as_report:
        repository = repository_of(target, os.environ)
        with refusals(repository):
            made = report(repository, day, days, compared, _now())
        reply(_report_json(made) if as_json else without_commands(markdown(made)))
        return
    repository, number = run_of(target, os.environ)
    with refusals(repository):
        seen = see(repository, number)
    answers = list(reasons(seen, compared))
    show = _json if as_json else _markdown if as_markdown else _text
    reply(show(seen.run, answers))
    raise typer.Exit(1 if any(reason.cause in STUCK for reason in answers) else 0)


def _now() -> datetime:
    return datetime.now(UTC)


def _state(run: Run) -> str:
    """A run none of whose jobs waits."""
    if run.conclusion == "action_required":
        return "The run waits until a maintainer approves it."
    if run.status == ENDED:
        return f"The run has ended ({run.conclusion}), so no job waits."
    return f"No job of the run waits; GitHub shows the run as {run.status}."


def _text(run: Run, answers: list[Reason]) -> str:
    lines = []
    for reason in answers:
        lines += [f"{reason.cause}: {reason.job.name}: {reason.text}", f"  waits since {_since(reason)}; ask {reason.ask}"]
        lines += [f"  shown by: {command}" for command in reason.commands]
    return "".join(map(_line, lines or [_state(run)]))


def _line(text: str) -> str:
    """A line of a log. Anyone may have chosen the name of a job."""
    indent = "  " if text.startswith("  ") else ""
    return f"{indent}{log_line(mask(text))}\n"


def _markdown(run: Run, answers: list[Reason]) -> str:
    if not answers:
        return f"### Why jobs wait\n\n{gfm.text(_state(run))}\n"
    texts = ((reason.job.name, _since(reason), reason.cause, reason.text, reason.ask) for reason in answers)
    rows = ([*map(gfm.text, row)] for row in texts)
    commands = "\n".join(dict.fromkeys(command for reason in answers for command in reason.commands))
    shown = f"\n\nThese commands show what is undeterminable here:\n\n{gfm.fenced(commands, 'sh')}" if commands else ""
    return without_commands(f"### Why jobs wait\n\n{gfm.table(('Job', 'Waits since', 'Cause', 'Why', 'Ask'), rows)}{shown}\n")


def _since(reason: Reason) -> str:
    return f"{reason.job.created_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _json(run: Run, answers: list[Reason]) -> dict[str, Any]:
    names = ("name=job.name", "labels=job.labels", "status=job.status", "cause", "text", "ask", "commands")
    jobs = [fields_of(reason, *names) | {"since": reason.job.created_at.isoformat()} for reason in answers]
    return {**fields_of(run, "run=id", "status", "conclusion"), "waiting": jobs}


def _report_json(made: Report) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        fields_of(use, "labels", "groups", "hours", "waiting", "share")
        | {"jobs": len(use.waits), "wait": {"median": use.wait(0.5), "90%": use.wait(0.9), "longest": use.wait(1)}}
        for use in made.uses
    ]
    days = {"first": made.first.isoformat(), "last": made.last.isoformat()}
    return {**fields_of(made, "repository", "read", "total", "gone"), **days, "uses": rows}
