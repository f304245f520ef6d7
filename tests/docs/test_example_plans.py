"""The page of example plans shows what the command really prints. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpu_ci.cli import app
from tests.docs.markdown import assert_written

PAGE = Path(__file__).resolve().parents[2] / "docs" / "example-plans.md"
SMALL = PAGE.parents[1] / "examples" / "Pulumi.small.yaml"


def plan(stack: str, *options: str) -> list[str]:
    """The lines that the command prints, without how many policies there are and without spaces at their ends."""
    printed = CliRunner().invoke(app, ["plan", stack, *options]).stdout
    return [re.sub(r"(not judged: \d+ of )\d+(?= policies)", r"\1…", line.rstrip()) for line in printed.splitlines()]


def result(lines: list[str]) -> list[str]:
    """The first line of a plan for a person, with the lines on which it goes on."""
    return lines[len(lines) - next(number for number, line in enumerate(reversed(lines), 1) if line.startswith("OK")) :]


def placement(lines: list[str]) -> list[str]:
    """Of a long plan where its runners land, and its verdict."""
    start = lines.index("Placement")
    return [*lines[start : lines.index("", start) + 1], *result(lines)]


def whole(lines: list[str]) -> list[str]:
    """The plan without its policies, so that a new policy changes nothing here."""
    start = next(number for number, line in enumerate(lines) if line.startswith("Policies"))
    return [*lines[:start], "Policies", "…", "", *result(lines)]


SHOWN: dict[str, Callable[[list[str]], list[str]]] = {"staging": whole, "prod": placement, "homelab": placement}
"""Stacks that the page shows, and how much of each plan."""


@pytest.mark.parametrize("stack", SHOWN)
def test_the_plan_on_the_page_is_the_plan(stack):
    block = "```text\n" + "\n".join(SHOWN[stack](plan(stack))) + "\n```\n"
    assert_written(PAGE, f"plan:{stack}", block)


def test_the_small_fleet_on_the_page_is_the_example_with_its_plan():
    assert_written(PAGE, "file:small", f"```yaml\n{SMALL.read_text()}```\n")
    assert_written(PAGE, "plan:small", "```text\n" + "\n".join(placement(plan("small", "--file", str(SMALL)))) + "\n```\n")
