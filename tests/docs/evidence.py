"""Reads docs/evidence.toml and writes its tables: the whole one of docs/evidence.md, and the short one of the README."""

from __future__ import annotations

import ast
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpu_ci.offline.gfm import fold
from tests.docs.markdown import ROOT

SOURCE = ROOT / "docs" / "evidence.toml"
LEVELS = {
    "offline": "proved offline",
    "charts": "rendered with real charts",
    "api": "run on a real API server",
    "engine": "run on the real engine",
    "world": "run in the world",
    "cloud": "run on a cloud",
}
"""Levels of evidence, the lowest first."""
_FEW = 5
MARKERS = {"reference": "charts", "kwok": "api", "hooks": "api", "engine": "engine", "world": "world"}
"""The level of a test by its marker; a test without one of them is `offline`."""
RECORDS = "docs/acceptance/"
"""Records of `make acceptance` on a real account."""
WORLDS = "docs/world/"
"""Records of `gpu-ci world`, in which each check holds."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of docs/evidence.toml: `page` is a page of docs/, `simulated` is what a stand-in answered for in the evidence, and
    `missing` is what the evidence does not show.
    """

    name: str
    what: str
    page: str
    level: str
    evidence: list[str]
    simulated: list[str]
    missing: str


def features() -> list[Feature]:
    """All rows in the order of the file."""
    return [Feature(**row) for row in tomllib.loads(SOURCE.read_text())["feature"]]


def level_of(evidence: str) -> str:
    """The level of a test `tests/path.py::test_name`, or of a record. Raises ValueError for others and failed runs."""
    path, _, name = evidence.partition("::")
    if path.startswith(WORLDS) and path.endswith(".json") and (ROOT / path).is_file():
        if {*json.loads((ROOT / path).read_text())["checks"].values()} != {"holds"}:
            raise ValueError(f"{evidence} is the record of a run that failed")
        return "world"
    if path.startswith(RECORDS) and path.endswith(".json") and (ROOT / path).is_file():
        record = json.loads((ROOT / path).read_text())
        if not record["ok"]:
            raise ValueError(f"{evidence} is the record of a run that failed")
        # A rehearsal has simulated clouds.
        return "cloud" if record["cloud"] else "engine"
    marked = _tests(ROOT / path) if path.startswith("tests/") and (ROOT / path).is_file() else {}
    if name not in marked:
        raise ValueError(f"{evidence} is neither a test nor a record")
    return max((MARKERS.get(marker, "offline") for marker in marked[name] | {""}), key=list(LEVELS).index)


def table() -> str:
    """Every feature with its level and what is missing, and below, folded, the tests of each."""
    ordered = sorted(features(), key=lambda each: -list(LEVELS).index(each.level))
    rows = [
        f"| [{each.name}]({each.page}) | {each.what} | {LEVELS[each.level]} "
        f"| {'; '.join(each.simulated) or '-'} | {each.missing or '-'} |"
        for each in ordered
    ]
    tests = [f"- {each.name}: {_code(each.evidence)}" for each in ordered]
    head = ["| feature | what | highest level | simulated | not shown |", f"|{'---|' * 5}"]
    return "\n".join([*head, *rows, "", fold("The tests and records of each feature", "\n".join(tests))]) + "\n"


def short_table() -> str:
    """How many features each level has, and the first of them, the highest level first."""
    rows = []
    for level, words in reversed(LEVELS.items()):
        named = [f"[{each.name}](docs/{each.page})" for each in features() if each.level == level]
        more = [f"and {len(named) - _FEW} more"] if len(named) > _FEW else []
        rows.append(f"| {words} | {', '.join([*named[:_FEW], *more]) or 'nothing yet'} |")
    return "\n".join(["| highest level of evidence | features |", "|---|---|", *rows]) + "\n"


def _code(evidence: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in evidence)


@cache
def _tests(file: Path) -> dict[str, frozenset[str]]:
    """Markers of each test of a file: its own and those of the module."""
    body = ast.parse(file.read_text()).body
    of_module = {
        marker
        for node in body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["pytestmark"]
        for marker in _marks(node.value)
    }
    return {
        node.name: frozenset(of_module | {marker for decorator in node.decorator_list for marker in _marks(decorator)})
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _marks(node: ast.expr) -> set[str]:
    """Names after `pytest.mark.` in an expression."""
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "pytest.mark"}
