"""The page of example plans shows what the command really prints. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offline.cli import app
from tests.docs.markdown import assert_written

PAGE = Path(__file__).resolve().parents[2] / "docs" / "example-plans.md"


def plan(stack: str) -> list[str]:
    """The lines that the command prints, without spaces at their ends."""
    return [line.rstrip() for line in CliRunner().invoke(app, ["plan", stack]).stdout.splitlines()]


def verdict(lines: list[str]) -> str:
    """The last line, without how many policies there are."""
    return re.sub(r"policies: [^;]*;", "policies: …;", lines[-1])


def placement(lines: list[str]) -> list[str]:
    """Of a long plan where its runners land, and its verdict."""
    start = lines.index("Placement")
    return [*lines[start : lines.index("", start) + 1], verdict(lines)]


def whole(lines: list[str]) -> list[str]:
    """The plan with one line for all policies, so that a new policy changes nothing here."""
    assert lines[-1].startswith("OK: "), "every policy holds"
    start = lines.index("Policies") + 2
    return [
        *lines[:start],
        "… one line for each policy: its level and severity, and how many resources it judged",
        "",
        verdict(lines),
    ]


SHOWN: dict[str, Callable[[list[str]], list[str]]] = {"staging": whole, "prod": placement, "homelab": placement}
"""Stacks that the page shows, and how much of each plan."""


@pytest.mark.parametrize("stack", SHOWN)
def test_the_plan_on_the_page_is_the_plan(stack):
    block = "```text\n" + "\n".join(SHOWN[stack](plan(stack))) + "\n```\n"
    assert_written(PAGE, f"plan:{stack}", block)
