"""Compares the resources of the engine with those of the offline plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import UNKNOWN

_PROVIDER = "pulumi:providers:"
_ENGINE = "pulumi:providers:pulumi"
"""The engine's own provider, which answers the program with the stack's outputs. It is always the default one."""


@dataclass(frozen=True)
class Node:
    """One resource's place in the graph. The type and the name are parts of the URN that it is keyed by."""

    type: str
    parent: str
    dependencies: tuple[str, ...]


def planned(recording: Recording) -> dict[str, Node]:
    """The plan's graph, by URN."""
    return {found.urn: Node(found.type, found.parent, found.dependencies) for found in recording.resources}


def deployed(state: Iterable[Mapping[str, Any]], remote: Iterable[str]) -> dict[str, Node]:
    """The graph of a state file's resources, by URN, without the children of the `remote` components (URNs).

    Only the engine sees these children; what depends on one of them depends on its component too.
    """
    resources = [found for found in state if found["type"] != _ENGINE]
    hidden: set[str] = set()
    above = set(remote)
    while below := {found["urn"] for found in resources if found.get("parent") in above} - hidden:
        hidden |= below
        above = below
    return {
        found["urn"]: Node(found["type"], found.get("parent", ""), tuple(sorted(set(found.get("dependencies") or ()) - hidden)))
        for found in resources
        if found["urn"] not in hidden
    }


def graph_differences(plan: Mapping[str, Node], state: Mapping[str, Node]) -> list[str]:
    """One line for each difference; none if the graphs are equal."""
    lines = [f"only in the plan: {urn}" for urn in plan.keys() - state.keys()]
    lines += [f"only in the state: {urn}" for urn in state.keys() - plan.keys()]
    for urn in plan.keys() & state.keys():
        if plan[urn] != state[urn]:
            missing = sorted(set(plan[urn].dependencies) - set(state[urn].dependencies))
            extra = sorted(set(state[urn].dependencies) - set(plan[urn].dependencies))
            lines.append(
                f"differs: {urn}: parent {plan[urn].parent} and {state[urn].parent}; depends only in the plan on {missing}, "
                f"only in the state on {extra}"
            )
    return sorted(lines)


def on_default_provider(state: Iterable[Mapping[str, Any]]) -> list[str]:
    """URNs of default providers, and of custom resources that no explicit provider of their package made."""
    resources = [found for found in state if found["type"] != _ENGINE]
    explicit = {
        found["urn"]: found["type"].removeprefix(_PROVIDER)
        for found in resources
        if found["type"].startswith(_PROVIDER) and not found["urn"].rpartition("::")[2].startswith("default")
    }
    wrong = []
    for found in resources:
        if found["type"].startswith(_PROVIDER):
            if found["urn"] not in explicit:
                wrong.append(found["urn"])
        elif found.get("custom"):
            made_by = explicit.get(found.get("provider", "").rpartition("::")[0])
            if made_by != found["type"].partition(":")[0]:
                wrong.append(found["urn"])
    return wrong


def input_differences(plan: Mapping[str, object], seen: Mapping[str, object], *, exact: bool) -> list[str]:
    """One line for each place where inputs differ; unless `exact`, what the plan does not know may be any value."""
    return list(_differences(plan, seen, "", exact))


def _differences(plan: object, seen: object, path: str, exact: bool) -> Iterator[str]:
    if plan is UNKNOWN and not exact:
        return
    if isinstance(plan, Mapping) and isinstance(seen, Mapping):
        for key in sorted(plan.keys() | seen.keys()):
            where = f"{path}.{key}".lstrip(".")
            if key not in seen:
                yield f"{where}: only in the plan"
            elif key not in plan:
                yield f"{where}: only in the engine"
            else:
                yield from _differences(plan[key], seen[key], where, exact)
    elif isinstance(plan, list) and isinstance(seen, list) and len(plan) == len(seen):
        for index, (ours, theirs) in enumerate(zip(plan, seen, strict=True)):
            yield from _differences(ours, theirs, f"{path}[{index}]", exact)
    elif type(plan) is not type(seen) or plan != seen:
        yield f"{path}: {plan!r} in the plan, {seen!r} in the engine"
