"""`make bench`: the time and memory of a plan compared with the SDK's plain mocks, as ratios within one run. Start and audit are
compared with importing pydantic and a YAML reader.

Each figure is the minimum of several whole processes. The processes of a fleet run at the same time, so that a busy machine slows
all of them equally. Seconds are processor time, which other work on the machine affects least. They are printed for orientation,
with the number of cores. Only the ratios have limits.

Each proof of `fleet.prove` runs alone on the fleets of `write_shapes`, and takes at most as long as an empty program.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from policies.rules import RULES
from tests.bench.fleet import write_fleet, write_foreign, write_hostile, write_shapes

ROOT = Path(__file__).resolve().parents[2]
_JUDGING = 1.2
"""Limit of the time with policies, as a multiple of the time without."""
_PLAN = {1000: (0.6, 0.7)}
"""What a plan may take of the bare mocks' time and memory, by the number of pools. In smaller fleets start-up dominates."""
_GROWTH = 1.2
"""Limit of the exponent of a plan's time in the number of pools. The same code has 1.06 to 1.15; quadratic code has 2."""
_START, _AUDIT = 1.1, 3.6
"""Limits of `gpu-ci --version` and of an audit, as multiples of importing pydantic and a YAML reader. They may only fall."""
_STATUS = {"plan": (0, 1), "audit": (0, 1), "refuse": (2,)}
"""How a process may end, by its mode. A fleet of a thousand pools exceeds its limits: its plan fails, and the time counts."""
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@dataclass(frozen=True, slots=True)
class Figure:
    """The least processor time in seconds and the least peak memory in MiB of several processes."""

    seconds: float
    mebibytes: float


@dataclass(frozen=True, slots=True)
class Case:
    """A process to measure: a mode of `bench.program` and its stack file."""

    mode: str
    path: Path | None


def measure(cases: Iterable[Case], rounds: int) -> dict[Case, Figure]:
    """Run the cases together, `rounds` times. Returns the minimum of each."""
    wanted = tuple(cases)
    figures: dict[Case, list[tuple[float, float]]] = {case: [] for case in wanted}
    for _ in range(rounds):
        running = [(case, _start(case)) for case in wanted]
        for case, process in running:
            figures[case].append(_figure(case, process))
    return {case: Figure(min(s for s, _ in taken), min(m for _, m in taken)) for case, taken in figures.items()}


def _command(case: Case) -> list[str]:
    return [sys.executable, "-m", "tests.bench.program", case.mode, *([str(case.path)] if case.path else [])]


def _start(case: Case) -> subprocess.Popen[bytes]:
    return subprocess.Popen(_command(case), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _figure(case: Case, process: subprocess.Popen[bytes]) -> tuple[float, float]:
    with process:
        errors = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _STATUS.get(case.mode, (0,)):
        console.print(errors.decode(), markup=False)
        raise typer.Exit(process.returncode)
    # ru_maxrss is KiB on Linux and bytes on macOS.
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def _counts(sizes: str) -> tuple[int, ...]:
    """The sizes as numbers. Raises a usage error unless they rise, because growth is measured from the first to the last."""
    parts = [part.strip() for part in sizes.split(",")]
    counts = tuple(int(part) for part in parts if re.fullmatch(r"[1-9][0-9]{0,5}", part))
    if len(counts) != len(parts) or any(one >= next_ for one, next_ in itertools.pairwise(counts)):
        hint = "whole numbers of pools, each larger than the one before, as 100,1000"
        raise typer.BadParameter(f"must be {hint}; got {sizes!r}", param_hint="--sizes")
    return counts


def main(
    sizes: Annotated[str, typer.Option(help="Pools (and as many runner sets) of the made fleets, smallest first.")] = "100,1000",
    rounds: Annotated[int, typer.Option(min=1, help="Times that each process runs.")] = 2,
) -> None:
    """Print the table of ratios; exit 1 when one is over its limit."""
    counts = _counts(sizes)
    over: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        staging = Case("plan", ROOT / "Pulumi.staging.yaml")
        nothing = Case("empty", None)
        console.print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, least of {rounds} runs")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("fleet", "process", "seconds", "MiB", "ratio of time", "limit", "ratio of memory", "limit"):
            table.add_column(column, justify="left" if column in ("fleet", "process") else "right")
        hostile = Case("refuse", write_hostile(Path(folder)))
        imports, start, audit = Case("imports", None), Case("start", None), Case("audit", write_foreign(Path(folder)))
        core = measure((imports, start, audit), 5 * rounds)
        _row(table, "-", "pydantic and YAML", core[imports])
        over += _row(table, "-", "gpu-ci --version", core[start], core[imports], _START, None)
        over += _row(table, "20 runner sets, 20 jobs", "audit", core[audit], core[imports], _AUDIT, None)
        small = measure((nothing, staging, hostile), 3 * rounds)
        _row(table, "-", "empty program", small[nothing])
        over += _row(table, "staging", "plan", small[staging], small[nothing], 1.35, None)
        over += _row(table, "89 KB of hostile YAML", "refusal", small[hostile], small[nothing], 1.0, 1.0)
        for shape, path in write_shapes(Path(folder)).items():
            over += _proofs(table, shape, Case("prove", path), small[nothing].seconds)
        plans: dict[int, Figure] = {}
        for count in counts:
            path = write_fleet(count, Path(folder))
            bare, recorded, planned = (Case(mode, path) for mode in ("bare", "record", "plan"))
            found = measure((bare, recorded, planned), rounds)
            name = f"{count} + {count}"
            plans[count] = found[planned]
            _row(table, name, "bare mocks", found[bare])
            over += _row(table, name, "recorder alone", found[recorded], found[bare], 1.3, 1.4)
            over += _row(table, name, "plan", found[planned], found[bare], *_PLAN.get(count, (1.3, 1.4)))
            # Both are measured in one process, so that a busy machine slows both equally. A plan does more than record.
            rest, policies, resources = _shares(Case("judge", path), rounds)
            over += _share(table, name, f"{len(RULES)} policies, {resources:g} resources", policies, rest)
            if count == counts[0]:
                each, together, asked = _shares(Case("server", path), 1)
                table.add_row(
                    name, "the SDK's server, the same", f"{each + together:.2f}", "", f"{1 + (each + together) / rest:.2f}x"
                )
                console.print(
                    f"the SDK's server: {1000 * each / asked:.1f} ms a resource and {together:.2f} s for the stack, "
                    f"{asked:g} resources; in process {1000 * policies / resources:.2f} ms"
                )
        console.print(table)
        if len(counts) > 1:
            least, most = counts[0], counts[-1]
            base = small[nothing].seconds
            # The start-up time does not grow.
            growth = math.log((plans[most].seconds - base) / (plans[least].seconds - base)) / math.log(most / least)
            console.print(f"growth of the plan from {least} to {most}: exponent {growth:.2f} (limit {_GROWTH})")
            over += [f"growth exponent {growth:.2f} over {_GROWTH}"] if growth > _GROWTH else []
    for line in over:
        console.print(f"over: {line}")
    raise typer.Exit(1 if over else 0)


def _proofs(table: Table, shape: str, case: Case, empty: float) -> list[str]:
    """A row for the slowest proof of a fleet, and a line for each proof that takes longer than an empty program."""
    lines = subprocess.run(_command(case), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    proofs = sorted(((float(line.partition(" ")[0]), line.partition(" ")[2]) for line in lines), reverse=True)
    seconds, slowest = proofs[0]
    table.add_row(shape, f"slowest proof: {slowest}", f"{seconds:.2f}", "", f"{seconds / empty:.2f}x", "1.0x")
    return [f"{shape}: proof {name} takes {spent / empty:.2f}x of an empty program" for spent, name in proofs if spent > empty]


def _shares(case: Case, rounds: int) -> tuple[float, float, float]:
    """The three figures that the process prints, the minimum of each. The process measures itself, without its start-up."""
    taken = [list(map(float, subprocess.check_output(_command(case), cwd=ROOT, text=True).split())) for _ in range(rounds)]
    first, second, third = (min(figures) for figures in zip(*taken, strict=True))
    return first, second, third


def _share(table: Table, fleet: str, process: str, seconds: float, base: float) -> list[str]:
    """A row for a part that adds `seconds` to a plan of `base` seconds."""
    ratio = 1 + seconds / base
    table.add_row(fleet, process, f"{seconds:.2f}", "", f"{ratio:.2f}x", f"{_JUDGING}x", "", "")
    return [f"{fleet} {process}: {ratio:.2f}x, limit {_JUDGING}x"] if ratio > _JUDGING else []


def _row(
    table: Table,
    fleet: str,
    process: str,
    figure: Figure,
    base: Figure | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
) -> list[str]:
    if base is None:
        table.add_row(fleet, process, f"{figure.seconds:.2f}", f"{figure.mebibytes:.0f}", "", "", "", "")
        return []
    slower, larger = figure.seconds / base.seconds, figure.mebibytes / base.mebibytes
    table.add_row(
        fleet,
        process,
        f"{figure.seconds:.2f}",
        f"{figure.mebibytes:.0f}",
        f"{slower:.2f}x",
        f"{time_limit}x" if time_limit else "",
        f"{larger:.2f}x",
        f"{memory_limit}x" if memory_limit else "",
    )
    over = [f"{fleet} {process}: {slower:.2f}x the time, limit {time_limit}x"] if time_limit and slower > time_limit else []
    if memory_limit and larger > memory_limit:
        over.append(f"{fleet} {process}: {larger:.2f}x the memory, limit {memory_limit}x")
    return over


if __name__ == "__main__":
    typer.run(main)
