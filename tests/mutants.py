"""Makes each change of `mutants.toml` in a copy of the repository, and runs its tests there: `python -m tests.mutants [NAME …]`.

A change that no test notices would harm somebody in silence. `make test` does not run it; a test checks that every text to change
is still there. Exit status 1 if a change survives.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.seeds_mutants import ENDS, copied, tried

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """In `file` the text `new` replaces `old`, which harms as `why` says. One of `tests` must fail."""

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: Sequence[str]


def mutants() -> list[Mutant]:
    """The rows of the table."""
    return [Mutant(**row) for row in tomllib.loads(TABLE.read_text())["mutant"]]


def main(names: Sequence[str]) -> int:
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    survived = 0
    with copied() as folder:
        clean = tried(sorted({test for mutant in chosen for test in mutant.tests}))
        if failed := [test for test, ended in clean.items() if ended != ENDS[0]]:
            sys.exit("these fail before anything is changed:\n" + "\n".join(failed))
        for mutant in chosen:
            file = folder / mutant.file
            text = file.read_text()
            file.write_text(text.replace(mutant.old, mutant.new))
            ended = max(tried(list(mutant.tests)).values(), key=ENDS.index)
            file.write_text(text)
            survived += ended == ENDS[0]
            sys.stdout.write(f"{ended:12}  {mutant.name:36}  {mutant.file}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {survived} survived\n")
    return 1 if survived else 0


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - {mutant.name for mutant in mutants()}:
        sys.exit(f"{TABLE.name} has no {', '.join(sorted(unknown))}; its names: {', '.join(each.name for each in mutants())}")
    raise SystemExit(main(sys.argv[1:]))
