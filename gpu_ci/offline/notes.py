"""One annotation of GitHub, as a workflow command.

The runner reads commands and their escapes on stdout and stderr (actions/runner, ActionCommand.cs and ScriptHandler.cs).
"""

from typing import NamedTuple

from fleet.facts.credentials import mask


class Annotation(NamedTuple):
    """One annotation. Without a line GitHub shows it in the summary of the run only."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        """The workflow command, always on one line and without credentials."""
        place = {"file": self.file, "line": str(self.line)} if self.line else {}
        texts = {key: _data(value) for key, value in {**place, "title": self.title}.items()}
        properties = ",".join(f"{key}={text.replace(':', '%3A').replace(',', '%2C')}" for key, text in texts.items())
        return f"::{self.level} {properties}::{_data(self.message)}"


def _data(value: str) -> str:
    return mask(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
