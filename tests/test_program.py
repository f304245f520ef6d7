"""`gpu-ci` as one program: commands that are alike take alike options, and each command loads only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from gpu_ci.cli import app
from tests.builders import ROOT

NO_STACK = ("probe", "policies", "policy-config", "policy-pack", "schema", "settings", "image build", "image test", "init")
"""Commands that read no stack: `init` takes the name of a new one."""
JOBS = "submit "
"""Its commands take a Job or the command of one, so the stack is an option there."""


def commands(group: Any = None, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


COMMANDS = dict(commands())


def options(command: Any) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Every spelling of an option, with what one has to know to write it."""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            for word in parameter.opts:
                yield (
                    word,
                    (parameter.help, str(parameter.bare_type()), parameter.is_flag, parameter.multiple, tuple(parameter.opts)),
                )


def unlike(found: dict[str, Any]) -> list[str]:
    """Options that two commands spell alike and mean differently."""
    meanings: dict[str, dict[tuple[object, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, command in found.items():
        for word, meaning in options(command):
            meanings[word][meaning].append(name)
    return [f"{word}: {list(by.values())}" for word, by in meanings.items() if len(by) > 1]


def test_an_option_means_the_same_in_every_command():
    assert len(COMMANDS) > 25
    assert unlike(COMMANDS) == []


def test_an_option_of_another_meaning_is_found():
    other = typer.Typer()
    other.command("one")(lambda: None)

    @other.command("two")
    def two(file: int = typer.Option(0, "--file")) -> None:
        pass

    assert unlike(COMMANDS | dict(commands(typer.main.get_command(other)))) != []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NO_STACK and not name.startswith(JOBS)])
def test_a_command_of_a_stack_takes_it_first_and_without_an_option(name):
    command = COMMANDS[name]
    assert "--stack" not in [word for word, _ in options(command)]
    first = next(parameter for parameter in command.params if parameter.param_type_name == "argument")
    assert first.name in ("stack", "stacks")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith(JOBS)])
def test_a_command_of_a_job_takes_no_stack_as_an_argument(name):
    assert "stack" not in [parameter.name for parameter in COMMANDS[name].params if parameter.param_type_name == "argument"]


def loaded(*words: str) -> set[str]:
    """Modules of a process that runs `gpu-ci` with these words."""
    program = (
        "import atexit, sys; from gpu_ci.__main__ import main\n"
        "atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stderr.splitlines()[-1]))


def test_a_command_loads_no_other_command():
    names = loaded("image", "matrix", "staging")
    assert "images.matrix" in names
    assert not {"pulumi", "kubernetes", "gpu_ci.offline.plan", "gpu_ci.submit.cli", "gpu_ci.acceptance.cli"} & names
    names = loaded("submit", "print", "--task-id", "a", "--image", "a:1")
    assert not {"pulumi", "kubernetes", "gpu_ci.offline.plan", "gpu_ci.image"} & names
