"""Reads one namespace of a project's parsed config into a settings model. Each error becomes a path, a rule and a value."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fleet.facts.errors import MOST_PROBLEMS, FleetError, Problem, shown
from fleet.settings.suggest import hint, is_foreign_kind, untagged

Settings = TypeVar("Settings", bound=BaseModel)


def read(root: type[Settings], namespace: str, config: Mapping[str, object]) -> Settings:
    """Validate the config of a namespace as settings of type `root`. Keys of `config` have no namespace.

    Raises FleetError with the problems found.
    """
    try:
        return root.model_validate_json(json.dumps(config))
    except ValidationError as error:
        errors = error.errors()
        foreign = {entry["loc"][:-1] for entry in errors if is_foreign_kind(entry)}
        own = [entry for entry in errors if not _shadow(entry, foreign)]
        problems = tuple(_problem(root, namespace, entry) for entry in own[:MOST_PROBLEMS])
        raise FleetError(problems, len(own) - len(problems)) from None


def _shadow(error: ErrorDetails, foreign: Collection[tuple[int | str, ...]]) -> bool:
    """Whether an error is only a consequence of another one.

    Pydantic counts only the valid items of a list, so a list of invalid items is too short as well. `foreign` has the locations
    of runners whose kind their provider does not support: the wrong model reads them and rejects all their keys.
    """
    if error["type"] == "too_short" and len(error["input"]) >= error.get("ctx", {})["min_length"]:
        return True
    heads = (error["loc"][:end] for end in range(len(error["loc"]) + 1))
    return bool(foreign) and not is_foreign_kind(error) and any(head in foreign for head in heads)


_NO_VALUE = ("missing", "json_invalid")
_PRIVATE = re.compile("key|secret|token|password|credential|licen[cs]e|^env", re.IGNORECASE)
"""Unknown keys with such names may contain secrets, so errors do not show their values."""
_UNION = {"union_tag_invalid": "provider", "union_tag_not_found": "provider", "gpu_ci_runner_kind": "kind"}
"""The key that selects a model of a union, by the error type if the key is missing or unknown."""


def _problem(root: type[BaseModel], namespace: str, error: ErrorDetails) -> Problem:
    """A pydantic error as path, rule and value.

    A rule of a whole model can point to a value below it with `at`, replace the shown value with `value`, and hide it with
    `private`.
    """
    context = error.get("ctx", {})
    # Pydantic marks a bad key by "[key]" after it; the file has no such key.
    marked = error["loc"][-2:] == (error["input"], "[key]")
    # A missing entry of a list of fixed length has no location, so show the list.
    short = error["type"] == "missing" and isinstance(error["loc"][-1], int)
    located = tuple(map(str, error["loc"][:-1] if marked or short else error["loc"]))
    at = (_UNION[error["type"]],) if error["type"] in _UNION else tuple(context.get("at", ()))
    path = untagged(root, located) + at
    private = context.get("private") or (error["type"] == "extra_forbidden" and _PRIVATE.search(path[-1])) or _of_secrets(path)
    missing, there = (False, context["value"]) if "value" in context else standing(error["input"], at)
    value = "" if private or missing or error["type"] in _NO_VALUE else shown(there)
    head = f"{namespace}:{path[0]}" if path else namespace
    return Problem((head, *path[1:]), hint(error, root, located), value, error["type"].removeprefix("gpu_ci_"))


def standing(value: Any, at: tuple[str, ...]) -> tuple[bool, Any]:
    """(whether the value is missing, the value) at a path below a value."""
    for step in at:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return True, None
    return False, value


def _of_secrets(path: tuple[str, ...]) -> bool:
    """Whether people may paste the GitHub App's key at this path: at or below `gitops.secrets`."""
    return any(pair == ("gitops", "secrets") for pair in pairwise(path))
