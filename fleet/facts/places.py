"""The place of every value of a document: its path, and its line.

The lines form a tree like the values. Aliases share parts of it, without copies.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Keys = tuple[str | int, ...]
Place = int | tuple[int, "Below"]
"""The line of a scalar. For a mapping or list: its line, and the places in it."""
Below = dict[str, Place] | list[Place]


class Lines(Mapping[Keys, int]):
    """The 1-based line of every key and item of a document, by its path. Paths are created only on request."""

    def __init__(self, root: Place) -> None:
        self._root = root

    def __getitem__(self, keys: Keys) -> int:
        return place if isinstance(place := self._at(keys), int) else place[0]

    def __iter__(self) -> Iterator[Keys]:
        return _paths((), self._root)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def below(self, *keys: str | int) -> Below:
        """The places in a mapping or list; empty for a scalar. Raises KeyError."""
        return {} if isinstance(place := self._at(keys), int) else place[1]

    def _at(self, keys: Keys) -> Place:
        place = self._root
        for key in keys:
            below = {} if isinstance(place, int) else place[1]
            try:
                place = below[key]  # type: ignore[index]  # a key of the wrong kind is a key that is absent
            except (LookupError, TypeError):
                raise KeyError(keys) from None
        return place


def leaves(value: Any, at: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Path and value of everything in plain data that is neither a mapping nor a list."""
    if not isinstance(value, Mapping | list | tuple):
        yield at, value
        return
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from leaves(inner, (*at, key))


def dotted(path: Keys) -> str:
    """A path as text: clusters.usw2.zones[0]."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _paths(at: Keys, place: Place) -> Iterator[Keys]:
    yield at
    if not isinstance(place, int):
        below = place[1]
        for key, inner in below.items() if isinstance(below, dict) else enumerate(below):
            yield from _paths((*at, key), inner)
