"""Reads plain data in which almost any key can be absent, or have another kind of value than it should."""

from collections.abc import Mapping
from typing import Any


def at(value: Any, *path: str) -> Any:
    """The value at a path of keys; None where a key is absent."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def part(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at a path; empty for anything else."""
    return inner if isinstance(inner := at(value, *path), Mapping) else {}


def items(value: Any, *path: str) -> list[Any]:
    """The list at a path; empty for anything else."""
    return inner if isinstance(inner := at(value, *path), list) else []


def parts(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings of the list at a path."""
    return [entry for entry in items(value, *path) if isinstance(entry, Mapping)]


def text_at(value: Any, *path: str) -> str:
    """The text at a path; empty for anything else."""
    return inner if isinstance(inner := at(value, *path), str) else ""
