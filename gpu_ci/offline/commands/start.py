"""`gpu-ci start`: how long jobs wait for a runner, by phase, and what a shorter start costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from fleet.facts.starts import PHASES, Phase
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.loading.stackfile import load
from fleet.prove.start import Start, Starts, Way, starts
from gpu_ci.app import PROVE, AsOf, File, Json, Stack, app, console, exit_status
from gpu_ci.offline.data import document, fields_of
from gpu_ci.offline.day import day_of
from gpu_ci.offline.layout import show_line, show_table

_ABOUT = (
    "Public figures, not measurements of your fleet (docs/starts.md). A job waits longer if its pool is full or the cloud has no "
    "capacity."
)


@app.command(rich_help_panel=PROVE)
def start(
    stack: Stack,
    within: Annotated[int | None, typer.Option("--within", min=1, help="Find the cheapest start of this many seconds.")] = None,
    file: File = None,
    as_json: Json = False,
    as_of: AsOf = None,
) -> None:
    """Show how long jobs wait for a runner, by phase, and with --within the cheapest settings for a shorter wait.

    Exit status: 0 success, 1 a runner class has no settings that are shown to start within the time, 2 the input is wrong.
    """
    with exit_status(as_json=as_json):
        classes = tuple(starts(fleet_of(load(stack, ROOT, stack_file=file)), day_of(as_of)))
        if as_json:
            sys.stdout.write(
                document({"stack": stack, "within": within, "classes": [_json(runners, within) for runners in classes]}) + "\n"
            )
        else:
            _report(classes, within, console())
        raise typer.Exit(0 if within is None or all(runners.best(within) for runners in classes) else 1)


def _report(classes: tuple[Starts, ...], within: int | None, out: Console) -> None:
    for runners in classes:
        name = f"{runners.cluster}/{runners.runner_set}, {runners.where}"
        head = f"{name}, {runners.idle} USD an hour idle: the first job finds {runners.finds}"
        show_line(out, head, "bold")
        show_table(
            out,
            ("=phase", f"cold, finds {runners.cold.finds}", f"warm, finds {runners.warm.finds}"),
            [(cold.name, str(cold), str(warm)) for cold, warm in zip(runners.cold.phases, runners.warm.phases, strict=True)],
            total=("all", str(runners.cold), str(runners.warm)),
        )
        if within is not None:
            _ways(runners, within, out)
        out.print()
    show_line(out, _ABOUT)
    for line in dict.fromkeys(_sources(classes)):
        show_line(out, line, "dim", indent="  ")


def _ways(runners: Starts, within: int, out: Console) -> None:
    show_table(
        out,
        ("settings", ">USD/h more", "starts in", f"within {within} s"),
        [
            (
                _settings(way, "\n"),
                "-" if way.refused else str(way.more),
                str(way.start),
                way.misses(within) or f"yes{way.start.condition}",
            )
            for way in runners.ways
        ],
    )
    best, unshown = runners.best(within), runners.unshown(within)
    if best is not None:
        show_line(out, f"cheapest within {within} s: {_settings(best)}: {best.more} USD an hour more", "bold green")
    else:
        closest = f"; the closest is {_settings(unshown)}: {unshown.more} USD an hour more" if unshown else ""
        show_line(out, f"nothing is shown to start within {within} s{closest}", "bold yellow")


def _settings(way: Way, joint: str = " and ") -> str:
    return joint.join(f"{path}: {_value(value)}" for path, value in way.settings.items()) or "as it is"


def _value(value: Any) -> str:
    return f"{{{', '.join(f'{key}: {entry}' for key, entry in value.items())}}}" if isinstance(value, dict) else str(value)


def _sources(classes: tuple[Starts, ...]) -> Iterator[str]:
    """A line for each phase that takes time in one of the starts, in the order of the phases."""
    phases = [
        phase
        for runners in classes
        for start in (runners.cold, runners.warm, *(way.start for way in runners.ways))
        for phase in start.phases
    ]
    for name in PHASES:
        yield from (_source(phase) for phase in phases if phase.name == name and phase.high != 0)


def _source(phase: Phase) -> str:
    sources = f" [{', '.join(phase.sources)}]" if phase.sources else ""
    return f"{phase.name}, {phase}: {phase.note}{sources}"


def _json(runners: Starts, within: int | None) -> dict[str, Any]:
    ways = [_way(way) | ({"misses": way.misses(within)} if within is not None else {}) for way in runners.ways]
    best = runners.best(within) if within is not None else None
    idle = fields_of(runners.idle, "usd", "at_most", "unknown")
    starts = {"idleUsdPerHour": idle, "cold": _start(runners.cold), "warm": _start(runners.warm), "ways": ways}
    return fields_of(runners, "cluster", "runner_set", "where", "finds") | starts | {"best": _way(best) if best else None}


def _way(way: Way) -> dict[str, Any]:
    more = fields_of(way.more, "usd", "at_most", "unknown")
    return {"settings": dict(way.settings), "start": _start(way.start), "usdPerHourMore": more, "refused": way.refused}


def _start(start: Start) -> dict[str, Any]:
    phases = [fields_of(phase, "name", "low", "high", "note", "sources") for phase in start.phases]
    return fields_of(start, "finds", "low", "high", "gaps") | {"phases": phases}
