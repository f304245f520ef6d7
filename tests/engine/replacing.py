"""What a provider answers to Diff: which inputs differ, as the real one compares them, and which of them replace the resource.

The facts are in `schemas.csv`, made from the sources of the providers and apart from the program's own table of effects:

- replaces: a change of the property, of a part of it, or of what contains it replaces the resource;
- replaces-if-removed: only its removal does;
- set: the provider compares the list without an order;
- json: the provider compares the document, and no order in it;
- kept: the property is optional and the cloud has a value for it, so that its removal changes nothing.

A property is a path without indices. "kubernetes:*" stands for all types of the package. In a preview an unknown value differs
from every known one, as in a bridged provider, and so it replaces where the property does.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pulumi.runtime.proto import provider_pb2

from policies.rules.record import SECRET, SIGNATURE

FILE = Path(__file__).with_name("schemas.csv")
RELEASE = "kubernetes:helm.sh/v3:Release"
_CLUSTER = "pulumi:providers:kubernetes"
_Change = provider_pb2.PropertyDiff
_MISSING: Any = object()


@cache
def _table() -> Mapping[tuple[str, str], frozenset[str]]:
    """The properties by type and fact."""
    table: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    with FILE.open(newline="") as lines:
        for row in csv.DictReader(lines):
            table[row["type"], row["fact"]].add(row["property"])
    return {key: frozenset(properties) for key, properties in table.items()}


@cache
def facts(kind: str, fact: str) -> frozenset[str]:
    """The properties of a type of which this is a fact."""
    package = "" if kind == RELEASE else f"{kind.partition(':')[0]}:*"
    return _table().get((kind, fact), frozenset()) | _table().get((package, fact), frozenset())


def difference(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
    """The DiffResponse for raw inputs (as of `offline.wire`)."""
    answer = provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE, hasDetailedDiff=True)
    for path, was, becomes in sorted(differing(kind, old, new), key=lambda found: found[0]):
        replaces = _replaces(kind, path, removed=becomes is _MISSING) and not _is_spared(kind, path, old, new)
        how = "DELETE" if becomes is _MISSING else "ADD" if was is _MISSING else "UPDATE"
        answer.detailedDiff[path].kind = _Change.Kind.Value(f"{how}_REPLACE" if replaces else how)
        answer.detailedDiff[path].inputDiff = True
        answer.diffs.append(path)
        if replaces:
            answer.replaces.append(path)
    if answer.diffs:
        answer.changes = provider_pb2.DiffResponse.DIFF_SOME
    answer.deleteBeforeReplace = bool(answer.replaces) and _keeps_its_name(kind, old, new)
    return answer


def differing(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(path with indices, old value, new value) of each place where inputs differ. A set or a document is one place."""
    yield from _differing(kind, _compared(kind, old, ""), _compared(kind, new, ""), "")


def _differing(kind: str, old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            where = f"{path}.{key}" if path else key
            yield from _differing(kind, old.get(key, _MISSING), new.get(key, _MISSING), where)
    elif isinstance(old, list) and isinstance(new, list) and _bare(path) not in facts(kind, "set"):
        for index in range(max(len(old), len(new))):
            was, becomes = (side[index] if index < len(side) else _MISSING for side in (old, new))
            yield from _differing(kind, was, becomes, f"{path}[{index}]")
    elif old != new and not (new is _MISSING and _bare(path) in facts(kind, "kept")):
        yield path, old, new


def _compared(kind: str, value: Any, path: str) -> Any:
    """A value as the provider compares it: no nulls, no secrets, sets sorted, documents parsed."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET:
            return _compared(kind, value["value"], path)
        items = {key: _compared(kind, item, f"{path}.{key}" if path else key) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not None}
    if isinstance(value, list):
        compared = [_compared(kind, item, path) for item in value]
        return _sorted(compared) if path in facts(kind, "set") else compared
    if isinstance(value, str) and path in facts(kind, "json") and value.startswith("{"):
        return _unordered(json.loads(value))
    return value


def _unordered(document: Any) -> Any:
    if isinstance(document, dict):
        return json.dumps({key: _unordered(item) for key, item in document.items()}, sort_keys=True)
    return _sorted([_unordered(item) for item in document]) if isinstance(document, list) else document


def _sorted(items: Sequence[Any]) -> list[Any]:
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _bare(path: str) -> str:
    """The path without indices."""
    return "".join(part.partition("]")[2] if place else part for place, part in enumerate(path.split("[")))


def _replaces(kind: str, path: str, *, removed: bool) -> bool:
    properties = facts(kind, "replaces") | (facts(kind, "replaces-if-removed") if removed else frozenset())
    bare = f"{_bare(path)}."
    return any(bare.startswith(f"{name}.") or f"{name}.".startswith(bare) for name in properties)


def _is_spared(kind: str, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Of the provider of a cluster: its identifier decides, and one that comes or goes replaces nothing (DiffConfig)."""
    if kind != _CLUSTER:
        return False
    before, after = (side.get("clusterIdentifier") for side in (old, new))
    return (path == "clusterIdentifier" and not (before and after)) or (bool(after) and before == after)


def _keeps_its_name(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether pulumi-kubernetes asks for the deletion first (provider.go, Diff): never for a Release, which has no metadata."""
    if not kind.startswith("kubernetes:"):
        return False
    before, after = (side.get("metadata") or {} for side in (old, new))
    same = all(before.get(key) == after.get(key) for key in ("name", "namespace"))
    return bool(after.get("name")) and same
