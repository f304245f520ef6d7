"""Checks the arguments of a job. The result is checked arguments, or one error with every problem."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.facts.errors import shown
from fleet.jobs.arguments import AskArguments, JobArguments
from fleet.jobs.errors import JobError, JobProblem
from fleet.jobs.rules import ASK_RULES, JOB_RULES
from fleet.settings.reading import hint

Arguments = TypeVar("Arguments", bound=AskArguments)

_STAND_INS = {"task_id": "stand-in", "image": "stand-in:1"}
"""Values for required arguments that are wrong, so that the rules over the other arguments are still checked."""
_PRIVATE = frozenset(("env", "secret_env", "command", "args", "annotations"))
"""Arguments whose values are never in an error."""


def checked(model: type[Arguments], values: Mapping[str, Any]) -> Arguments:
    """The arguments of an ask or of a job. Raises JobError with every problem."""
    rules = (*ASK_RULES, *JOB_RULES) if issubclass(model, JobArguments) else ASK_RULES
    problems: list[JobProblem] = []
    wrong: set[str] = set()
    try:
        read = model.model_validate(dict(values))
    except ValidationError as error:
        problems = [_problem(model, entry) for entry in error.errors()]
        wrong = {str(entry["loc"][0]) for entry in error.errors()}
        good = {name: value for name, value in values.items() if name not in wrong}
        needed = {name: value for name, value in _STAND_INS.items() if name in model.model_fields}
        read = model.model_validate(needed | good)
    for rule in rules:
        if not rule.reads & wrong:
            problems += rule.broken(read)
    if problems:
        order = {name: index for index, name in enumerate(model.model_fields)}
        raise JobError(tuple(sorted(problems, key=lambda problem: order.get(problem.field.partition(".")[0], len(order)))))
    return read


def _problem(model: type[AskArguments], error: ErrorDetails) -> JobProblem:
    # Pydantic adds "[key]" to the path of a wrong key.
    marked = error["loc"][-1] == "[key]"
    path = tuple(map(str, error["loc"][:-1] if marked else error["loc"]))
    field = ".".join(part if part.isprintable() else shown(part) for part in path)
    if error["type"] == "extra_forbidden":
        close = difflib.get_close_matches(path[0], model.model_fields, n=1)
        return JobProblem(field, "unknown", "no such argument; " + (f"did you mean {close[0]}?" if close else "remove it"))
    value = "" if path[0] in _PRIVATE or error["type"] == "missing" else shown(error["input"])
    return JobProblem(field, error["type"].removeprefix("gpu_ci_"), hint(error, model, path), value)
