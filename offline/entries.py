"""The entries of a stack file: the stack itself, its clusters, their pools, runner sets, workloads, caches and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.places import Keys
from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import NAMESPACE

_CLUSTERS = f"{NAMESPACE}:clusters"
_KINDS = {"pools": "pool", "runners": "runner set", "workloads": "workload", "caches": "cache", "jobs": "job"}
"""Keys of a cluster that hold entries of their own, and what one of these is called."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `name` is "usw2" of a cluster, "usw2/t4-spot" of what is in one, "" of the stack; `path` is where it stands.

    `settings` are its own, those of the entries in it left out.
    """

    kind: str
    name: str
    path: Keys
    settings: Mapping[str, object]

    @property
    def logical(self) -> str:
        """What the logical names of its resources begin with."""
        return self.name.replace("/", "-")

    def texts(self) -> dict[str, str]:
        """Its settings by dotted path, each as one line of text; a list is one value."""
        return dict(_flat(self.settings, ""))


def entries(config: StackConfig) -> tuple[Entry, ...]:
    """Every entry of a loaded stack file, a cluster before what is in it. Placeholders for what the file lacks are left out."""
    return tuple(_entries(config))


def _entries(config: StackConfig) -> Iterator[Entry]:
    own = {key: value for key, value in config.objects.items() if key not in (_CLUSTERS, *config.placed)}
    yield Entry("stack", "", (), own)
    for name, cluster in _mapping(config.objects.get(_CLUSTERS)).items():
        path = (_CLUSTERS, name)
        yield Entry("cluster", name, path, {key: value for key, value in _mapping(cluster).items() if key not in _KINDS})
        for key, kind in _KINDS.items():
            for inner, settings in _mapping(_mapping(cluster).get(key)).items():
                yield Entry(kind, f"{name}/{inner}", (*path, key, inner), _mapping(settings))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flat(part, f"{path}.{key}" if path else str(key))
    elif path:
        yield path, plain(value)


def plain(value: object) -> str:
    """A value as one would write it on one line of YAML, without quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
