"""Checks a value against the JSON Schema keywords that policy configs use.

This is a small, closed set of keywords instead of a library, because the plan has no JSON Schema library among its dependencies.
An unknown keyword is an error, so that no rule is silently ignored.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleet.facts.errors import quoted


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list | tuple),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
    "number": _is_number,
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}
_REMARKS = frozenset({"default", "description"})


def faults(schema: Mapping[str, Any], value: object, path: str) -> Iterator[str]:
    """One "<path>: <rule>; got <value>" for each rule of the schema that `value` breaks.

    Raises ValueError for a schema with an unknown keyword.
    """
    if unknown := set(schema) - _REMARKS - {"type", "properties", "required", "additionalProperties", "items"} - set(_RULES):
        raise ValueError(f"{path}: the schema uses {', '.join(sorted(unknown))}, which this checker does not support")
    if (kind := schema.get("type")) is not None and not _TYPES[kind](value):
        yield f"{path}: must be of type {kind}; got {quoted(value)}"
        return
    for word, (applies, is_kept, rule) in _RULES.items():
        if word in schema and applies(value) and not is_kept(value, schema[word]):
            yield f"{path}: {rule.format(schema[word])}; got {quoted(value)}"
    if isinstance(value, list | tuple) and "items" in schema:
        for number, item in enumerate(value):
            yield from faults(schema["items"], item, f"{path}[{number}]")
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        yield from (f"{path}.{name}: is required; got nothing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            if (part := properties.get(name, schema.get("additionalProperties", True))) is False:
                names = ", ".join(sorted(properties)) or "nothing"
                yield f"{path}.{name}: is not known, there is {names}; got {quoted(item)}"
            elif isinstance(part, Mapping):
                yield from faults(part, item, f"{path}.{name}")


def _key(value: object) -> object:
    """A key that is equal for values that are equal as JSON: true is not 1, 1.0 is 1."""
    if isinstance(value, Mapping):
        return frozenset((name, _key(part)) for name, part in value.items())
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else (isinstance(value, bool), value)


_Rule = tuple[Callable[[Any], bool], Callable[[Any, Any], bool], str]
_RULES: dict[str, _Rule] = {
    "enum": (lambda _: True, lambda value, values: _key(value) in map(_key, values), "must be one of {}"),
    "minimum": (_is_number, lambda value, limit: value >= limit, "must be at least {}"),
    "maximum": (_is_number, lambda value, limit: value <= limit, "must be at most {}"),
    "minLength": (_TYPES["string"], lambda value, limit: len(value) >= limit, "must have at least {} characters"),
    "maxLength": (_TYPES["string"], lambda value, limit: len(value) <= limit, "must have at most {} characters"),
    "pattern": (_TYPES["string"], lambda value, form: re.search(form, value) is not None, "must match {}"),
    "minItems": (_TYPES["array"], lambda value, limit: len(value) >= limit, "must have at least {} items"),
    "maxItems": (_TYPES["array"], lambda value, limit: len(value) <= limit, "must have at most {} items"),
}
