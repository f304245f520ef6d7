"""The loop over cases runs each of them, leaves fixtures to pytest, and names the one that fails."""

from __future__ import annotations

import inspect

import pytest

from tests.cases import cases


def test_every_case_runs_with_every_other_and_fixtures_stay() -> None:
    seen: list[tuple[int, int, str, object]] = []

    @cases("one", [1, 2])
    @cases(("two", "three"), [(3, "a"), (4, "b")])
    def test(one: int, two: int, three: str, tmp_path: object) -> None:
        seen.append((one, two, three, tmp_path))

    assert list(inspect.signature(test).parameters) == ["tmp_path"]
    test(tmp_path=0)
    assert seen == [(1, 3, "a", 0), (1, 4, "b", 0), (2, 3, "a", 0), (2, 4, "b", 0)]


def test_the_case_that_fails_is_named_and_marks_stay() -> None:
    @cases("name", ["staging", pytest.param("prod", id="production")], str.upper)
    @pytest.mark.reference
    def test(name: str) -> None:
        """What it says."""
        assert name != "PROD"

    assert test.__name__ == "test"
    assert test.__doc__ == "What it says."
    assert [mark.name for mark in test.pytestmark] == ["reference"]  # type: ignore[attr-defined]
    with pytest.raises(AssertionError) as failed:
        test()
    assert failed.value.__notes__ == ["case of name: production"]


def test_a_loop_over_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no case of name"):
        cases("name", [])


def test_a_case_that_is_skipped_keeps_no_other_from_failing() -> None:
    seen: list[int] = []

    @cases("number", [1, 2, 3])
    def test(number: int) -> None:
        seen.append(number)
        if number == 1:
            pytest.skip("no data")
        assert number != limit

    limit = 3
    with pytest.raises(AssertionError):
        test()
    limit = 4
    with pytest.raises(pytest.skip.Exception):
        test()
    assert seen == [1, 2, 3, 1, 2, 3]
