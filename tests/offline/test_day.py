"""The day of a plan: the option, else the variable, else the clock, which nothing else reads."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from tests.day import AS_OF

ROOT = Path(__file__).resolve().parents[2]


def test_the_option_comes_before_the_variable_and_the_variable_before_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert day_of("2027-09-01") == date(2027, 9, 1)
    assert day_of() == AS_OF, "tests/conftest.py sets it"
    monkeypatch.delenv("GPU_CI_AS_OF")
    before = date.today()
    assert before <= day_of() <= date.today()


@pytest.mark.parametrize("text", ["20261122", "2026-02-30", "9999-12-31", "tomorrow", ""])
def test_what_is_not_a_day_is_wrong_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"--as-of: must be a day before the year 3000 as YYYY-MM-DD; got {text!r}; correct it"):
        day_of(text)
    monkeypatch.setenv("GPU_CI_AS_OF", text or "x")
    with pytest.raises(InputError, match="GPU_CI_AS_OF: must be a day before the year 3000"):
        day_of()


def test_nothing_else_reads_the_day_of_the_clock() -> None:
    """So that a plan of next year is the plan that next year prints. Machines, sweeps and acceptance run on that day."""
    found = {
        str(path.relative_to(ROOT))
        for folder in ("fleet", "components", "policies", "gpu_ci")
        for path in (ROOT / folder).rglob("*.py")
        if not {"machine", "sweeps", "acceptance"} & {*path.parts}
        # Parsing takes most of the time.
        if re.search(r"\b(today|now|utcnow)\b", text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in ("today", "now", "utcnow")
    }
    # A report of queue times counts the hours that have passed, and a world writes times as a kubelet does.
    assert found == {"fleet/facts/day.py", "gpu_ci/offline/commands/why.py", "gpu_ci/world/plane.py"}
