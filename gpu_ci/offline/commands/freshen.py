"""`gpu-ci freshen`: newer rows of the dated tables from their sources, and what they change."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fleet.facts.day import day_of
from fleet.facts.errors import InputError, instead
from fleet.loading.config import read_fleet
from fleet.loading.home import INSTALLED, ROOT, TREE
from fleet.providers.finding import SourceError
from fleet.providers.registry import provider_of
from gpu_ci.app import WRITE, AsOf, CheckOnly, Json, Texts, app, reply
from gpu_ci.doctor.sources.web import Web
from gpu_ci.offline.entries import flat
from gpu_ci.offline.freshen.rows import Edit, Tables
from gpu_ci.offline.freshen.tasks import PRICED, TASKS, Asking, incomplete, on_demand
from gpu_ci.offline.words import name_of, short

DATA = TREE / "fleet" / "facts" / "data"
"""The folder of the tables."""


Plan = Mapping[str, Any]


class Asked(NamedTuple):
    """What one source gave: edits, or the reason why it was not reached."""

    source: str
    edits: tuple[Edit, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""


@app.command(rich_help_panel=WRITE)
def freshen(
    stacks: Texts = None, check: CheckOnly = False, only: Texts = None, as_json: Json = False, as_of: AsOf = None
) -> None:
    """Write newer versions, digests and dates into the tables, and show what they change in each stack.

    GH_TOKEN, if it is set, is sent to api.github.com alone. A source that cannot be reached is named, and the others are asked.
    Exit status: 0 every source that can be reached was asked, 1 with --check a row is newer, 2 the input is wrong.
    """
    if INSTALLED:
        raise InputError("freshen: changes the tables of a clone, and this program is installed; run it in a clone")
    day = day_of(as_of)
    names = stacks or sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))
    fleets = {name: read_fleet(name) for name in names}
    tables = Tables(DATA)
    web = Web(os.environ.get("GH_TOKEN") or "")
    clusters = [cluster for fleet in fleets.values() for _, cluster in fleet.clusters_by_name()]
    regions = tuple(sorted({cluster.region for cluster in clusters if provider_of(cluster).cloud == PRICED}))
    answers = list(_ask(Asking(web, tables, day, regions), tuple(only or ())))
    newer = bool(tables.changed)
    writes = newer and not check
    before = {name: plan_of(name, ROOT, day) for name in names if writes}
    if writes:
        tables.write()
    effects = {name: list(effect(plan, plan_of(name, ROOT, day))) for name, plan in before.items()}
    reply(_json(day.isoformat(), answers, writes, effects) if as_json else _lines(answers, check, effects))
    raise typer.Exit(1 if check and newer else 0)


def _ask(ask: Asking, only: tuple[str, ...]) -> Iterator[Asked]:
    """Ask the sources in turn. The edits of a source are made together, or not at all if it fails. Raises InputError."""
    priced = {f"prices {region}": partial(on_demand, region=region) for region in ask.regions}
    tasks = TASKS | priced | dict(incomplete(ask.tables))
    for word in only:
        if not any(name.startswith(word) for name in tasks):
            otherwise = f"write one of {', '.join(tasks)}"
            raise InputError(f"--only: no source begins with {word!r}; {instead(word, tasks, otherwise)}")
    for name, task in tasks.items():
        if only and not name.startswith(only):
            continue
        ask.notes.clear()
        try:
            edits = tuple(task(ask))
            ask.tables.apply(list(edits))
        except SourceError as error:
            yield Asked(name, reason=str(error))
        else:
            yield Asked(name, edits, tuple(ask.notes))


def _lines(answers: list[Asked], check: bool, effects: dict[str, list[str]]) -> Iterator[str]:
    quiet = ("source", "date", "ends", "ends-source")
    for answer in answers:
        for edit in answer.edits:
            values = ", ".join(f"{key} {text}" for key, text in edit.fields.items() if key not in quiet)
            yield f"newer   {edit.name}: {values or edit.fields['source']}"
        yield from (f"left    {note}" for note in answer.notes)
    yield from (f"skipped {answer.source}: {answer.reason}" for answer in answers if answer.reason)
    reached = sum(not answer.reason for answer in answers)
    rows = len({(edit.file, edit.row) for answer in answers for edit in answer.edits})
    change = "would change" if check else "changed"
    yield f"{reached} of {len(answers)} sources asked; {rows} {'row' if rows == 1 else 'rows'} {change}"
    for stack, effect_lines in effects.items():
        yield from ("", f"stack {stack}", *(f"  {line}" for line in effect_lines))


def _json(day: str, answers: list[Asked], written: bool, effects: dict[str, list[str]]) -> dict[str, Any]:
    newer = [{"row": edit.name, "fields": dict(edit.fields)} for answer in answers for edit in answer.edits]
    sources = [{"source": answer.source, "asked": not answer.reason, "reason": answer.reason} for answer in answers]
    notes = [note for answer in answers for note in answer.notes]
    return {"asOf": day, "written": written, "newer": newer, "left": notes, "sources": sources, "stacks": effects}


def plan_of(stack: str, root: Path, day: date) -> Plan:
    """The plan of a stack as `plan --json` prints it, or the errors of its input.

    Each plan has a process of its own, because tables are read once.
    """
    command = [sys.executable, "-m", "gpu_ci", "plan", "--json", "--as-of", day.isoformat(), "--", stack]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    try:
        return dict(json.loads(process.stdout))
    except ValueError:
        return {"errors": [{"message": (process.stderr.splitlines() or ["the plan prints nothing"])[-1]}]}


def effect(before: Plan, after: Plan) -> Iterator[str]:
    """One line for each value that differs, with the value before and after."""
    old, new = (dict(flat(_shown(plan), "")) for plan in (before, after))
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield f"{path}: {old.get(path, 'nothing')} → {new.get(path, 'nothing')}"


def _shown(plan: Plan) -> dict[str, Any]:
    """What a person compares: the result, the price, texts as keys, so that each is there or not, and the resources by name."""
    failing = {"level": "mandatory", "kind": "violation"}
    verdicts = (verdict for verdict in plan.get("verdicts", ()) if failing.items() <= verdict.items())
    parts = {
        "result": plan.get("result", "wrong input"),
        "USD an hour": {name: plan["price"][name]["usd"] for name in ("idle", "worst")} if "price" in plan else "unknown",
        "failure": {failure["message"]: "yes" for failure in (*plan.get("errors", ()), *plan.get("failures", ()), *verdicts)},
        "remark": dict.fromkeys(plan.get("remarks", ()), "yes"),
        "resource": {f"{short(one['type'])} {name_of(one['urn'])}": one["inputs"] for one in plan.get("resources", ())},
    }
    return {name: value for name, value in parts.items() if value}
