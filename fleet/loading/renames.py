"""Renames: what a stack file calls a cluster, pool, runner class or cache today, and its first name, which `was` keeps.

Pulumi's state, the clouds, the clusters and GitHub have the first name, and most of them cannot change it. So the settings are
checked with the names of the file, and everything that is built, read or compared has the first names (docs/renaming.md).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fleet.facts.tables import beside
from fleet.settings.caches import class_name
from fleet.settings.cluster import RENAMED

_WAS = "was"
_REFERENCES: Mapping[str, list[str]] = beside(__file__, "references.toml")
"""The settings below a cluster that name entries, by the key of the entries. They are a name, a list of names, or have names as
keys."""


def first_name(name: str, settings: object) -> str:
    """The name with which an entry of a stack file was deployed first."""
    was = settings.get(_WAS) if isinstance(settings, Mapping) else None
    return was if isinstance(was, str) else name


def first_names(clusters: Mapping[str, Any]) -> dict[str, Any]:
    """The clusters of a stack file with first names: their keys, and the settings that name them. `was` is gone."""
    sets = {
        f"{cluster}/{name}": f"{first_name(cluster, settings)}/{first_name(name, runner)}"
        for cluster, settings in clusters.items()
        for name, runner in _entries(settings, "runners").items()
    }
    # A rerun may be on a set of another cluster.
    everywhere = {key.partition("/")[2]: first.partition("/")[2] for key, first in reversed(sets.items())}
    return {first_name(name, settings): _cluster(settings, sets, everywhere) for name, settings in clusters.items()}


def _cluster(settings: Any, sets: Mapping[str, str], everywhere: Mapping[str, str]) -> dict[str, Any]:
    for kind, paths in _REFERENCES.items():
        own = {name: first_name(name, entry) for name, entry in _entries(settings, kind).items()}
        classes = {class_name(name): class_name(first) for name, first in own.items()} if kind == "caches" else {}
        names = {**(everywhere if kind == "runners" else {}), **own, **classes}
        for path in paths:
            settings = _at(settings, path.split("."), partial(_named, names=names))
    settings = _at(settings, ["runners", "*", "sameAs"], partial(_named, names=sets))
    for kind in RENAMED:
        settings = _at(settings, [kind], lambda entries: {first_name(*entry): _bare(entry[1]) for entry in entries.items()})
    return _bare(settings)


def _at(value: Any, steps: list[str], change: Callable[[Any], Any]) -> Any:
    """A copy of a value with the parts changed that are at a path, if it has them. `*` is every key or item."""
    if not steps:
        return change(value)
    head, *rest = steps
    if isinstance(value, list):
        return [_at(item, rest, change) for item in value] if head == "*" else value
    if not isinstance(value, Mapping):
        return value
    return {key: _at(item, rest, change) if head in ("*", key) else item for key, item in value.items()}


def _named(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {names.get(key, key): item for key, item in value.items()}
    return [names.get(item, item) for item in value] if isinstance(value, list) else names.get(value, value)


def _entries(settings: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return settings.get(kind) or {}


def _bare(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without `was`."""
    return {key: value for key, value in settings.items() if key != _WAS}


def renamed(clusters: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path below the clusters, first name) of each entry of a stack file that has another name now."""
    for cluster, settings in clusters.items():
        entries: list[tuple[tuple[str, ...], Any]] = [((cluster,), settings)]
        entries += [((cluster, kind, name), entry) for kind in RENAMED for name, entry in _entries(settings, kind).items()]
        yield from ((path, first) for path, entry in entries if (first := first_name(path[-1], entry)) != path[-1])
