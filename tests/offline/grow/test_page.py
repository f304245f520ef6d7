"""docs/grow.md shows what the commands print."""

from __future__ import annotations

import re
import shlex

from typer.main import get_command

from gpu_ci.cli import app
from gpu_ci.offline.grow.additions import add_region
from gpu_ci.offline.grow.removals import KINDS
from gpu_ci.offline.grow.stack import GrowingStack
from tests.builders import ROOT
from tests.offline.grow.conftest import Project

PAGE = (ROOT / "docs/grow.md").read_text()
FENCES = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(text)[1:] for language, text in FENCES if language == "sh"]
OUTPUT = [text.splitlines() for language, text in FENCES if language == "text"]


def test_the_output_of_add_is_what_it_prints(project: Project) -> None:
    done = project.run(*COMMANDS[0])
    *lines, question = OUTPUT[0]
    assert [line for line in lines if line not in done.stdout.splitlines()] == [], done.stdout
    assert question == "Write this? [y/n] (n):"


def test_the_output_of_remove_is_what_it_prints(project: Project) -> None:
    printed = project.run(*COMMANDS[1]).stdout.splitlines()
    assert [line for line in OUTPUT[2] if line not in printed] == [], printed
    done = project.run("remove", "pool", "staging", "t4-spot")
    assert done.stderr.splitlines() == OUTPUT[3]


def test_the_note_of_a_region_is_what_it_prints() -> None:
    grown = GrowingStack("staging", ROOT)
    add_region(grown, "usw2", "eu-west-1", None)
    assert grown.notes == OUTPUT[1]


def test_the_tables_have_every_command() -> None:
    group = get_command(app).commands  # type: ignore[attr-defined]
    for kind in group["add"].commands:
        assert f"| `gpu-ci add {kind} STACK " in PAGE
    for kind in KINDS:
        assert f"`gpu-ci remove {kind} STACK " in PAGE
