"""The readers that every rule shares: numbers as the wire has them, guards, and putting unknowns off."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.facts.quantities import quantity
from policies.rules.read import Later, count, items, keys, label, shown, text, true, walk, whole
from policies.rules.record import UNKNOWN, UnknownError, plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (1.0, 1),
        ("1", 1),
        ("+1", 1),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("1k", 1000),
        ("1E", 10**18),
        ("1E2", 100),
        ("1e-1", Fraction(1, 10)),
        ("500m", Fraction(1, 2)),
        ("3u", Fraction(3, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("1Ki", 1024),
        ("2Ei", 2 * 1024**6),
        (0.25, Fraction(1, 4)),
        ("-2", -2),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(value: Any, expected: Fraction | int) -> None:
    assert quantity(value) == expected


@pytest.mark.parametrize(
    "value",
    ["", " 1", "1 ", "1 k", "one", "1KI", "1kk", "--1", "0x1", "1e999", "٣", "9" * 31, True, None, [], math.inf, math.nan, 1e300],
)
def test_what_is_no_quantity_is_none(value: Any) -> None:
    assert quantity(value) is None
    assert whole(value) is None


@given(st.integers(0, 10**15))
def test_a_whole_number_survives_every_way_of_writing_it(number: int) -> None:
    assert {whole(number), whole(float(number)), whole(str(number)), whole(f"{number}000m")} == {number}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (1e300, "out of range"),
        (math.nan, "out of range"),
        (True, "true"),
        (None, "not set"),
        ("a\nb", '"a\\nb"'),
        ("ü", '"ü"'),
        ("a\u2028", '"a\\u2028"'),
        ("x" * 61, f'"{"x" * 60}…"'),
        ({}, "an object"),
        ([], "a list"),
        (object(), "of another kind"),
    ],
)
def test_values_are_shown_on_one_short_line(value: Any, expected: str) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://ci:hunter2@example.com/a@b", '"https://***@example.com/a@b"'),
        (f"https://{'x' * 90}@example.com", '"https://***@example.com"'),
        (f"a ghp_{'x' * 36} b", '"a *** b"'),
        (f"github_pat_{'x' * 90}", '"***"'),
        ("oci://example.com/a:1@sha256:0", '"oci://example.com/a:1@sha256:0"'),
    ],
)
def test_a_credential_is_never_shown(value: str, expected: str) -> None:
    assert shown(value) == expected


def test_guards_let_nothing_pass_for_what_it_is_not() -> None:
    assert (text(1), text(None), text("a")) == ("", "", "a")
    assert (label(True), label(1.0), label("a"), label(None)) == ("true", "1", "a", "")
    assert [true(each) for each in (True, "true", "TRUE", False, "yes", 1, None)] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert (count("abc"), count({"a": 1}), count([1])) == (0, 0, 1), "a string is a Sequence, but no list"
    assert (keys("abc"), keys([1]), keys({"a": 1})) == ((), (), ("a",))
    assert (walk({"a": {"b": 1}}, "a", "b"), walk({"a": []}, "a", "b"), walk(None, "a")) == (1, None, None)


def test_counting_and_keys_do_not_touch_unknown_values() -> None:
    props = plain({"list": [UNKNOWN], "object": {"a": UNKNOWN}})
    assert count(props["list"]) == 1
    assert keys(props["object"]) == ("a",)


def test_items_puts_an_unknown_off_and_goes_on() -> None:
    later = Later()
    props = plain({"list": [1, UNKNOWN, 3]})
    assert list(items(props["list"], later)) == [(0, 1), (2, 3)]
    with pytest.raises(UnknownError) as raised:
        later.settle()
    assert raised.value.message == "string value at .list[1] can't be known during preview"


def test_the_first_unknown_is_raised_and_none_is_lost_in_joining() -> None:
    first, second = Later(), Later()
    props = plain({"a": UNKNOWN, "b": UNKNOWN})
    assert not first
    with second:
        walk(props, "b")
    with first:
        walk(props, "a")
    first.join(second)
    assert first
    with pytest.raises(UnknownError) as raised:
        first.settle()
    assert raised.value.value.path == ("a",)


def test_only_the_unknown_is_put_off() -> None:
    later = Later()
    with pytest.raises(ValueError, match="a fault of the rule"), later:
        raise ValueError("a fault of the rule")
    assert not later
    later.settle()
