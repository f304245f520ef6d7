"""What is known of GitHub's expressions without GitHub: values of a matrix and of inputs, literals, operators, and `fromJSON`.

Every other expression stays as it is written.
"""

import itertools
import json
import math
import re
from collections.abc import Mapping
from functools import partial, reduce
from typing import Any

Contexts = Mapping[str, Any]
"""Values by the name of their context: `matrix`, `inputs`."""

MOST_COMBINATIONS = 256
"""The most jobs of a matrix (docs.github.com, usage limits of Actions). GitHub starts no job of a larger one."""
_LONGEST = 21_000
"""The most characters of an expression (actions/runner, ExpressionConstants.MaxLength)."""

# An expression has no other one in it, so each text is read once.
_EXPRESSION = re.compile(r"\$\{\{((?:(?!\$\{\{).)*?)\}\}", re.DOTALL)
_TOKEN = re.compile(r"\s*(\|\||&&|==|!=|[!()]|'(?:[^']|'')*'|[\w-]+(?:\.[\w-]+)*)\s*")
_CONSTANTS = {"true": True, "false": False, "null": None}
_OPEN = object()
"""The value of a part that only GitHub can evaluate."""


class _UnknownError(Exception):
    """Only GitHub can evaluate the expression."""


def is_open(value: object) -> bool:
    """Whether an expression is left in a text."""
    return isinstance(value, str) and "${{" in value


def may_be_empty(value: object) -> bool:
    """Whether a text is only expressions that are left, so that GitHub may find an empty text."""
    return is_open(value) and not _EXPRESSION.sub("", str(value)).strip()


def as_text(value: object) -> str:
    """A value of YAML or JSON as GitHub writes it into a text (docs.github.com, "Evaluate expressions", casting)."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def filled(value: Any, contexts: Contexts) -> Any:
    """A value, and all values in it, with the known expressions replaced. A text that is one expression becomes its value."""
    if isinstance(value, Mapping):
        return {key: filled(inner, contexts) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, contexts) for inner in value]
    if not is_open(value) or len(value) > _LONGEST:
        return value
    if (whole := _EXPRESSION.fullmatch(value.strip())) is not None:
        return _value_or(value, whole[1], contexts)
    return _EXPRESSION.sub(lambda part: _text(part, contexts), value)


def _text(part: re.Match[str], contexts: Contexts) -> str:
    value = _value_or(part[0], part[1], contexts)
    return as_text(value) if value is None or isinstance(value, str | int | float) else part[0]


def _value_or(written: str, expression: str, contexts: Contexts) -> Any:
    try:
        return _value(expression.strip(), contexts)
    except (_UnknownError, ValueError, RecursionError):
        return written


def _value(expression: str, contexts: Contexts) -> Any:
    tokens, at = [], 0
    while (token := _TOKEN.match(expression, at)) is not None:
        tokens.append(token[1])
        at = token.end()
    value = _either(tokens, contexts) if at == len(expression) else _OPEN
    if tokens or value is _OPEN:
        raise _UnknownError
    return value


def _either(tokens: list[str], contexts: Contexts, sign: str = "||") -> Any:
    """`a || b`: the first value that is true, or the last. `a && b`: the first that is false, or the last.

    An operand counts as true or false as in JavaScript.
    """
    part = partial(_either, sign="&&") if sign == "||" else _compared
    value = part(tokens, contexts)
    while tokens[:1] == [sign]:
        tokens.pop(0)
        other = part(tokens, contexts)
        value = other if value is not _OPEN and bool(value) is (sign == "&&") else value
    return value


def _compared(tokens: list[str], contexts: Contexts) -> Any:
    """`a == b` and `a != b`. Texts are equal whatever their case; other kinds are compared by GitHub alone."""
    value = _operand(tokens, contexts)
    while tokens[:1] in (["=="], ["!="]):
        equal = tokens.pop(0) == "=="
        left, right = (side.lower() if isinstance(side, str) else side for side in (value, _operand(tokens, contexts)))
        value = (left == right) is equal if _OPEN not in (left, right) and type(left) is type(right) else _OPEN
    return value


def _operand(tokens: list[str], contexts: Contexts) -> Any:
    if not tokens:
        raise _UnknownError
    if (word := tokens.pop(0)) == "!":
        return _OPEN if (value := _operand(tokens, contexts)) is _OPEN else not value
    if word == "(" or tokens[:1] == ["("]:
        name = "" if word == "(" else word + tokens.pop(0)
        value = _either(tokens, contexts)
        if tokens[:1] != [")"] or name.lower() not in ("", "fromjson("):
            raise _UnknownError
        tokens.pop(0)
        return value if not name or value is _OPEN else json.loads(str(value))
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    if "." not in word:
        return _CONSTANTS.get(word.lower(), int(word) if word.isdecimal() else _OPEN)
    return reduce(lambda inner, key: inner.get(key, _OPEN) if isinstance(inner, Mapping) else _OPEN, word.split("."), contexts)


def combinations(matrix: object) -> list[dict[str, Any]]:
    """The combinations of a matrix, with `exclude` and `include`. A key whose values only GitHub knows is in none of them.

    One empty combination stands for a job without a matrix, and for a matrix of more jobs than GitHub starts. Source:
    docs.github.com, "Running variations of jobs in a workflow".
    """
    keys = matrix if isinstance(matrix, Mapping) else {}
    axes = {key: values for key, values in keys.items() if key not in ("include", "exclude")}
    lists = {key: values for key, values in axes.items() if isinstance(values, list)}
    include, exclude = (_objects(keys.get(key)) for key in ("include", "exclude"))
    if math.prod(map(len, lists.values())) + len(include) > MOST_COMBINATIONS:
        return [{}]
    rows = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())] if axes else []
    # A key that only GitHub knows excludes nothing: whether a combination has the value is open.
    rows = [row for row in rows if not any(all(key in row and row[key] == pairs[key] for key in pairs) for pairs in exclude)]
    originals = [dict(row) for row in rows]
    added: list[dict[str, Any]] = []
    for pairs in include:
        # Values of the lists are never replaced, values that an earlier entry added are.
        fits = [all(key not in axes or (key in row and row[key] == pairs[key]) for key in pairs) for row in originals]
        for row in itertools.compress(rows, fits):
            row.update(pairs)
        added += [] if any(fits) else [dict(pairs)]
    return [*rows, *added] or [{}]


def _objects(entries: object) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
