"""The stack files of `broken/`: a whole file for each base, and in `<base>.diff` what each broken one changes.

`python -m tests.fleet.broken_stacks NAME` prints one as a whole.

A case begins with `== name`. Its lines that begin with `-` go, those with `+` come, and those with a space stay and say where.
`@@` separates two places of a file. What goes and stays in a place occurs once in the base, so a case needs no line numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.builders import stack_in

FOLDER = Path(__file__).parent / "broken"


def bases() -> tuple[str, ...]:
    """The names of the files that the broken ones vary."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def texts() -> dict[str, str]:
    """The text of each file by name. Raises ValueError if a case does not fit its base, or a name occurs twice."""
    whole = {name: (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in bases()}
    for base in bases():
        path = FOLDER / f"{base}.diff"
        for name, lines in _cases(path.read_text(encoding="utf-8").splitlines() if path.exists() else ()):
            if name in whole:
                raise ValueError(f"{path.name}: {name} occurs twice; rename one")
            whole[name] = changed(whole[base], lines, f"{path.name}: {name}")
    return whole


def stack(name: str) -> dict[str, Any]:
    """The config of a file under our namespace, by key."""
    return stack_in(texts()[name])


def write(folder: Path) -> list[Path]:
    """Write every file into a folder, for what reads paths."""
    paths = [folder / f"{name}.yaml" for name in sorted(texts())]
    for path in paths:
        path.write_text(texts()[path.stem], encoding="utf-8")
    return paths


def _cases(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of each case. Lines before the first are a comment."""
    starts = [number for number, line in enumerate(lines) if line.startswith("== ")]
    for start, end in pairwise([*starts, len(lines)]):
        yield lines[start].removeprefix("== "), [line for line in lines[start + 1 : end] if line]


def changed(base: str, lines: Sequence[str], where: str) -> str:
    """The text of a case of a base. Raises ValueError if a place of it is not there once; `where` names the case."""
    held = base.splitlines()
    edits: list[tuple[int, int, list[str]]] = []
    for place in _places(lines):
        if unknown := [line for line in place if line[0] not in "-+ "]:
            raise ValueError(f"{where}: a line begins with -, + or a space; got {unknown[0]!r}")
        old = [line[1:] for line in place if line[0] != "+"]
        starts = [start for start in range(len(held)) if old and held[start : start + len(old)] == old]
        if len(starts) != 1:
            raise ValueError(f"{where}: these lines occur {len(starts)} times in the base, not once; got {old}")
        edits.append((starts[0], starts[0] + len(old), [line[1:] for line in place if line[0] != "-"]))
    for start, end, new in sorted(edits, reverse=True):
        held[start:end] = new
    return "".join(f"{line}\n" for line in held)


def _places(lines: Sequence[str]) -> Iterator[list[str]]:
    place: list[str] = []
    for line in lines:
        if line == "@@":
            yield place
            place = []
        else:
            place.append(line)
    yield place


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in texts():
        sys.exit(f"name one file of {', '.join(sorted(texts()))}")
    sys.stdout.write(texts()[sys.argv[1]])
