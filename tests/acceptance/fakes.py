"""A shell that runs nothing: a script of answers, and a clock that moves with each command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpu_ci.acceptance.runner import Shell, StepError


class Fake(Shell):
    """`ran` are the commands as text. `answers` maps a part of a command to its output, its error or a function."""

    def __init__(self, folder: Path, seconds: float = 60) -> None:
        super().__init__(folder, {})
        self.ran: list[str] = []
        self.lines: list[str] = []
        self.answers: dict[str, str | BaseException | Callable[[], str]] = {}
        self.time = 1_800_000_000.0
        self.each = seconds

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds

    def say(self, line: str) -> None:
        self.lines.append(line)

    def _execute(self, words: tuple[str, ...], out: int | None) -> str:
        if self.time >= self.until:
            raise StepError("no time is left")
        self.ran.append(" ".join(words))
        self.time += self.each
        answer = next((found for part, found in self.answers.items() if part in self.ran[-1]), "")
        if callable(answer):
            return answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def told(self, part: str) -> bool:
        """Whether a line has this text."""
        return any(part in line for line in self.lines)
