"""Finds the key of the stack file that has a value which a cloud refuses, and makes an input error of it.

The policy `cloud-limits` judges resources. A value that a stack file has is wrong input, so a plan ends with status 2 and names
its line. Any other value stays a verdict on its resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fleet.facts.errors import FleetError, Problem, shown
from fleet.facts.places import Keys
from fleet.loading.stackfile import StackConfig, wrong
from gpu_ci.offline.judge import Verdict, properties_of
from gpu_ci.offline.recording import Recording
from policies.rules.cloud_limits import RULE, Fault, faults
from policies.rules.read import Later

_SHORTEST = 3
"""Characters of a text that may be a part of a longer value."""


def require_accepted(config: StackConfig, recording: Recording, verdicts: Iterable[Verdict]) -> None:
    """Raises InputError for each verdict of `cloud-limits` whose value the stack file has."""
    problems: dict[Keys, Problem] = {}
    for verdict in verdicts:
        if verdict.rule == RULE.id and verdict.kind == "violation" and verdict.level == "mandatory":
            resource = recording.by_urn[verdict.urn]
            for fault in faults(resource.type, resource.name, properties_of(resource), Later()):
                if str(fault) == verdict.message and (place := _place(config, fault, resource.name)):
                    keys, value = place
                    kind = resource.type.rpartition(":")[2]
                    problem = Problem(
                        tuple(map(str, keys)), f"{fault.rule} ({kind} {resource.name}, {fault.path})", shown(value), RULE.id
                    )
                    problems.setdefault(keys, problem)
    if problems:
        raise wrong(config, FleetError(tuple(problems.values())))


def _place(config: StackConfig, fault: Fault, resource: str) -> tuple[Keys, object] | None:
    """Path and text of the setting that has the value: the same one, else the longest that is a part of it.

    Of several it is one whose path names more of what the resource is named after.
    """
    parts = list(fault.value) if isinstance(fault.value, Mapping | list) else [fault.value]
    parts = [part.get("type") if isinstance(part, Mapping) else part for part in parts]
    candidates = [part for part in parts if len(parts) == 1 or str(part) in fault.rule] or parts
    best: tuple[tuple[bool, int, int], Keys, object] | None = None
    for keys, value in _scalars(config.objects):
        for part in candidates:
            is_equal = value == part
            inside = isinstance(part, str) and isinstance(value, str) and len(value) >= _SHORTEST and value in part
            if is_equal or inside:
                beside = sum(isinstance(key, str) and key in resource for key in keys)
                rank = (is_equal, len(str(value)), beside)
                if best is None or rank > best[0]:
                    best = rank, keys, value
    if best is None:
        return None
    # A rule of a whole list is about the list.
    return (best[1][:-1], fault.value) if isinstance(fault.value, list) and isinstance(best[1][-1], int) else best[1:]


def _scalars(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Path and value of each scalar, and of each key below the first two: names of clusters, pools and tags."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if keys:
                yield (*keys, key), key
            yield from _scalars(inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _scalars(inner, (*keys, index))
    elif not isinstance(value, bool):
        yield keys, value
