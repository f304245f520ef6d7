"""How much of a file is read. Every reader of files that people write holds to these limits, so that no input takes all memory.

A file beyond a limit is refused, never read in part.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, ScalarEvent

MOST_BYTES = 5_000_000
"""Of one file, over 100 times the largest stack file here."""
DEEPEST = 100
"""Levels of mappings and lists. The Pulumi CLI's limit is 10,000; no settings come near it."""
MOST_COPIES = 100_000
"""Values that aliases may add. A few lines of aliases of aliases can stand for more than any memory holds."""
_TOO_DEEP = f"values nest at most {DEEPEST} levels deep"
_TOO_MANY = f"aliases add at most {MOST_COPIES:,} values"


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Never waits for any.

    Raises OSError as `open` does, for a file of more than `MOST_BYTES`, for anything that is not a regular file, and for a file
    of the kernel that has nothing to read yet.
    """
    # Without O_NONBLOCK a pipe waits for a writer, and /proc/kmsg for the next message of the kernel.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        held: bytes | None = file.read(MOST_BYTES + 1)
    if held is None:
        raise OSError(errno.EAGAIN, "it has nothing to read", str(path))
    if len(held) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES:,} bytes", str(path))
    return held


class LimitError(Exception):
    """A YAML text stands for more than it may. Says the line, the rule, what is there and how to fix it."""

    def __init__(self, event: Any, rule: str, value: str, fix: str) -> None:
        super().__init__(f"{rule}; got {value}; {fix}")
        self.line: int = event.start_mark.line + 1


def bounded(events: Iterable[Any]) -> Iterator[Any]:
    """The same events of a YAML parser. Raises LimitError where aliases add too many values, or values nest too deep.

    Takes time and memory by what is written, not by what it stands for.
    """
    known: dict[str, tuple[int, int]] = {}  # anchor → values and levels of what it names
    held: list[_Collection] = []
    values = copied = 0
    for event in events:
        levels = 0
        if held and isinstance(event, AliasEvent | ScalarEvent | CollectionStartEvent) and held[-1].next_is_key():
            # A key is no value of its own.
            values -= 1
        if isinstance(event, AliasEvent):
            if any(each.anchor == event.anchor for each in held):
                raise LimitError(event, "an alias must not stand inside its own anchor", f"*{event.anchor}", "write it out")
            size, levels = known.get(event.anchor, (0, 0))
            values, copied = values + size, copied + size
            if copied > MOST_COPIES:
                raise LimitError(event, _TOO_MANY, f"*{event.anchor}", "write out what the aliases stand for")
        elif isinstance(event, CollectionStartEvent):
            held.append(_Collection(event.anchor, values, isinstance(event, MappingStartEvent)))
            values += 1
        elif isinstance(event, CollectionEndEvent):
            done = held.pop()
            levels = done.levels + 1
            known[done.anchor or ""] = (values - done.before, levels)
        elif isinstance(event, ScalarEvent):
            values += 1
            known[event.anchor or ""] = (1, 0)
        if len(held) + levels > DEEPEST:
            raise LimitError(event, _TOO_DEEP, f"level {len(held) + levels}", "flatten them")
        if held:
            held[-1].levels = max(held[-1].levels, levels)
        yield event


@dataclass(slots=True)
class _Collection:
    """A mapping or list that is open: how many values came before it, how many levels and nodes are in it so far."""

    anchor: str | None
    before: int
    is_mapping: bool
    levels: int = 0
    nodes: int = 0

    def next_is_key(self) -> bool:
        """Whether the node that comes next is a key of a mapping. To be asked once for each node."""
        self.nodes += 1
        return self.is_mapping and self.nodes % 2 == 1
