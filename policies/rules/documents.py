"""IAM policy documents: JSON in a string property. Reading one never raises for invalid JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .read import Later, items, keys, text, walk

_LONGEST = 65536
"""Longer documents are not read; AWS takes at most 10,240 in a role."""


def statements(document: Any, later: Later) -> Iterator[tuple[str, Any]]:
    """Path ("Statement[0]") and each statement that allows something; none for other text. A list is optional."""
    parsed = _parsed(text(document)) if isinstance(document, str) else document
    found = walk(parsed, "Statement")
    single = [(0, found)] if keys(found) else []
    for index, statement in single or items(found, later):
        if text(walk(statement, "Effect")) == "Allow":
            yield f"Statement[{index}]", statement


def listed(value: Any, later: Later) -> tuple[str, ...]:
    """A string or a list of strings, as IAM takes either."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(item) for _, item in items(value, later))


@lru_cache(maxsize=512)
def _parsed(document: str) -> Any:
    if len(document) > _LONGEST:
        return None
    try:
        return json.loads(document)
    except (ValueError, RecursionError):
        return None
