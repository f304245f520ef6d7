"""Edits of a stack file as text: only the entry changes, and adding and removing it gives the same bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import document_of
from gpu_ci.offline.grow.draft import Draft
from tests.builders import ROOT

FILES = sorted([*ROOT.glob("Pulumi.*.yaml"), *(ROOT / "examples").glob("Pulumi.*.yaml")])
CLUSTERS = "gpu-ci:clusters"
ENTRY = ["# Why it is there.", "new-entry:", "  instanceTypes: [g6.2xlarge]", "  nodes: {min: 0, max: 4}"]
VALUE = {"instanceTypes": ["g6.2xlarge"], "nodes": {"min": 0, "max": 4}}
FORMS = {
    "as it is": lambda text: text,
    "line ends of Windows": lambda text: text.replace("\n", "\r\n"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "four spaces": lambda text: "".join(" " * (len(row) - len(row.lstrip(" "))) + row for row in text.splitlines(keepends=True)),
    "a byte order mark": lambda text: f"\ufeff{text}",
    "quoted keys": lambda text: text.replace(f"{CLUSTERS}:", f"'{CLUSTERS}':").replace("      pools:", '      "pools":'),
}


def draft(text: str) -> Draft:
    return Draft("Pulumi.acme.yaml", text)


def places(text: str) -> list[tuple[str, ...]]:
    """Where an entry may go: the clusters, and each mapping of a cluster that has entries or is not there."""
    clusters = document_of("", text).value["config"][CLUSTERS]  # type: ignore[index]
    kinds = ("pools", "runners", "workloads", "caches", "jobs")
    return [(CLUSTERS,)] + [(CLUSTERS, name, kind) for name, one in clusters.items() for kind in kinds if one.get(kind) != {}]


@given(file=st.sampled_from(FILES), form=st.sampled_from([*FORMS]), data=st.data())
def test_adding_and_removing_gives_the_same_bytes(file: Path, form: str, data: st.DataObject) -> None:
    # A list of mappings has two columns for each level, which the form with four spaces would break.
    assume(form != "four spaces" or not re.search(r"^ *- \w+:", file.read_text(), re.MULTILINE))
    text = FORMS[form](file.read_text())
    path = ("config", *data.draw(st.sampled_from(places(file.read_text()))))
    before = draft(text)
    siblings = before.value(path) or {}
    first = data.draw(st.sampled_from(["", *siblings]))
    before.add(path, ENTRY, before=first)
    grown = before.checked()
    assert before.value((*path, "new-entry")) == VALUE
    assert ("\r\n" in text) == ("\n" not in grown.replace("\r\n", "")), "one kind of line ends"
    # Every line of the file is there, in its order.
    rest = iter(grown.splitlines())
    assert all(any(row == other for other in rest) for row in text.splitlines())
    after = draft(grown)
    after.remove((*path, "new-entry"))
    assert after.checked() == text


@given(file=st.sampled_from(FILES), data=st.data())
def test_removing_an_entry_removes_only_it_and_its_comments(file: Path, data: st.DataObject) -> None:
    text = file.read_text()
    filled = [path for path in places(text) if len(draft(text).value(("config", *path)) or {}) > 1]
    assume(filled)
    path = ("config", *data.draw(st.sampled_from(filled)))
    name = data.draw(st.sampled_from([*draft(text).value(path)]))
    after = draft(text)
    after.remove((*path, name))
    expected = document_of("", text).value
    holder: Any = expected
    for key in path:
        holder = holder[key]
    del holder[name]
    assert document_of("", after.checked()).value == expected
    heads = [[row.strip().startswith(f"{name}:") for row in side.splitlines()] for side in (text, after.text)]
    assert sum(heads[0]) > sum(heads[1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # In braces, in the style of its neighbors, and below nothing.
        ("pools: {a: {x: 1}}", "pools: {a: {x: 1}, b: {k: 2}}"),
        ("pools: {}", "pools:\n  b:\n    k: 2"),
        ("pools: {}  # none yet", "pools:  # none yet\n  b:\n    k: 2"),
        ("pools:", "pools:\n  b:\n    k: 2"),
        ("pools: ~", "pools:\n  b:\n    k: 2"),
        ("pools:\n  a: {x: 1}", "pools:\n  a: {x: 1}\n  b: {k: 2}"),
        ("pools: {\n  a: {x: 1}\n}", "pools: {\n  a: {x: 1},\n  b: {k: 2}\n}"),
        ("pools: {\n  a: {x: 1},\n}", "pools: {\n  a: {x: 1},\n  b: {k: 2},\n}"),
        ("other: 1", "other: 1\npools:\n  b:\n    k: 2"),
        # Blank lines between entries, and comments behind the last one: those that are deeper belong to it.
        ("pools:\n  a:\n    x: 1\n\n  c:\n    x: 1", "pools:\n  a:\n    x: 1\n\n  c:\n    x: 1\n\n  b:\n    k: 2"),
        ("pools:\n  a:\n    x: 1\n    # deep\nz: 1", "pools:\n  a:\n    x: 1\n    # deep\n  b:\n    k: 2\nz: 1"),
        ("pools:\n  a:\n    x: 1\n  # level\nz: 1", "pools:\n  a:\n    x: 1\n  b:\n    k: 2\n  # level\nz: 1"),
        ("pools:\n  a: |\n    x\n\nz: 1", "pools:\n  a: |\n    x\n  b:\n    k: 2\n\nz: 1"),
        ("pools:\n  a: 1\n...\n", "pools:\n  a: 1\n  b:\n    k: 2\n...\n"),
    ],
)
def test_an_entry_is_written_in_the_style_of_the_place(before: str, after: str) -> None:
    edited = draft(before)
    edited.add(("pools",), ["b:", "  k: 2"])
    assert edited.checked() == after


def test_a_comment_inside_an_entry_keeps_it_in_block_style() -> None:
    edited = draft("pools:\n  a: {x: 1}")
    edited.add(("pools",), ["b:", "  # REPLACE: yours.", "  k: 2"])
    assert edited.checked() == "pools:\n  a: {x: 1}\n  b:\n    # REPLACE: yours.\n    k: 2"


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ("l: [a, b, c]", ("l", 0), "l: [b, c]"),
        ("l: [a, b, c]", ("l", 2), "l: [a, b]"),
        ("l:\n  - a\n  # of b\n  - b\n  - c\n", ("l", 1), "l:\n  - a\n  - c\n"),
        ("m: {a: 1, b: 2}", ("m", "a"), "m: {b: 2}"),
        ("x: 1\n# of m\nm: {a: 1}\nk: 2\n", ("m", "a"), "x: 1\nk: 2\n"),
        ("a: 1\n# of b\nb: 2  # two\n\nc: 3\n", ("b",), "a: 1\n\nc: 3\n"),
        ("a: 1\n\nb: 2\n\nc: 3\n", ("b",), "a: 1\n\nc: 3\n"),
        ("# of a\n\na: 1\nb: 2", ("b",), "# of a\n\na: 1"),
        ("a:\n  x: 1\n  # of x\nb: 2\n", ("b",), "a:\n  x: 1\n  # of x\n"),
    ],
)
def test_removing_keeps_what_is_beside(before: str, path: tuple[str | int, ...], after: str) -> None:
    edited = draft(before)
    edited.remove(path)
    assert edited.checked() == after


def test_an_entry_has_the_spaces_of_the_file_and_its_lists_their_form() -> None:
    edited = draft("config:\n    clusters:\n        a:\n            x: 1\n")
    edited.add(("config", "clusters"), ["b:", "  l:", "    - k: 1", "      m: 2", "  n: 3"])
    new = ("        b:", "            l:", "                - k: 1", "                  m: 2", "            n: 3")
    assert edited.checked() == "config:\n    clusters:\n        a:\n            x: 1\n" + "".join(f"{row}\n" for row in new)


def test_lists_in_block_style_get_an_item_of_their_style() -> None:
    edited = draft("l:\n  - a\n  - b\nz: 1\n")
    edited.append(("l",), "c")
    assert edited.checked() == "l:\n  - a\n  - b\n  - c\nz: 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "base: &base\n  a: 1\npools: *base\n",
            "Pulumi.acme.yaml:3: pools: is the alias *base; write it out here, or edit it by hand",
        ),
        ("base: &base {pools: {a: 1}}\n<<: *base\n", "Pulumi.acme.yaml: pools: a merge key gives it; edit it by hand"),
        (
            "pools: &pools\n  a: 1\nothers: *pools\n",
            "Pulumi.acme.yaml: this edit would change other settings too: an anchor, a merge key or an unusual layout is near "
            "the place; nothing was written, edit it by hand",
        ),
    ],
)
def test_a_place_whose_text_is_elsewhere_is_refused(text: str, message: str) -> None:
    edited = draft(text)

    def add() -> None:
        edited.add(("pools",), ["b: 2"])
        edited.checked()

    with pytest.raises(InputError) as error:
        add()
    assert str(error.value) == message


def test_an_anchor_that_goes_is_refused() -> None:
    edited = draft("a: &a 1\nb: *a\n")
    edited.remove(("a",))
    with pytest.raises(InputError, match="this edit would change other settings too"):
        edited.checked()


def test_a_comment_in_braces_is_never_lost() -> None:
    with pytest.raises(InputError, match="a comment is beside the entry in braces"):
        draft("m: {a: 1, # of a\n  b: 2}").remove(("m", "b"))
