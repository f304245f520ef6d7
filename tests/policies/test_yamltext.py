"""YAML in a text is read as Helm reads it, and no text does harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.facts.yaml_text import LONGEST, helm_values


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", {}),
        ("# nothing yet\n", {}),
        ("a: 1\nb: [x, 1.5]\n", {"a": 1, "b": ["x", 1.5]}),
        ("a: yes\nb: Off\nc: y\nd: 'yes'\n", {"a": True, "b": False, "c": True, "d": "yes"}),
        ("a: ~\nb:\n", {"a": None, "b": None}),
        ("a: 0777\nb: 0x10\nc: 1_000\nd: 1e3\n", {"a": 511, "b": 16, "c": 1000, "d": 1000}),
        ("a: 2026-11-21\nb: 9:00\nc: .inf\n", {"a": "2026-11-21", "b": "9:00", "c": ".inf"}),
        (f"a: {'9' * 400}\nb: {'9' * 5_000}\n", {"a": "9" * 400, "b": "9" * 5_000}),
        ("8080: a\ntrue: b\n", {"8080": "a", "true": "b"}),
        ("a: &x {k: v}\nb: *x\n", {"a": {"k": "v"}, "b": {"k": "v"}}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("just a text", "just a text"),
    ],
)
def test_values_are_those_of_helm(content: str, found: Any) -> None:
    assert helm_values(content) == found


def test_numbers_are_floats_as_on_the_wire() -> None:
    assert type(helm_values("a: 1")["a"]) is float


@pytest.mark.parametrize(
    "content",
    [
        "a: b: c",
        "a: 1\na: 2",
        "a: {<<: {b: 1}}",
        "? [a]\n: b",
        "a: !!python/object/apply:os.system ['true']",
        "a: !secret b",
        "a: !!binary aGk=",
        "a: !!bool maybe",
        "a: 1\n---\nb: 2",
        "{{ .Values.a }}",
        "[" * 9_000,
        "a: " + "x" * LONGEST,
        "&a [*a]",
        "\tsharing:",
        "- " * 8_000,
        '"\\UFFFFFFFF"',
        "%YAML " + "9" * 5_000,
        "\x00",
        "!!int ''",
        "!!timestamp x",
        "!!bool x",
    ],
)
def test_what_values_have_no_need_of_is_not_read(content: str) -> None:
    assert helm_values(content) is None


def test_a_bomb_of_references_is_not_read() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    assert helm_values(bomb) is None


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.text("{}[]:-?&*!%@`\"'|>#,\\ \n\tab0yn", max_size=40))
def test_any_text_is_read_or_is_none(content: str) -> None:
    helm_values(content)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab 0-", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=3))
def test_json_is_read_as_json(values: dict[str, Any]) -> None:
    assert helm_values(json.dumps(values)) == values
