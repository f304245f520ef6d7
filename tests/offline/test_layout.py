"""A plan fits the terminal, and no name in it is cut: not at 80, 100, 120 or 160 columns, and not in a pipe."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import NoReturn

import pytest
from hypothesis import given, strategies as st

from fleet.loading.home import ROOT
from gpu_ci.__main__ import main
from gpu_ci.app import console as stdout_console
from gpu_ci.offline import words
from gpu_ci.offline.data import to_json
from gpu_ci.offline.judge import ENDED
from gpu_ci.offline.layout import MaskingConsole, show_line, show_table
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.report import report
from policies.rules.rule import Level
from tests.offline import rendered

STACKS = {
    "staging": None,
    "prod": None,
    "gpu-work": ROOT / "examples" / "Pulumi.gpu-work.yaml",
    "homelab": None,
}
WIDTHS = (80, 100, 120, 160, None)
"""Columns of the terminal; None for a pipe."""
ENDS = (80, 160, None)
"""Of stacks whose tables and lists are as staging's: with the least and the most room."""


def plan_of(stack: str) -> Plan:
    return rendered.plan_of(stack, STACKS[stack])


@cache
def lines(stack: str, width: int | None, verbose: bool = False) -> list[str]:
    """What a terminal shows of a stack. It must not be changed."""
    console = stdout_console() if width is None else MaskingConsole(width=width)
    with console.capture() as captured:
        report(plan_of(stack), console, verbose=verbose)
    return captured.get().splitlines()


def ids(plan: Plan) -> Iterator[str]:
    """Every name that a plan shows by default."""
    for name, cluster in plan.fleet.clusters_by_name():
        yield from cluster.pools
        yield from (f"{name}/{runner_set}" for runner_set in cluster.runners)
    for found in plan.placements:
        yield from (fit.machine.name for fit in found.fits)
        yield from found.runner.labels
    hidden = ("not-applicable", ENDED)
    yield from (verdict.rule for verdict in plan.verdicts if verdict.kind not in hidden)


def ids_of_details(plan: Plan) -> Iterator[str]:
    """The names that -v lists: policies, and the resources that have children, so each has a line of its own."""
    parents = {resource.parent for resource in plan.resources}
    yield from (resource.name for resource in plan.resources if resource.urn in parents)
    yield from (found.rule for found in plan.outcomes())


def assert_fits(shown: list[str], width: int | None) -> None:
    for line in shown:
        # Only a name that is longer than the terminal is wide may be longer than a line.
        assert len(line) <= (width or 160) or len(line.strip(" │├└─").split()) == 1, line
        assert "\x1b" not in line


def words_of(shown: list[str]) -> set[str]:
    return {word.strip(",:;|()") for line in shown for word in line.split()}


@pytest.mark.parametrize("stack", STACKS)
def test_every_name_is_whole_and_no_line_is_longer_than_the_terminal(stack: str) -> None:
    names = set(ids(plan_of(stack)))
    for width in WIDTHS if stack == "staging" else ENDS:
        shown = lines(stack, width)
        assert_fits(shown, width)
        assert names - words_of(shown) == set(), width


@pytest.mark.parametrize("stack", STACKS)
def test_every_name_of_the_details_is_whole(stack: str) -> None:
    names = set(ids_of_details(plan_of(stack)))
    for width in (80, 120, None) if stack == "staging" else (80, None):
        shown = lines(stack, width, verbose=True)
        assert_fits(shown, width)
        assert names - words_of(shown) == set(), width


def test_the_types_that_no_policy_judges_are_counted() -> None:
    plan = plan_of("staging")
    network = next(each for each in plan.policies if each.policy.id == "no-node-ssh")
    known = next(each for each in plan.policies if each.policy.id == "known-types")
    assert not [token for token in plan.types if token.startswith("gpu-ci:")], "a component is judged by what it makes"
    judged = replace(plan, policies=(network, known)).types
    counted = {token for token in judged if judged[token]}
    assert "aws:eks/nodeGroup:NodeGroup" in counted
    assert counted == {token for token in judged if network.policy.judges(token)}, "to be known is not to be judged"
    off = replace(plan, policies=(network._replace(level=Level.DISABLED), known))
    count = len(judged)
    told = f"No policy judges {count} of {count} types of resources (aws:autoscaling/tag:Tag, and {count - 1} more)"
    assert words.unread(off, 1) == told
    assert words.unread(replace(plan, recording=None)) == ""
    assert words.unread(plan) in " ".join(" ".join(lines("staging", None)).split())
    assert json.loads(to_json(plan))["typesJudged"] == plan.types


def test_resources_and_policies_are_one_line_each_unless_they_are_asked_for() -> None:
    brief, whole = lines("staging", 120), lines("staging", 120, verbose=True)
    count = len(plan_of("staging").resources)
    assert f"Resources: {count} (-v lists them)" in brief
    assert next(line for line in brief if line.startswith("Policies: ")).endswith(" disabled (-v lists them)")
    assert not [line for line in brief if "gpu-limits-required" in line]
    assert f"Resources: {count}" in whole
    assert [line for line in whole if line.startswith("gpu-limits-required")]
    assert len(brief) < len(whole) / 2
    assert brief[1].startswith("OK · ")
    for shown in (brief, whole):
        last = len(shown) - shown[::-1].index(brief[1]) - 1
        assert shown[last:] == shown[1 : 1 + len(shown) - last], "the result is first and last"


def test_a_narrow_terminal_gets_a_list_and_a_wide_one_a_table() -> None:
    wide, narrow = lines("staging", 120), lines("staging", 80)
    assert [line for line in wide if line.startswith("usw2/gpu-t4  ") and "t4-spot" in line]
    start = narrow.index("usw2/gpu-t4")
    assert narrow[start + 1].startswith("  runs-on: gpu-t4, self-hosted, linux")


_CELL = st.lists(st.text("abc-.0", min_size=1, max_size=25), min_size=1, max_size=6).map(" ".join)


@given(st.integers(20, 200), st.lists(st.tuples(_CELL, _CELL, _CELL, _CELL), min_size=1, max_size=4))
def test_a_table_of_any_texts_keeps_every_word_and_the_width(width: int, rows: list[tuple[str, ...]]) -> None:
    console = MaskingConsole(width=width)
    with console.capture() as captured:
        show_table(console, ("=name", "what", ">count", "note"), rows, total=("total", "", "", ""))
    shown = captured.get().splitlines()
    assert_fits([line.rstrip() for line in shown], width)
    words = [word.rstrip(";") for line in shown for word in line.split()]
    for word in {word for row in rows for cell in row for word in cell.split()}:
        assert word in words


def test_a_credential_is_masked_before_a_line_is_wrapped() -> None:
    console = MaskingConsole(width=30)
    with console.capture() as captured:
        show_line(console, "a token https://user:hunter2 hunter3@example.com ghp_abcdefghijklmnopqrstuvwxyz0123456789 here")
    assert "ghp_" not in captured.get()


# -- no escape sequences -----------------------------------------------------------------------------------------------


_READ_AGAIN = ("typer", "gpu_ci.app", "gpu_ci.cli", "gpu_ci.offline.commands")
"""Modules that read the environment when they are loaded, and those that use them."""


def on_a_terminal(environment: dict[str, str], *arguments: str, columns: int = 80) -> str:
    """All output of a command on a terminal with this width. It runs in a fork, which has the plan's recording already."""
    sys.stdout.flush()
    child, leader = pty.fork()
    if not child:
        _run(environment, arguments, columns)
    shown = b""
    # Linux: reading fails when the other side is closed.
    with suppress(OSError):
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    os.waitpid(child, 0)
    return shown.decode()


def _run(environment: dict[str, str], arguments: tuple[str, ...], columns: int) -> NoReturn:
    """Be the command."""
    try:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        for key in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"):
            os.environ.pop(key, None)
        os.environ.update(environment)
        for name in [name for name in sys.modules if name.startswith(_READ_AGAIN)]:
            del sys.modules[name]
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["gpu-ci", *arguments]
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (("plan", "homelab", "-v"), {"NO_COLOR": "1", "TERM": "xterm-256color"}),
        (("plan", "homelab"), {"TERM": "dumb"}),
        # These are typer's own.
        (("--help",), {"NO_COLOR": "no", "TERM": "xterm"}),
        (("plan",), {"NO_COLOR": "1", "TERM": "xterm"}),
    ],
)
def test_without_color_a_terminal_gets_no_escape_sequence(command: tuple[str, ...], environment: dict[str, str]) -> None:
    shown = on_a_terminal(environment, *command)
    assert len(shown) > 50
    assert "\x1b" not in shown


def test_a_terminal_with_color_gets_color_and_its_own_width() -> None:
    shown = on_a_terminal({"TERM": "xterm-256color", "NO_COLOR": ""}, "plan", "homelab", columns=90)
    assert "\x1b[1;32mOK · " in shown, "an empty NO_COLOR is none"
    assert max(len(line) for line in shown.splitlines()) > 80
