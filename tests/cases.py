"""Many small cases in one test: an item of pytest takes some milliseconds, whatever it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., None]
_NAMED = type(pytest.param())
"""What `pytest.param` makes."""


@contextmanager
def naming(case: object) -> Iterator[None]:
    """Add to an error what it is about: a test has many cases, and pytest shows the note."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case {case}")
        raise


def hold(properties: Iterable[Callable[..., None]], *arguments: Any) -> None:
    """Assert each of these of the arguments, and name the one that fails."""
    for holds in properties:
        with naming(holds.__name__):
            holds(*arguments)


def cases(
    names: str | tuple[str, ...], values: Iterable[Any], make: Callable[[Any], Any] = lambda value: value
) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, but in one test, which ends at the first case that fails and names it.
    It is skipped if one of its cases is, once all others ran.

    `make` gives the argument of a value whose name is to be shown. Fixtures are shared by all cases, so none may be changed.
    """
    keys = (names,) if isinstance(names, str) else names
    every = [_named(value, len(keys)) for value in values]
    assert every, f"no case of {names}"

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            skipped = None
            for name, value in every:
                try:
                    with naming(f"of {', '.join(keys)}: {name:.200}"):
                        arguments = make(value) if len(keys) > 1 else (make(value),)
                        test(**dict(zip(keys, arguments, strict=True)), **fixtures)
                except pytest.skip.Exception as error:
                    skipped = error
            if skipped is not None:
                raise skipped

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        # Not `__wrapped__`: pytest would ask for fixtures of the names of the cases.
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "pytestmark"):
            if hasattr(test, name):
                setattr(run, name, getattr(test, name))
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _named(value: Any, count: int) -> tuple[str, Any]:
    """(name, value) of a case."""
    if not isinstance(value, _NAMED):
        return repr(value), value
    return str(value.id), value.values if count > 1 else value.values[0]
