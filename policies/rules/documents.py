"""IAM policy documents: JSON in a string property. Reading one never raises for invalid JSON."""

import json
from collections.abc import Iterator
from functools import lru_cache

from .read import Data, Later, items, keys, text, walk

_LONGEST = 65536
"""The rules do not read longer documents. AWS accepts at most 10,240 characters in a role."""


def statements(document: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path ("Statement[0]") and body of each statement with effect Allow. A single statement needs no list."""
    parsed = _parsed(text(document)) if isinstance(document, str) else document
    body = walk(parsed, "Statement")
    single = [(0, body)] if keys(body) else []
    for index, statement in single or items(body, later):
        if text(walk(statement, "Effect")) == "Allow":
            yield f"Statement[{index}]", statement


def listed(value: Data, later: Later) -> tuple[str, ...]:
    """The strings of a value that is a string or a list of strings: IAM accepts both."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(item) for _, item in items(value, later))


@lru_cache(maxsize=512)
def _parsed(document: str) -> Data:
    if len(document) > _LONGEST:
        return None
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        return None
