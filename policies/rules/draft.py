"""The properties of a resource while a remedy changes them.

In a draft a secret stays marked, and an unknown value is a mark too. `reading` is for `read.py`, `put` and `append` change the
properties.
"""

import copy
from typing import Any

from .record import Secret, Step, bare


class Draft:
    """Properties that a remedy changes. A change is not made if its path leads through something that is not an object."""

    __slots__ = ("_dirty", "_props")

    def __init__(self, props: Any) -> None:
        self._props: dict[str, Any] = copy.deepcopy(props)
        self._dirty = False

    @property
    def reading(self) -> Any:
        """The properties as a check reads them: secrets bare, unknowns raise."""
        return bare(self._props)

    @property
    def changed(self) -> dict[str, Any] | None:
        """The properties with all changes; None if nothing changed."""
        return self._props if self._dirty else None

    def put(self, value: Any, *path: Step) -> None:
        """Sets the value at a path of object keys and list indices, creating missing objects."""
        *above, last = path
        if isinstance(holder := self._reach(above), dict) and isinstance(last, str):
            holder[last] = Secret(value) if isinstance(holder.get(last), Secret) else value
            self._dirty = True

    def append(self, value: Any, *path: Step) -> None:
        """Adds an item to the list at a path, creating a missing list."""
        *above, last = path
        if not isinstance(holder := self._reach(above), dict) or not isinstance(last, str):
            return
        if holder.get(last) is None:
            holder[last] = []
        if isinstance(listed := _opened(holder[last]), list):
            listed.append(value)
            self._dirty = True

    def _reach(self, path: list[Step]) -> Any:
        holder: Any = self._props
        for step in path:
            if isinstance(holder, dict) and isinstance(step, str):
                if holder.get(step) is None:
                    holder[step] = {}
            elif not (isinstance(holder, list) and isinstance(step, int) and 0 <= step < len(holder)):
                return None
            holder = _opened(holder[step])
        return holder


def _opened(value: Any) -> Any:
    return value.value if isinstance(value, Secret) else value
