"""Which runner sets a `runs-on` reaches.

GitHub matches `runs-on` to runner sets: a set must have every label (its name is one) and be in the group; case is ignored.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.facts.cloud_limits import limit
from fleet.facts.record import Record

_NOT_OF_GITHUB = limit("github.com", "runs-on")
"""Faults the labels of GitHub's own runners: a set may not take one."""
_LEVEL = re.compile(r"^(?:org|organization|ent|enterprise)/", re.IGNORECASE)
"""Says in front of a group which of two with one name is meant (docs.github.com, "Using unique names for runner groups")."""


class RunsOn(Record):
    """A `runs-on`: a runner must have all of these labels and be in this group. An empty group means any group."""

    labels: tuple[str, ...]
    group: str = ""

    @classmethod
    def read(cls, value: Any) -> "RunsOn":
        """Read the value from a workflow: a label, a list of labels, or a mapping of labels and group.

        Raises ValueError for anything else.
        """
        keys = value if isinstance(value, Mapping) else {"labels": value}
        labels, group = keys.get("labels", []), keys.get("group", "")
        labels = [labels] if isinstance(labels, str) else labels
        texts = isinstance(labels, list) and all(isinstance(label, str) and label for label in labels) and isinstance(group, str)
        if not texts or not {*keys} <= {"labels", "group"} or not (labels or group) or "${{" in f"{labels}{group}":
            raise ValueError(f"not a runs-on: {value!r}; write a label, a list of labels, or a mapping of labels and group")
        return cls(tuple(labels), group)

    def __str__(self) -> str:
        """In words: "labels self-hosted, gpu in group GPUs"."""
        names = f"label{'s' * (len(self.labels) > 1)} {', '.join(self.labels)}" if self.labels else "any label"
        return f"{names} in group {self.group}" if self.group else names

    @property
    def hosted(self) -> bool:
        """Whether GitHub's own runners have all the labels."""
        # The row also faults texts that are not labels, such as one with a line break. A group may be one of larger runners.
        return bool(self.labels) and all(label.isprintable() and _NOT_OF_GITHUB.fault(label) is not None for label in self.labels)

    def matches(self, labels: Iterable[str], group: str) -> bool:
        """Whether a runner set gets the job. `labels` includes the set's name, `group` is the set's group."""
        lowered = {label.lower() for label in labels}
        asked = _LEVEL.sub("", self.group).lower()
        return all(label.lower() in lowered for label in self.labels) and asked in ("", group.lower())
