"""Errors of a stack file: every problem names its path, the rule, the value and the way to mend it."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. `path` leads from the config key to the value; `value` is what stands there, as JSON, or empty."""

    path: tuple[str, ...]
    message: str
    value: str

    @property
    def where(self) -> str:
        """The path as text: `gpu-ci:clusters.usw2.pools.t4.nodes.min`. Of one line, whatever a key is."""
        return ".".join(part if part.isprintable() else shown(part) for part in self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f" (got {self.value})" if self.value else "")


class FleetError(Exception):
    """The stack's settings cannot be a fleet. Holds every problem found, in the order of the config."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def shown(value: object, limit: int = 60) -> str:
    """A value as short JSON text for an error line; signs that nobody sees are escaped."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value, default=str)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
