"""JSON schemas of config properties, each with a default and a description."""

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]


def flag(description: str) -> Schema:
    """A boolean that is off by default."""
    return _schema("boolean", False, description)


def integer(default: int, description: str, **bounds: int) -> Schema:
    """A whole number of 0 or more, unless `bounds` (JSON Schema's `minimum`, `maximum`) say otherwise."""
    return _schema("integer", default, description, **{"minimum": 0, **bounds})


def number(default: float, description: str, **bounds: float) -> Schema:
    """A number of 0 or more, unless `bounds` say otherwise."""
    return _schema("number", default, description, **{"minimum": 0, **bounds})


def string(default: str, description: str, **words: Any) -> Schema:
    """A non-empty string. `words` are further keywords of JSON Schema, and replace that bound."""
    return _schema("string", default, description, **(words or {"minLength": 1}))


def strings(default: Iterable[str], description: str, *, least: int = 0, **item: Any) -> Schema:
    """A list of at least `least` strings. `item` are keywords of JSON Schema for each string."""
    bounds = {"minItems": least} if least else {}
    return _schema("array", list(default), description, items={"type": "string", **item}, **bounds)


def _schema(kind: str, default: Any, description: str, **words: Any) -> Schema:
    return {"type": kind, "default": default, "description": description, **words}
