"""A value of somebody's file, with its place. It notes what was read, so that an audit can list every other key."""

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

from fleet.facts.nested import at, items, part
from fleet.facts.places import Keys as Path, dotted, leaves
from fleet.facts.quantities import quantity
from gpu_ci.workflows.job import File


class Keys:
    """A value at a path of a document. Readers take texts, numbers and lists from it; `whole` takes all that is below.

    A value that a text holds, such as the values of an Argo CD Application, has the place of the text and no path of its own.
    """

    __slots__ = ("_read", "file", "inner", "path", "value")

    def __init__(self, file: File, value: object, path: Path = (), read: set[Path] | None = None, inner: bool = False) -> None:
        self.file, self.value, self.path, self.inner = file, value, path, inner
        self._read: set[Path] = set() if read is None else read

    def __bool__(self) -> bool:
        return self.value is not None

    @property
    def place(self) -> str:
        """File and line."""
        return self.file.place(*self.path)

    def __contains__(self, key: str) -> bool:
        return key in part(self.value)

    def get(self, *path: str) -> "Keys":
        """The value at a path below; that of an absent key is None."""
        return self._below(path, at(self.value, *path))

    def text(self, *path: str) -> str:
        """The text at a path; a number as text, empty for anything else."""
        value = self.whole(*path)
        return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""

    def flag(self, *path: str) -> bool | None:
        """True or false; None if the file says neither."""
        value = self.whole(*path)
        return value if isinstance(value, bool) else None

    def count(self, *path: str) -> int | None:
        """The whole number at a path, also as text; None for anything else."""
        number = quantity(self.whole(*path))
        return int(number) if number is not None else None

    def items(self, *path: str) -> "list[Keys]":
        """The values of the list at a path."""
        return [self._below((*path, number), item) for number, item in enumerate(items(self.value, *path))]

    def entries(self, *path: str) -> "dict[str, Keys]":
        """The values of the mapping at a path."""
        return {str(key): self._below((*path, key), value) for key, value in part(self.value, *path).items()}

    def each(self, path: str) -> "list[Keys]":
        """The values at a path such as "terms[].id": `[]` stands for every item of a list, `\\.` for a dot in a key."""
        found = [self]
        for key in re.split(r"(?<!\\)\.", path.replace("[]", ".[]")):
            found = [one for at_ in found for one in (at_.items() if key == "[]" else [at_.get(key.replace("\\.", "."))])]
        return found

    def texts(self, *path: str) -> tuple[str, ...]:
        """The texts of a list, or of one text."""
        value = self.whole(*path)
        return tuple(str(one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, str | int | float))

    def whole(self, *path: str) -> Any:
        """The plain value at a path. Everything below counts as read."""
        self._read.add((*self.path, *path))
        return at(self.value, *path)

    def mapping(self, *path: str) -> Mapping[str, Any]:
        """The plain mapping at a path; empty for anything else. Everything below counts as read."""
        value = self.whole(*path)
        return value if isinstance(value, Mapping) else {}

    def skip(self, *keys: str) -> None:
        """Keys that say nothing that an audit judges count as read."""
        self._read.update((*self.path, key) for key in keys)

    def pass_over(self, *paths: str) -> None:
        """The same for paths as `each` takes them."""
        for above, _, key in (path.rpartition(".") for path in paths):
            for one in self.each(above) if above else [self]:
                one.skip(key)

    def parsed(self, value: object) -> "Keys":
        """What the text here holds."""
        self.whole()
        return Keys(self.file, value, self.path, inner=True)

    def instead(self, value: object) -> "Keys":
        """Another value in this place."""
        return Keys(self.file, value, self.path, self._read, inner=True)

    def laid(self, parts: "list[Keys]") -> "Keys":
        """Values laid over each other as Helm does, the last over the first."""
        nothing: object = {}
        return Keys(self.file, reduce(_over, [part.value for part in parts], nothing), self.path, inner=True)

    def note(self, merged: "Keys") -> None:
        """Count as read here what was read of values that this is a part of."""
        start = len(merged.path)
        self._read.update([(*self.path, *path[start:]) for path in merged._read if path[:start] == merged.path])

    def _below(self, path: Path, value: object) -> "Keys":
        return Keys(self.file, value, (*self.path, *path), self._read, self.inner)

    def unread(self) -> Iterator[tuple[str, str]]:
        """Place and dotted path of each key below that was not read. A mapping of which nothing was read is one key."""
        yield from self._unread(self.path, self.value)

    def _unread(self, path: Path, value: object) -> Iterator[tuple[str, str]]:
        if path in self._read:
            return
        known = {read[: len(path) + 1] for read in self._read if read[: len(path)] == path}
        inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for key, below in inner:
            deeper = (*path, key)
            if deeper in known:
                yield from self._unread(deeper, below)
            elif any(leaf not in (None, {}, []) for _, leaf in leaves(below)):
                yield self.file.place(*deeper), dotted(deeper)


def _over(under: object, over: object) -> object:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return over
    return {**under, **{key: _over(under[key], value) if key in under else value for key, value in over.items()}}
