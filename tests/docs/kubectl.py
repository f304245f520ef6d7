"""Finds the calls of kubectl, and of other programs, in a shell text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?[^\n]*\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
"""A here-document; group 2 is its text."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of kubectl: where it is written, and its words after `kubectl`."""

    place: str
    words: tuple[str, ...]

    def option(self, *names: str) -> str | None:
        """The value of an option by any of its spellings, or None."""
        for index, word in enumerate(self.words):
            if word in names:
                return self.words[index + 1]
            for name in names:
                if word.startswith(f"{name}="):
                    return word.partition("=")[2]
        return None

    @property
    def namespace(self) -> str | None:
        """The namespace that the call names, or None."""
        return self.option("-n", "--namespace")


def calls(text: str, place: str) -> Iterator[Call]:
    """Calls of kubectl in a shell text, without their here-documents."""
    return (Call(place, words) for words in commands(text, "kubectl"))


def commands(text: str, program: str) -> Iterator[tuple[str, ...]]:
    """The words after the name of a program, for each of its calls in a shell text."""
    for line in HEREDOC.sub("", text).replace("\\\n", " ").splitlines():
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        # A colon does not end a word.
        lexer.whitespace_split = True
        for word in (*lexer, ";"):
            if not set(word) <= set("();<>|&"):
                words.append(word)
            elif words:
                if words[0] == program:
                    yield tuple(words[1:])
                words = []
