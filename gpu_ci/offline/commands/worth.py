"""`gpu-ci worth`: what the jobs of a repository would have cost on GitHub's GPU runners, on a VM per job and on a fleet."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.facts.day import day_of
from fleet.facts.errors import InputError, quoted
from fleet.loading.config import read_fleet
from gpu_ci.app import PROVE, AsOf, File, Json, OfStack, app, console, reply
from gpu_ci.offline.layout import log_line, show_line, show_table
from gpu_ci.offline.why.usage import wait_text
from gpu_ci.offline.worth.history import read
from gpu_ci.offline.worth.verdict import Comparison, Way, month, span

History = Annotated[Path, typer.Argument(metavar="HISTORY", help="GitHub's answers about jobs as JSON, or a CSV of them.")]
Maps = Annotated[list[str] | None, typer.Option("--map", help="LABEL=SET: jobs with this label ask for this set. Repeatable.")]
Days = Annotated[int | None, typer.Option("--period", min=1, max=3660, help="Days of the export, if its jobs do not show all.")]
Late = Annotated[float, typer.Option("--late", min=0, help="Count the jobs that wait for more than so many minutes.")]
_COLUMNS = ("=way", ">USD", ">a month", "waits: median, 95 %, longest", ">late", ">fleet cheaper from, GPU hours a month")


@app.command(rich_help_panel=PROVE)
def worth(
    history: History,
    stack: OfStack,
    file: File = None,
    maps: Maps = None,
    days: Days = None,
    late: Late = 10,
    as_json: Json = False,
    as_of: AsOf = None,
) -> None:
    """Say whether a fleet is worth its price for past jobs: us, not us, or undecided.

    Exit status: 0 for each of the three answers, 2 the input is wrong.
    """
    pairs = [pair.rpartition("=") for pair in maps or ()]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0] and pair[2])]:
        raise InputError(f"--map: write LABEL=SET, such as my-gpu-runner=gpu-t4; got {quoted(wrong[0])}")
    compared = Comparison(read_fleet(str(stack), file), day_of(as_of), {label: name for label, _, name in pairs})
    found = compared.verdict(*read(history), days, late * 60)
    if as_json:
        reply({"stack": stack, **found, "ways": [way._asdict() for way in found["ways"]]})
    else:
        _report(found, found["days"])


def _report(found: Mapping[str, Any], days: int) -> None:
    out, ways = console(), found["ways"]
    show_line(out, log_line(f"{found['answer']}: {found['why']}"), "bold", whole=True)
    if ways:
        hours = (
            f"{found['hours']:.1f} GPU hours in {days} days from {found['first']}, {month((found['hours'],) * 2, days)} a month"
        )
        show_line(out, f"{found['jobs']} jobs, {hours}; they waited {_waits((wait, wait) for wait in found['waits'])}")
        show_table(out, _COLUMNS, [_row(way, days) for way in ways])
    lacks = [f"{way.name}: {count} jobs on a VM instead: {why}" for way in ways for why, count in way.lacks.items()]
    left = [f"left out: {count} jobs: {why}" for why, count in found["left"].items()]
    for line in (*lacks, *left, *found["notes"], *found["sources"]):
        show_line(out, log_line(line), indent="  ")


def _row(way: Way, days: int) -> tuple[str, ...]:
    above = " to ".join(dict.fromkeys("never" if hours is None else f"{hours:.0f}" for hours in way.above))
    late = "-".join(dict.fromkeys(map(str, way.late)))
    return way.name, span(*way.usd), month(way.usd, days), _waits(way.waits) or "not known", late, above


def _waits(waits: Iterable[tuple[float, float]]) -> str:
    return ", ".join("-".join(dict.fromkeys(map(wait_text, wait))) for wait in waits)
