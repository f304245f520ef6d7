"""The entries of a stack file: the stack, its clusters, and their pools, runner sets, workloads, caches and jobs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fleet.facts.nested import part
from fleet.facts.places import Keys
from fleet.loading.renames import first_names
from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import NAMESPACE

_CLUSTERS = f"{NAMESPACE}:clusters"
_KINDS = {"pools": "pool", "runners": "runner set", "workloads": "workload", "caches": "cache", "jobs": "job"}
"""Keys of a cluster that have entries of their own, with the word for one entry."""
NEW_NAME = "name"
"""The setting of an entry with the name that its stack file gives it, if that is not its first name."""


class Entry(NamedTuple):
    """One entry. `name` is "usw2" for a cluster, "usw2/t4-spot" for an entry of a cluster, "" for the stack: first names.

    `path` is its place in the file. `settings` are its own settings, without those of the entries inside of it.
    """

    kind: str
    name: str
    path: Keys
    settings: Mapping[str, object]

    @property
    def logical(self) -> str:
        """The prefix of the logical names of its resources."""
        return self.name.replace("/", "-")

    def texts(self) -> dict[str, str]:
        """Its settings by dotted path, each as one line of text, and its new name. A list is one value."""
        new = {NEW_NAME: str(self.path[-1])} if self.path and self.path[-1] != self.name.rpartition("/")[2] else {}
        return dict(flat(self.settings, "")) | new


def entries(config: StackConfig) -> Iterator[Entry]:
    """Every entry of a loaded stack file, a cluster before its entries. Placeholders of missing values are left out."""
    top = {key: value for key, value in config.objects.items() if key not in (_CLUSTERS, *config.placed)}
    yield Entry("stack", "", (), top)
    clusters = part(config.objects, _CLUSTERS)
    for written, (name, cluster) in zip(clusters, first_names(clusters).items(), strict=True):
        path = (_CLUSTERS, written)
        yield Entry("cluster", name, path, {key: value for key, value in part(cluster).items() if key not in _KINDS})
        for key, kind in _KINDS.items():
            inside = part(cluster, key).items()
            for inner_written, (inner, settings) in zip(part(clusters[written], key), inside, strict=True):
                yield Entry(kind, f"{name}/{inner}", (*path, key, inner_written), part(settings))


def owners(candidates: Iterable[Entry], names: Sequence[str]) -> tuple[Entry, ...]:
    """The entries of a resource: those named like it or a parent of it, else those whose name is the start of its name.

    `names` are the logical names of the resource and its parents, the resource first.
    """
    listed = [*candidates]
    for name in names:
        if exact := tuple(entry for entry in listed if entry.logical in (name, _delivered(name))):
            return exact
    within = [entry for name in names[:1] for entry in listed if name.startswith(f"{entry.logical}-")]
    longest = max((len(entry.logical) for entry in within), default=0)
    return tuple(entry for entry in within if len(entry.logical) == longest)


def _delivered(name: str) -> str:
    """What a thing that Argo CD delivers would be called without it: `use1-gpu-t4` for `use1-tree.runners-gpu-t4.gpu-t4`."""
    cluster, tree, path = name.partition("-tree.")
    return f"{cluster}-{path.rpartition('.')[2]}" if tree else name


def flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Path and text of each value below a path. A list is one value."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif path:
        yield path, plain(value)


def plain(value: object, scalar: Callable[[object], str] = lambda value: "null" if value is None else str(value)) -> str:
    """A value on one line of YAML, without quotes; `scalar` writes texts, numbers and null."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {plain(inner, scalar)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(plain(inner, scalar) for inner in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return scalar(value)
