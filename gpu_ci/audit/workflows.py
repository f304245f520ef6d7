"""The jobs of GitHub Actions workflows: where they want to run, and what they want there."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.yaml_text import Document
from fleet.prove.runs_on import RunsOn

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_OF_MATRIX = re.compile(r"\s*matrix\.([\w-]+)\s*")


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `unresolved` is the expression that only GitHub can evaluate; `runs_on` is then unknown. `containers` is the key,
    `container` or `services`, that needs a runner with containers; empty without one.
    """

    place: str
    name: str
    runs_on: RunsOn
    unresolved: str
    containers: str


def jobs_of(path: str, document: Document) -> Iterator[Job]:
    """The jobs of a workflow, one for each combination of a matrix that `runs-on` reads. Jobs that call a workflow have none."""
    jobs = document.value.get("jobs") if isinstance(document.value, Mapping) else None
    for name, job in jobs.items() if isinstance(jobs, Mapping) else ():
        if not isinstance(job, Mapping) or "runs-on" not in job:
            continue
        place = f"{path}:{document.lines['jobs', name, 'runs-on']}"
        containers = next((key for key in ("container", "services") if job.get(key)), "")
        strategy = job.get("strategy")
        matrix = strategy.get("matrix") if isinstance(strategy, Mapping) else None
        for asked in dict.fromkeys(_resolved(job["runs-on"], matrix if isinstance(matrix, Mapping) else {})):
            yield Job(place, str(name), *asked, containers)


def _resolved(runs_on: object, matrix: Mapping[str, Any]) -> Iterator[tuple[RunsOn, str]]:
    """`runs-on` and its unresolved expression, for each combination of the matrix' lists."""
    group = runs_on.get("group", "") if isinstance(runs_on, Mapping) else ""
    labels = runs_on.get("labels", ()) if isinstance(runs_on, Mapping) else runs_on
    texts = [str(label) for label in (labels if isinstance(labels, list | tuple) else [labels])]
    keys = dict.fromkeys(
        match[1]
        for text in (*texts, str(group))
        for expression in _EXPRESSION.findall(text)
        if (match := _OF_MATRIX.fullmatch(expression))
    )
    lists = [values if isinstance(values := matrix.get(key), list) else [None] for key in keys]
    # The most jobs of a matrix (docs.github.com, usage limits of Actions). GitHub starts no job of a larger one.
    if math.prod(map(len, lists)) > 256:
        lists = [[None]] * len(keys)
    for combination in itertools.product(*lists):
        values = {key: value for key, value in zip(keys, combination, strict=True) if isinstance(value, str | int | float)}
        # A combination may be an `include` or an object, which only GitHub can resolve.
        filled = [_filled(text, values) for text in texts]
        unresolved = next((text for text in (*filled, _filled(str(group), values)) if "${{" in text), "")
        yield RunsOn(tuple(sorted({label.lower() for label in filled})), _filled(str(group), values)), unresolved


def _filled(text: str, values: Mapping[str, Any]) -> str:
    def value(expression: re.Match[str]) -> str:
        key = _OF_MATRIX.fullmatch(expression[1])
        return str(values[key[1]]) if key and key[1] in values else expression[0]

    return _EXPRESSION.sub(value, text)
