"""`docs/seeds.md` has every item once and names only what there is: files, names in them, tests, replacements with a reason."""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.builders import reference
from tests.docs.markdown import ROOT, anchors

PAGE = ROOT / "docs" / "seeds.md"
SEEDS = {"000": (1, 73), "001": (74, 119), "002": (120, 142), "003": (143, 156), "004": (157, 191)}
"""First and last item of each seed."""

_SECTION = re.compile(r"## Seed (\d{3}): items (\d+) to (\d+)")
_ROW = re.compile(r"\| *(\d+) *\|(.*)\|(.*)\|(.*)\|")
_CODE = re.compile(r"`([^`]+)`")
NOT_YET = "not yet"
"""The only text in the third column of an item that is not built yet."""
_NO_TEST = re.compile(r"no test: \w.+")
_REPLACED = re.compile(r"instead of .+, because .+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One item: its number, the seed of its section, and the three cells."""

    number: int
    seed: str
    item: str
    given: str
    test: str

    @property
    def sources(self) -> tuple[str, ...]:
        """What gives the item: references to files of the project."""
        return tuple(code for code in _CODE.findall(self.given) if is_path(code))

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that hold the item."""
        return tuple(_CODE.findall(self.test))

    @property
    def replaced(self) -> bool:
        """Whether the item is honoured by something else, with the reason."""
        return _REPLACED.search(self.given) is not None

    @property
    def state(self) -> str:
        """The state of the item: one of `STATES`."""
        if self.given == NOT_YET:
            return NOT_YET
        return "replaced" if self.replaced else "given"


STATES = ("given", "replaced", NOT_YET)


def rows(text: str) -> Iterator[Row]:
    seed = ""
    for line in text.splitlines():
        if section := _SECTION.fullmatch(line):
            seed = section[1]
        elif row := _ROW.fullmatch(line):
            yield Row(int(row[1]), seed, row[2].strip(), row[3].strip(), row[4].strip())


def faults(text: str) -> Iterator[str]:
    """What is wrong with a page, line by line of its tables."""
    for seed, *ends in _SECTION.findall(text):
        if SEEDS.get(seed) != tuple(map(int, ends)):
            yield f"seed {seed}: items {' to '.join(ends)} are not its own"
    last = 0
    for row in rows(text):
        first, end = SEEDS.get(row.seed, (1, 0))
        if not first <= row.number <= end:
            yield f"{row.number}: no item of seed {row.seed or 'of no section'}"
        if row.number <= last:
            yield f"{row.number}: after {last}; a number occurs once, in order"
        last = row.number
        yield from (f"{row.number}: {fault}" for fault in row_faults(row))


def missing(text: str) -> list[int]:
    """Items without a row."""
    having = {row.number for row in rows(text)}
    return [number for first, last in SEEDS.values() for number in range(first, last + 1) if number not in having]


def totals(text: str) -> str:
    """How many items are given, replaced and not yet, of all seeds and of each."""
    found = list(rows(text))

    def counts(seed: str) -> list[int]:
        return [sum(row.state == state and seed in ("", row.seed) for row in found) for state in STATES]

    together = ", ".join(f"{count} {state}" for count, state in zip(counts(""), STATES, strict=True))
    each = ", ".join(f"{seed}: {' + '.join(map(str, counts(seed)))}" for seed in SEEDS)
    return f"seed items: {together}, of {len(found)} ({each})"


def row_faults(row: Row) -> Iterator[str]:
    """What is wrong with one row's cells."""
    if not row.item:
        yield "the item is empty"
    if NOT_YET in row.given.lower():
        if row.given != NOT_YET or row.test:
            yield "an item not yet done has no file, no test and no word besides"
        return
    if not row.sources:
        yield "nothing that gives it"
    if not row.tests and not _NO_TEST.fullmatch(row.test):
        yield "no test; name one, or write 'no test: ' and why"
    if "instead" in row.given.lower() and not row.replaced:
        yield "a replacement is written 'instead of …, because …'"
    yield from (f"{reference} does not exist" for reference in row.sources if not exists(reference))
    yield from (f"test {reference} does not exist" for reference in row.tests if not is_test(reference))


def is_path(reference: str) -> bool:
    """Whether a piece of code in the second column names a file of the project, and not a value."""
    return (
        re.fullmatch(
            r"[\w./-]+\.(py|md|sh|ya?ml|json|toml|csv|txt)(#[\w-]+|:[\w./-]+)?|Makefile(:[\w-]+)?|[\w/-]+/Dockerfile", reference
        )
        is not None
    )


@cache
def exists(reference: str) -> bool:
    """Whether a file exists and holds the name after the colon, or the heading after the sharp."""
    path, _, anchor = reference.partition("#")
    path, _, name = path.partition(":")
    file = ROOT / path
    if not file.is_file():
        return False
    return (not anchor or anchor in anchors(file)) and (not name or name in names(file))


@cache
def names(file: Path) -> frozenset[str]:
    """Names that a file defines: of Python, YAML, TOML and JSON the keys, of CSV the first column, of make the targets.

    Of shell the functions, the variables that are set at the start of a line, and the steps that `begin` names.
    """
    text = file.read_text()
    match file.suffix:
        case ".py":
            return frozenset(defined(ast.parse(text)))
        case ".yaml" | ".yml" | ".json":
            return frozenset(keys(YAML(typ="safe", pure=True).load(text)))
        case ".toml":
            return frozenset(keys(tomllib.loads(text)))
        case ".csv":
            return frozenset(row[0] for row in csv.reader(text.splitlines()))
        case ".sh":
            found = re.findall(r"^(\w+)\(\) \{$|^(\w+)=|^\s*begin (\w+)$", text, re.MULTILINE)
            return frozenset(name for names in found for name in names if name)
        case _:
            return frozenset(re.findall(r"^([\w-]+):", text, re.MULTILINE))


def defined(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Functions, classes and assigned names of a module, and of its classes as `Class.name`."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ClassDef(name=name):
                yield name
                yield from (f"{name}.{inner}" for inner in defined(node))
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def keys(tree: Any) -> Iterator[str]:
    """Keys of a mapping and of everything below it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield str(key)
            yield from keys(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from keys(value)


@cache
def is_test(reference: str) -> bool:
    """Whether `tests/path.py::test_name` is a test."""
    path, _, name = reference.partition("::")
    file = ROOT / path
    return path.startswith("tests/") and name.startswith("test_") and file.is_file() and name in names(file)


def test_every_row_names_what_there_is():
    found = list(faults(PAGE.read_text()))
    assert found == [], "\n".join(found)


def test_every_item_has_its_row():
    assert missing(PAGE.read_text()) == []


def test_an_item_without_a_row_is_found():
    text = re.sub(r"^\| 52 \|.*\n", "", PAGE.read_text(), flags=re.MULTILINE)
    assert missing(text) == [52]


def test_the_items_are_counted_and_the_pages_say_so(record_property):
    text = PAGE.read_text()
    told = totals(text)
    record_property("seed_items_not_yet", sum(row.state == NOT_YET for row in rows(text)))
    record_property("summary", told)
    for page in (PAGE, ROOT / "docs" / "commands.md"):
        assert [line for line in page.read_text().splitlines() if line.startswith("seed items")] == [told], page.name


def test_totals_tell_what_is_given_replaced_and_not_yet_of_each_seed():
    text = (
        HEAD
        + f"| 1 | a | `Makefile` | {TEST} |\n| 2 | b | `Makefile`, instead of just, because make is there | no test: make |\n"
        "| 3 | c | not yet | |\n## Seed 001: items 74 to 119\n| 74 | d | not yet | |\n"
    )
    assert list(faults(text)) == []
    none = ", ".join(f"{seed}: 0 + 0 + 0" for seed in ("002", "003", "004"))
    assert totals(text) == f"seed items: 1 given, 1 replaced, 2 not yet, of 4 (000: 1 + 1 + 1, 001: 0 + 0 + 1, {none})"


HEAD = "## Seed 000: items 1 to 73\n"
TEST = "`tests/docs/test_seeds.py::test_a_good_row_has_no_fault`"


def test_a_good_row_has_no_fault():
    assert list(faults(HEAD + f"| 1 | a | `fleet/charts/chart.py:Chart.name`, `1.2.3` | {TEST} |")) == []
    assert list(faults(HEAD + "| 1 | a | `Makefile:plan`, instead of just, because make is there | no test: make |")) == []


@pytest.mark.parametrize("name", ["finish", "TOOLKIT_PACKAGES", "driver", "tools"])
def test_names_of_a_shell_script_are_its_functions_variables_and_steps(name):
    assert exists(f"fleet/providers/oke/machine/bootstrap.sh:{name}")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (f"| 74 | a | `Makefile` | {TEST} |", "74: no item of seed 000"),
        (f"| 2 | a | `Makefile` | {TEST} |\n" * 2, "2: after 2; a number occurs once, in order"),
        (f"| 1 | | `Makefile` | {TEST} |", "1: the item is empty"),
        (f"| 1 | a | words | {TEST} |", "1: nothing that gives it"),
        *(
            (f"| 1 | a | `Makefile`{instead} | {test} |", "1: no test; name one, or write 'no test: ' and why")
            for instead in ("", ", instead of just, because make is there")
            for test in ("", "none", "no test:")
        ),
        (f"| 1 | a | `Makefile` instead of just | {TEST} |", "1: a replacement is written 'instead of …, because …'"),
        (f"| 1 | a | not yet | {TEST} |", "1: an item not yet done has no file, no test and no word besides"),
        ("| 1 | a | not yet: `Makefile` | |", "1: an item not yet done has no file, no test and no word besides"),
        ("| 1 | a | `not yet` | |", "1: an item not yet done has no file, no test and no word besides"),
        ("| 1 | a | Not yet | |", "1: an item not yet done has no file, no test and no word besides"),
        ("| 1 | a | `Makefile` | `tests/docs/gone.py::test_gone` |", "1: test tests/docs/gone.py::test_gone does not exist"),
        ("| 1 | a | `Makefile` | `tests/docs/test_seeds.py::rows` |", "1: test tests/docs/test_seeds.py::rows does not exist"),
    ],
)
def test_a_faulty_row_is_found(row, fault):
    assert fault in list(faults(HEAD + row))


@pytest.mark.parametrize(
    "gone",
    [
        "fleet/gone.py",
        "fleet/charts/chart.py:gone",
        "fleet/charts/chart.py:Chart.gone",
        "Pulumi.staging.yaml:gone",
        "fleet/facts/data/versions.toml:gone",
        "fleet/facts/data/instances.csv:g4dn.gone",
        "docs/operate.md#gone",
        "fleet/providers/oke/machine/bootstrap.sh:gone",
        "Makefile:gone",
    ],
)
def test_a_name_that_does_not_exist_is_found(gone):
    assert list(faults(HEAD + f"| 1 | a | `{gone}` | {TEST} |")) == [f"1: {gone} does not exist"]


def test_a_row_or_section_out_of_place_is_found():
    assert list(faults("## Seed 000: items 1 to 74")) == ["seed 000: items 1 to 74 are not its own"]
    assert list(faults(f"| 1 | a | `Makefile` | {TEST} |")) == ["1: no item of seed of no section"]


@pytest.mark.reference
def test_the_ranges_are_those_of_the_list_of_items():
    text = reference("../seed-items.md").read_text()
    sections = re.split(r"^## Seed (\d{3})", text, flags=re.MULTILINE)[1:]
    numbers = {
        seed: [int(number) for number in re.findall(r"^\| (\d+) \|", body, re.MULTILINE)]
        for seed, body in zip(sections[::2], sections[1::2], strict=True)
    }
    assert numbers == {seed: list(range(first, last + 1)) for seed, (first, last) in SEEDS.items()}
