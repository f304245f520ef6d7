"""What to write instead: turns pydantic's errors into the rule and the way to mend it."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from fleet.providers import PROVIDERS

_PROVIDER = f"must be one of: {', '.join(PROVIDERS)}; name one of them"
_MAPPING = "not a mapping; write its keys below it"
_MEND = {
    "missing": "required key is missing; add it",
    "literal_error": "must be {expected}; correct it",
    "too_short": "at least {min_length} entry is needed; add one",
    "too_long": "at most {max_length} entries are possible; remove some",
    "greater_than_equal": "must be at least {ge}; raise it",
    "union_tag_invalid": _PROVIDER,
    "union_tag_not_found": f"required key is missing; name one of: {', '.join(PROVIDERS)}",
    "string_type": "not a string; fill it in, in quotes if it looks like a number",
    "string_too_short": "empty; fill it in",
    "int_type": "not a whole number; write digits without quotes",
    "bool_type": "not a truth value; write true or false without quotes",
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "not a list; write [one, another]",
}


def hint(error: ErrorDetails, root: type[BaseModel], path: tuple[str, ...]) -> str:
    """The rule that was broken and how to mend it, for one pydantic error at `path` below `root`."""
    context = error.get("ctx", {})
    kind = error["type"]
    if "message" in context:
        return str(context["message"])
    if kind == "extra_forbidden":
        return "unknown key; " + _instead(path[-1], _keys(_model_at(root, path[:-1])))
    if kind in _MEND:
        return _MEND[kind].format(**context)
    return f"{error['msg'][0].lower()}{error['msg'][1:]}; correct the value"


def _instead(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"


def _keys(model: type[BaseModel] | None) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items()) if model else ()


def _model_at(root: type[BaseModel], path: tuple[str, ...]) -> type[BaseModel] | None:
    """The settings model at a path (with the provider after a cluster's name), or None where there is none."""
    here: Any = root
    for part in path:
        model = _model(here)
        if model is not None:
            here = next((field.annotation for name, field in model.model_fields.items() if part in (field.alias, name)), None)
        elif typing.get_origin(here) in (dict, Mapping):
            here = typing.get_args(here)[1]
        elif part in PROVIDERS:
            here = PROVIDERS[part].settings
        else:
            return None
    return _model(here)


def _model(annotation: Any) -> type[BaseModel] | None:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next((found for part in typing.get_args(annotation) if (found := _model(part))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
