"""Checks the arguments of a job. The result is checked arguments, or one error with every problem."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.facts.errors import shown
from fleet.jobs.arguments import AskArguments, JobArguments
from fleet.jobs.errors import JobError, JobProblem
from fleet.jobs.rules import ASK_RULES, JOB_RULES, Rule
from fleet.settings.suggest import hint

Arguments = TypeVar("Arguments", bound=AskArguments)

_STAND_INS = {"task_id": "stand-in", "image": "stand-in:1"}
"""Values for arguments without default, so that rules over other arguments are checked although these are wrong."""
_PRIVATE = frozenset(("env", "secret_env", "command", "args", "annotations"))
"""Arguments whose values errors never show."""


def ask_arguments(given: Mapping[str, Any]) -> AskArguments:
    """Arguments of an ask. Raises JobError with every problem."""
    return _checked(AskArguments, given, ASK_RULES)


def job_arguments(given: Mapping[str, Any]) -> JobArguments:
    """Arguments of a job. Raises JobError with every problem."""
    return _checked(JobArguments, given, (*ASK_RULES, *JOB_RULES))


def _checked(model: type[Arguments], given: Mapping[str, Any], rules: Iterable[Rule]) -> Arguments:
    problems: list[JobProblem] = []
    wrong: set[str] = set()
    try:
        read = model.model_validate(dict(given))
    except ValidationError as error:
        problems = [_problem(model, entry) for entry in error.errors()]
        wrong = {str(entry["loc"][0]) for entry in error.errors()}
        good = {name: value for name, value in given.items() if name not in wrong}
        needed = {name: value for name, value in _STAND_INS.items() if name in model.model_fields}
        read = model.model_validate(needed | good)
    for rule in rules:
        if not rule.reads & wrong:
            problems += rule.broken(read)
    if problems:
        order = list(model.model_fields)
        known = {name: index for index, name in enumerate(order)}
        raise JobError(tuple(sorted(problems, key=lambda each: known.get(each.field.partition(".")[0], len(order)))))
    return read


def _problem(model: type[AskArguments], error: ErrorDetails) -> JobProblem:
    # Pydantic marks a bad key by "[key]" after it.
    marked = error["loc"][-1] == "[key]"
    path = tuple(map(str, error["loc"][:-1] if marked else error["loc"]))
    field = ".".join(part if part.isprintable() else shown(part) for part in path)
    if error["type"] == "extra_forbidden":
        close = difflib.get_close_matches(path[0], model.model_fields, n=1)
        return JobProblem(field, "unknown", "no such argument; " + (f"did you mean {close[0]}?" if close else "remove it"))
    private = path[0] in _PRIVATE or error["type"] == "missing"
    return JobProblem(field, _rule(error), hint(error, model, path), "" if private else shown(error["input"]))


def _rule(error: ErrorDetails) -> str:
    return error["type"].removeprefix("gpu_ci_")
