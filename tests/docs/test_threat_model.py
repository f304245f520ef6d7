"""docs/threat-model.md: each actor has its rows, each row a wall or the word nothing, and each test that it names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.evidence import level_of
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "threat-model.md"
ACTORS = (
    "a fork's pull request",
    "a job on an EKS node",
    "a job on an OKE node",
    "a job on a Talos node",
    "a job on an OCI machine",
    "an insider with write to one repository",
    "a malicious dependency",
    "a pull request that edits the stack file, policies or workflows",
    "a person with kubectl in the cluster",
    "a deployer",
    "previews and drift runs",
)
_TEST = re.compile(r"\[(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)")
_NOTHING = "**nothing**"


def tables() -> dict[str, list[tuple[str, ...]]]:
    """The rows of the table of each section, by its heading; those before the first heading by the empty text."""
    found: dict[str, list[tuple[str, ...]]] = {"": []}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = []
        elif line.startswith("| "):
            found[heading].append(tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]))
    return {heading: rows[1:] for heading, rows in found.items()}


def walls() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each row of each actor, with the actor."""
    for actor, rows in tables().items():
        if actor:
            yield from ((actor, row) for row in rows)


def test_each_actor_is_in_the_first_table_and_has_a_section_in_its_order() -> None:
    first, *sections = tables().items()
    assert [re.sub(r"^\[(.*)\]\(#.*\)$", r"\1", row[0]) for row in first[1]] == list(ACTORS)
    assert [heading.lower() for heading, _ in sections] == [actor.lower() for actor in ACTORS]
    assert all(rows for _, rows in sections)


def test_each_row_has_a_test_or_says_that_nothing_stops_it() -> None:
    bare = [(actor, row[0]) for actor, row in walls() if not _TEST.search(row[2]) and _NOTHING not in row[1].lower()]
    assert bare == []


@pytest.mark.parametrize("actor", ACTORS)
def test_some_test_shows_a_wall_of_each_actor(actor: str) -> None:
    assert [row for name, row in walls() if name.lower() == actor.lower() and _TEST.search(row[2])]


def test_each_test_that_the_page_names_exists() -> None:
    named = [match for _, row in walls() for match in _TEST.finditer(row[2])]
    assert len(named) >= 50
    for match in named:
        assert level_of(f"{match[2]}::{match[1]}")
    assert all(_TEST.sub("", row[2]).strip(", ") == "" for _, row in walls()), "the last column has links alone"
