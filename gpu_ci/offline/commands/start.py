"""`gpu-ci start`: how long jobs wait for a runner, by phase."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from fleet.facts.day import day_of
from fleet.loading.config import read_fleet
from fleet.prove.start import Start, Starts, starts
from gpu_ci.app import PROVE, AsOf, File, Json, Stack, app, console, reply
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import show_line, show_table

_ABOUT = "Public figures, not measurements of your fleet (docs/starts.md). "
_ABOUT += "A job waits longer if its pool is full or the cloud has no capacity."


@app.command(rich_help_panel=PROVE)
def start(stack: Stack, file: File = None, as_json: Json = False, as_of: AsOf = None) -> None:
    """Show how long jobs wait for a runner, by phase."""
    classes = tuple(starts(read_fleet(stack, file), day_of(as_of)))
    if as_json:
        reply({"stack": stack, "classes": list(map(_json, classes))})
    else:
        _report(classes, console())


def _report(classes: tuple[Starts, ...], out: Console) -> None:
    for runners in classes:
        where = f"{runners.cluster}/{runners.runner_set}, {runners.where}"
        show_line(out, f"{where}, {runners.idle} USD an hour idle: the first job finds {runners.finds}", "bold")
        columns = ("=phase", f"cold, finds {runners.cold.finds}", f"warm, finds {runners.warm.finds}")
        rows = [(cold.name, str(cold), str(warm)) for cold, warm in zip(runners.cold.phases, runners.warm.phases, strict=True)]
        show_table(out, columns, rows, total=("all", str(runners.cold), str(runners.warm)))
        out.print()
    show_line(out, _ABOUT)
    for line in dict.fromkeys(_sources(classes)):
        show_line(out, line, "dim", indent="  ")


def _sources(classes: tuple[Starts, ...]) -> Iterator[str]:
    """A line for each phase that takes time in one of the starts, in the order of the phases."""
    phases = [phase for runners in classes for start in (runners.cold, runners.warm) for phase in start.phases]
    for name in dict.fromkeys(phase.name for phase in phases):
        for phase in phases:
            if phase.name == name and phase.high != 0:
                sources = f" [{', '.join(phase.sources)}]" if phase.sources else ""
                yield f"{phase.name}, {phase}: {phase.note}{sources}"


def _json(runners: Starts) -> dict[str, Any]:
    idle = fields_of(runners.idle, "usd", "at_most", "unknown")
    starts = {"idleUsdPerHour": idle, "cold": _start(runners.cold), "warm": _start(runners.warm)}
    return fields_of(runners, "cluster", "runner_set", "where", "finds") | starts


def _start(start: Start) -> dict[str, Any]:
    phases = [fields_of(phase, "name", "low", "high", "note", "sources") for phase in start.phases]
    return fields_of(start, "finds", "low", "high", "gaps") | {"phases": phases}
