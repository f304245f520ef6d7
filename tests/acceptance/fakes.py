"""A shell that runs nothing: a script of answers, and a clock that moves with each command. A scan with a script of looks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fleet.providers.provider import Left
from gpu_ci.acceptance.runner import Shell, StepError

ANSWERS = {
    "stack export": json.dumps({"deployment": {"resources": None}}),
    "stack output": json.dumps({"usw2": json.dumps({"current-context": "gpu-ci-staging-usw2"})}),
    "--json": '{"changeSummary": {"same": 9, "update": 3}}',
}
"""What Pulumi answers if all goes well."""


class Looks:
    """What is left, look by look; then nothing. `left` looks after the first one have a volume."""

    def __init__(self, left: int = 0) -> None:
        volume = [Left("us-west-2: a volume", "aws ec2 delete-volume")]
        self.looks: list[list[Left]] = [[], *[volume] * left] if left else []
        self.groups_deleted = 0

    def __call__(self) -> list[Left]:
        return self.looks.pop(0) if self.looks else []

    def delete_late(self) -> None:
        self.groups_deleted += 1


class Fake(Shell):
    """`ran` are the commands as text. `answers` maps a part of a command to its output, its error or a function.

    `before` gets each command when it starts.
    """

    def __init__(self, folder: Path, seconds: float = 60) -> None:
        super().__init__(folder, {})
        self.ran: list[str] = []
        self.lines: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
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
        self.before(self.ran[-1])
        answer = next((found for part, found in self.answers.items() if part in self.ran[-1]), "")
        if callable(answer):
            return answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def told(self, part: str) -> bool:
        """Whether a line has this text."""
        return any(part in line for line in self.lines)
