"""Breaks each source that `docs/seeds.md` names, and runs the tests of its row: `python -m tests.docs.seeds_mutants [ITEM …]`.

A test that still passes proves nothing of its row. The sources are broken in a copy of the repository. A function does nothing, a
container is empty, another value is changed, a key, a row, a target or the text below a heading is gone, and a file that is named
alone is empty. `build/seeds.json` has the results. A result holds as long as neither the source nor the file of the test
changes, so a run that was stopped continues. Of a row whose one test failed, the other tests do not run.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import ROOT, section
from tests.docs.test_seeds import PAGE, Row, defined, rows

RESULTS = ROOT / "build" / "seeds.json"
ENDS = ("SURVIVED", "import fails", "test fails")
"""What becomes of a mutant: its tests pass, their file cannot be imported, or they fail."""
LIMIT = 300
"""Seconds for the tests of one mutant."""


def broken(file: Path, name: str) -> str:
    """The text of a file in which what `name` names is broken: `:key`, `#heading` or, with an empty name, all of it."""
    if not name:
        return ""
    text, word = file.read_text(), re.escape(name[1:])
    if name.startswith("#"):
        return text.replace(section(file, name[1:]), "")
    if file.suffix == ".py":
        return _code(text, *name[1:].split("."))
    step = rf"^( *begin {word}\n)(?!begin)(.+\n)+?(?=\n|fi$)"
    table = rf"^\[(.*\.)?\"?{word}\"?(\..*)?\]\n([^\[].*\n|\n)*"
    block, rest = {
        ".yaml": (rf"^( *)(- )?[\"']?{word}[\"']?:.*\n((\1 .*)?\n|\1- .*\n)*", ""),
        ".csv": (rf"^{word},.*\n", ""),
        ".toml": (table if re.search(table, text, re.MULTILINE) else rf"^{word} =.*\n", ""),
        ".sh": (step if re.search(step, text, re.MULTILINE) else rf"^({word}=).*", r"\1"),
        "": (rf"^{word}:.*\n(\t.*\n)*", ""),
    }[file.suffix.replace("yml", "yaml")]
    return re.sub(block, rest, text, count=1, flags=re.MULTILINE)


def _code(text: str, *names: str) -> str:
    def named(body: list[ast.stmt], name: str) -> Any:
        return next(node for node in body if name in defined(ast.Module([node], [])))

    top = node = named(ast.parse(text).body, names[0])
    segment = ast.get_source_segment(text, top) or ""
    for name in names[1:]:
        node = named(node.body, name)
    _break(node)
    top.decorator_list = []  # they are not in the segment
    return text.replace(segment, ast.unparse(top), 1)


def _break(node: ast.stmt) -> None:
    """Breaks a definition. A field without a value gets another name; a class is broken in all of its parts."""
    match node:
        case ast.FunctionDef():
            yields = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))
            node.body = ast.parse("return; yield" if yields else "return None").body
        case ast.ClassDef(body=body):
            for part in body:
                _break(part)
        case ast.AnnAssign(value=None, target=ast.Name() as target):
            target.id += "_"
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            node.value = _other(value)


def _other(value: ast.expr | None) -> ast.expr:
    match value:
        case ast.Dict(keys=[_, *_]):
            return ast.Dict([], [])
        case ast.List(elts=[_, *_]) | ast.Tuple(elts=[_, *_]) | ast.Set():
            return ast.Tuple([], ast.Load())
        case ast.Constant(value=str() | int() | None as old):
            return ast.Constant(not old if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}_")
    return ast.Constant(None)


class _Failures:
    """A plugin of pytest that keeps the ids of the tests that fail, and of the files that cannot be imported."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.found.add(report.nodeid.partition("[")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.found.add(report.nodeid)


OPTIONS = ("-q", "-pno:cacheprovider", "--tb=no", "--continue-on-collection-errors")


def _run(tests: list[str], sender: Connection) -> None:
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    failures = _Failures()
    # Where a file cannot be imported, pytest runs no test of the other files either.
    complete = pytest.main([*OPTIONS, *tests], plugins=[failures]) != pytest.ExitCode.USAGE_ERROR
    sender.send(sorted(failures.found) if complete else None)


def tried(tests: list[str]) -> dict[str, str]:
    """How each test ends, in a process that has read none of the project's modules yet: one of `ENDS`."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(tests, sender))
    process.start()
    sender.close()
    try:
        found: list[str] | None = receiver.recv() if receiver.poll(LIMIT) else tests
    except EOFError:  # it ended without a word
        found = tests
    process.kill()
    process.join()
    files = sorted(set(map(file_of, tests)))
    if found is not None:
        return {test: ENDS[2 if test in found else 1 if file_of(test) in found else 0] for test in tests}
    if len(files) == 1:
        return dict.fromkeys(tests, ENDS[1])
    return dict(item for file in files for item in tried([test for test in tests if file_of(test) == file]).items())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_of(reference: str) -> str:
    return re.split("[:#]", reference)[0]


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of the repository as the current folder. The project's modules are imported from there."""
    listed = ["/usr/bin/env", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for name in names:
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(sys.prefix)
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if path and Path(path) != ROOT)]
        _forget(ROOT)
        yield folder


def _forget(folder: Path) -> None:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name != "__main__" and file.startswith(f"{folder}/") and not file.startswith(sys.prefix):
            del sys.modules[name]


def _pass(tests: list[str], folder: Path) -> None:
    """Raises SystemExit if a test fails already. Imports what the tests import, but keeps no module of the project."""
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*OPTIONS, "--collect-only", *tests])
    _forget(folder)
    if failed := [test for test, ended in tried(tests).items() if ended != ENDS[0]]:
        sys.exit("these fail before anything is broken:\n" + "\n".join(failed))


@dataclass(slots=True)
class Mutant:
    """A broken source: its file, the broken text, the rows that name it, and how tests ended, by `key`."""

    source: str
    rows: list[Row]
    changed: str
    ended: dict[str, str]

    def state(self, row: Row) -> str:
        """How the tests of a row ended. Of several the one that proves most counts."""
        return max((self.ended.get(key(test), ENDS[0]) for test in row.tests), key=ENDS.index)

    def needed(self) -> list[str]:
        """The next test to run of each row of which none has failed: the last one first."""
        left = ([test for test in row.tests if key(test) not in self.ended] for row in self.rows if self.state(row) != ENDS[-1])
        return sorted({tests[-1] for tests in left if tests})


@cache
def key(test: str) -> str:
    """A test with a hash of its file."""
    return f"{test} {_hash((ROOT / file_of(test)).read_text())}"


def mutants(chosen: list[Row], results: dict[str, dict[str, str]]) -> Iterator[Mutant]:
    """Each source of the rows, broken. Raises SystemExit if one does not change by it."""
    for source in dict.fromkeys(source for row in chosen for source in row.sources):
        file = ROOT / file_of(source)
        changed = broken(file, source.removeprefix(file_of(source)))
        if changed == file.read_text():
            sys.exit(f"{source} cannot be broken")
        ended = results.setdefault(f"{source} {_hash(changed)}", {})
        yield Mutant(source, [row for row in chosen if source in row.sources], changed, ended)


def main(items: list[int]) -> int:
    chosen = [row for row in rows(PAGE.read_text()) if row.tests and (not items or row.number in items)]
    results: dict[str, dict[str, str]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    found = list(mutants(chosen, results))
    counts: Counter[str] = Counter()
    with copied() as folder:
        if any(mutant.needed() for mutant in found):
            _pass(sorted({test for mutant in found if mutant.needed() for row in mutant.rows for test in row.tests}), folder)
        for mutant in found:
            file = folder / file_of(mutant.source)
            text = file.read_text()
            file.write_text(mutant.changed)
            while tests := mutant.needed():
                mutant.ended |= {key(test): ended for test, ended in tried(tests).items()}
                RESULTS.write_text(json.dumps(results, indent=1))
            file.write_text(text)
            for row in mutant.rows:
                state = mutant.state(row)
                counts[state] += 1
                sys.stdout.write(f"{row.number:>3}  {state:12}  {mutant.source}\n")
                sys.stdout.flush()
    told = ", ".join(f"{counts[ended]} {ended}" for ended in reversed(ENDS))
    sys.stdout.write(f"{len(found)} mutants, {counts.total()} sources of {len(chosen)} rows: {told}\n")
    return 1 if counts[ENDS[0]] else 0


if __name__ == "__main__":
    sys.exit(main([int(item) for item in sys.argv[1:]]))
