"""Commands and options of programs that the pages call, by the table in tools.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_REST = "..."


@dataclass(frozen=True)
class Tool:
    """A program: options of all its commands, and of each by the command's words. Values: whether an option takes a value.

    `only_parsed` says why its calls can only be parsed, or is empty.
    """

    options: dict[str, bool]
    commands: dict[tuple[str, ...], dict[str, bool]]
    only_parsed: str

    def faults(self, words: tuple[str, ...]) -> Iterator[str]:
        """What a call names and the program does not have."""
        given = words[: words.index("--")] if "--" in words else words
        plain = self._plain(given)
        named = [command for command in self.commands if plain[: len(command)] == command]
        if not named:
            yield f"command {' '.join(plain[:2])}"
            return
        command = max(named, key=len)
        known = self.options | self.commands[command]
        left = len(command)
        takes_value = False
        for word in given:
            if takes_value:
                takes_value = False
            elif word.startswith("-") and word != "-":
                name, equals, _ = word.partition("=")
                if name not in known:
                    yield f"option {name} of {' '.join(command)}".removesuffix(" of ")
                takes_value = known.get(name, False) and not equals
            elif left:
                left -= 1
            elif _REST in known:
                return
        if takes_value:
            yield f"{given[-1]} without its value"

    def _plain(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words that are neither options nor values of those options that may be before a command."""
        found: list[str] = []
        skip = False
        for word in words:
            if skip or word.startswith("-"):
                skip = not skip and self.options.get(word, False)
            else:
                found.append(word)
        return tuple(found)


def _options(text: str) -> dict[str, bool]:
    return {word.removesuffix("="): word.endswith("=") for word in text.split()}


def _tool(table: dict[str, dict[str, str] | str]) -> Tool:
    commands = table["commands"]
    assert isinstance(commands, dict)
    return Tool(
        _options(str(table.get("options", ""))),
        {tuple(name.split()): _options(options) for name, options in commands.items()},
        str(table.get("only_parsed", "")),
    )


TOOLS = {name: _tool(table) for name, table in tomllib.loads((Path(__file__).parent / "tools.toml").read_text()).items()}
"""By the name of the program."""
