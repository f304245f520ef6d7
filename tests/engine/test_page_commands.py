"""The Pulumi CLI has every command and option that the documentation calls."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from tests.docs.kubectl import commands
from tests.docs.markdown import fences

pytestmark = pytest.mark.engine

SHELLS = ("bash", "sh")
VALUED = ("-C", "--cwd")
"""Options before the command that take a value."""


def told() -> list[tuple[str, tuple[str, ...]]]:
    """(place, words) of every call of pulumi in a shell block."""
    return [(fence.place, words) for fence in fences() if fence.language in SHELLS for words in commands(fence.text, "pulumi")]


@cache
def manual(command: tuple[str, ...]) -> str:
    """What the CLI says of a command, or of the nearest one above it."""
    done = subprocess.run(["pulumi", *command, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout


@cache
def command_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name a command: with each the CLI says something else. Older names of a command count."""
    found: tuple[str, ...] = ()
    for word in words:
        if word.startswith("-") or manual((*found, word)) == manual(found):
            break
        found += (word,)
    return found


def faults(words: tuple[str, ...]) -> list[str]:
    """What a call names and the CLI does not have."""
    while words[:1] and words[0] in VALUED:
        words = words[2:]
    command = command_of(words)
    if not command:
        return [*words[:1]]
    text = manual(command)
    given = words[len(command) : words.index("--") if "--" in words else None]
    if "Available Commands:" in text and given and not given[0].startswith("-"):
        return [" ".join((*command, given[0]))]
    options = [word.partition("=")[0] for word in given if re.match(r"--?[A-Za-z]", word)]
    return [option for option in options if not re.search(rf"(^|[\s,]){re.escape(option)}([\s,=\[]|$)", text)]


def test_every_call_is_one_that_the_cli_takes():
    calls = told()
    assert len(calls) > 10, "pages call pulumi"
    assert [f"{place}: {' '.join(words)}: {fault}" for place, words in calls for fault in faults(words)] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pulumi deployment run update -s prod", []),
        ("pulumi deployment settings push", ["deployment settings push"]),
        ("pulumi -C deployments up -s main", []),
        ("pulumi up --stak prod", ["--stak"]),
        ("pulumi deploy prod", ["deploy"]),
        ("pulumi env run a/b -- sh -c true", []),
        ("pulumi config set --secret a < b", []),
    ],
)
def test_a_command_or_option_that_the_cli_lacks_is_found(line, wrong):
    (words,) = commands(line, "pulumi")
    assert faults(words) == wrong
