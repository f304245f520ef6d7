"""A whole run as people see it: the list of parts, the moment, the checks."""

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fleet.facts.day import day_of
from fleet.facts.errors import InputError, instead, quoted
from fleet.loading.config import read_stack
from gpu_ci.app import console, write_record
from gpu_ci.offline.layout import show_line, show_table
from gpu_ci.offline.progress import Progress
from gpu_ci.world import faults, get, parts, record
from gpu_ci.world.jobs import Batch, batches
from gpu_ci.world.processes import WorldError
from gpu_ci.world.run import Options, World, waits

_EVERY = 10
"""Seconds between two lines about a run whose output is not a terminal."""


class Asked(NamedTuple):
    """What the user asks for: the options of `gpu-ci world`."""

    stack: str
    file: Path | None
    cluster: str | None
    jobs: str
    faults: str | None
    factor: float
    charts: Path | None
    record: Path | None


def download(progress: Progress) -> None:
    """Download what is missing, and list what is here. Raises InputError."""
    folder = parts.cache()
    get.get(folder, say=progress)
    if "helm" in (programs := parts.find()):
        get.get_charts(folder / "charts", programs["helm"], progress)
    get.listing(console(), folder)


def run(asked: Asked, progress: Progress) -> bool:
    """One whole run; returns whether every check holds. Raises InputError before anything is started."""
    programs = parts.find()
    programs.require()
    (config, fleet), out = read_stack(asked.stack, asked.file), console()
    names = [name for name, _ in fleet.clusters_by_name()]
    if (name := fleet.first_name("clusters", asked.cluster or names[0])) not in names:
        raise InputError(f"--cluster: the stack has no cluster {quoted(name)}; {instead(name, names, names[0])}")
    queued = batches(asked.jobs, fleet.clusters[name])
    drills = faults.named(asked.faults, asked.factor)
    with tempfile.TemporaryDirectory(prefix="gpu-ci-world-") as folder:
        progress("reading the program")
        charts = asked.charts or parts.cache() / "charts"
        built = World(config, fleet, name, Options(asked.factor, charts, programs, Path(folder), day_of()))
        show_table(out, ("=part", "=is", "that means"), list(record.described(programs, built.left_out)))
        if others := [other for other in names if other != name]:
            show_line(out, f"cluster {name}; --cluster runs another one: {', '.join(others)}")
        try:
            return _run(built, queued, drills, asked, progress, out)
        except WorldError as error:
            kept = shutil.copytree(Path(folder) / "logs", parts.cache() / "logs", dirs_exist_ok=True)
            sys.stderr.write(f"error: {error}; the logs are in {kept}\n")
            return False


def _run(
    built: World, queued: Sequence[Batch], drills: Sequence[faults.Drill], asked: Asked, progress: Progress, out: Console
) -> bool:
    """Install twice, run the jobs or the drills, wait for the smallest size, remove. Returns whether every check holds."""
    count = sum(faults.EARLY + drill.jobs for drill in drills) or sum(batch.count for batch in queued)
    progress("starting the control plane")
    with built:
        if drills:
            faults.prepare(built)
        progress("installing the stack")
        built.install()
        again = built.install()
        built.queue(() if drills else queued)
        watch = Watch(built, count, out)
        with watch.live or nullcontext():
            outcomes = faults.run(built, drills, watch.look) if drills else []
            count = max(count, len(built.github.jobs))
            built.work(count, watch.look)
            built.work(count, watch.look, built.at_least)
        _summary(built, out)
        progress("removing the stack")
        left = built.remove(Random(0))  # noqa: S311 - no secret
        _show(drills, outcomes, out)
        held = list(record.checks(built, count, again, left, sum(outcome.lost for outcome in outcomes)))
        held += [record.Check(f"drill {outcome.drill}", outcome.against) for outcome in outcomes]
        show_table(out, ("=check", "result"), [(check.claim, check.against or "holds") for check in held])
        if asked.record is not None:
            drilled = {"drills": [outcome._asdict() for outcome in outcomes]} if outcomes else {}
            write_record(asked.record, record.document(built, asked.stack, held, left) | drilled)
        return not any(check.against for check in held)


def _show(drills: Sequence[faults.Drill], outcomes: Sequence[faults.Outcome], out: Console) -> None:
    """What drills showed, and those that are about nothing that the stack has."""
    if others := {drill.name for drill in drills} - {one.drill for one in outcomes}:
        show_line(out, f"not for this stack: {', '.join(sorted(others))}")
    if outcomes:
        head = ("=drill", ">seconds", ">after the way out", ">jobs", ">lost", "alerts")
        rows = []
        for one in outcomes:
            freed = "" if one.freed is None else f"{one.freed:.0f}"
            rows.append((one.drill, f"{one.seconds:.0f}", freed, str(one.jobs), str(one.lost), ", ".join(one.alerts)))
        show_table(out, head, rows)


class Watch:
    """Shows a run: on a terminal the table `live` that changes while it is entered, else a line now and then."""

    def __init__(self, built: World, count: int, out: Console) -> None:
        self._world, self._count, self._out, self._said = built, count, out, 0.0
        self.live = Live(console=out, transient=True) if out.is_terminal else None

    def look(self) -> None:
        """Show the moment."""
        if self.live:
            self.live.update(self._table())
        elif time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            nodes = ", ".join(f"{pool} {count}" for pool, count in self._world.sizes().items())
            show_line(self._out, f"{self._jobs()} ended; nodes: {nodes}; {self._usd()}")

    def _table(self) -> Table:
        table = Table("class", "queued", "running", "ended", "wait", title=self._jobs())
        for name, row in waits(self._world.github).items():
            waiting = row.get("queued", 0) + row.get("assigned", 0)
            ended = row["jobs"] - waiting - row.get("running", 0)
            table.add_row(name, str(waiting), str(row.get("running", 0)), str(ended), f"{row['wait'].get('median', '')} s")
        table.add_section()
        for pool, count in self._world.sizes().items():
            table.add_row(f"pool {pool}", "", f"{count} nodes", "", "")
        table.caption = self._usd()
        return table

    def _jobs(self) -> str:
        # Some drills queue jobs of their own.
        return f"{len(self._world.ended)} of {max(self._count, len(self._world.github.jobs))} jobs"

    def _usd(self) -> str:
        usage = self._world.cloud.usage()
        return f"{usage.usd} USD so far, never above {usage.hour} USD an hour"


def _summary(built: World, out: Console) -> None:
    rows = []
    for name, row in waits(built.github).items():
        seconds = (str(row["wait"].get(key, "")) for key in ("median", "p95", "longest"))
        rows.append((name, str(row["jobs"]), str(row.get("succeeded", 0)), *seconds))
    show_table(out, ("=class", ">jobs", ">succeeded", ">median s", ">95 % s", ">longest s"), rows)
    usage, (idle, worst) = built.cloud.usage(), record.bounds(built)
    show_line(out, f"machines: {usage.usd} USD, never above {usage.hour} USD an hour; the plan says {idle} to {worst}")
    for what, count in built.observed.warnings().items():
        show_line(out, f"not foreseen: {what}, {count} times")
