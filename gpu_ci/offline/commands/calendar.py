"""`gpu-ci calendar`: every day on which something of a stack ends."""

from datetime import date

from rich.text import Text

from fleet.facts.day import day_of
from fleet.loading.home import ROOT
from fleet.prove.ends import End
from gpu_ci.app import PROVE, AsOf, File, Json, Stack, app, console, reply
from gpu_ci.offline.data import end_json
from gpu_ci.offline.layout import show_line, show_table
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.words import endings


@app.command(rich_help_panel=PROVE)
def calendar(stack: Stack, file: File = None, as_json: Json = False, as_of: AsOf = None) -> None:
    """Show every day on which something of a stack ends, with its effect, its cost and what to do."""
    day = day_of(as_of)
    with Progress() as progress:
        plan = make_plan(stack, ROOT, file, progress, day)
    if as_json:
        reply({"asOf": day.isoformat(), "ends": [*map(end_json, plan.ends)]})
        return
    out = console()
    out.print(Text(f"gpu-ci calendar of stack {plan.config.stack} on {day}", style="bold"))
    for line in endings(plan):
        show_line(out, line, "yellow", indent="  ")
    out.print()
    columns = ("=last good day", "=days", "what", "used by", "after that day", "cost", "what to do")
    show_table(out, columns, [_row(end, end.last, day) for end in plan.ends if end.last is not None])
    out.print()
    if read := sorted({source.rpartition(", ")[2] for line in plan.bill for source in line.sources}):
        show_line(out, f"Prices were read from {read[0]} to {read[-1]}. No end of a price is published.", "dim")
    if endless := [end.use.life.what for end in plan.ends if end.last is None]:
        show_line(out, f"No end published: {', '.join(endless)}.", "dim")


def _row(end: End, last: date, day: date) -> tuple[str, ...]:
    use, left = end.use, (last - day).days
    # Only a runner without a known end has a day that is merely possible.
    possible = "" if use.life.last else " at the earliest"
    return f"{last}{possible}", str(left), use.life.what, ", ".join(end.clusters), use.life.effect, use.cost or "-", use.fix
