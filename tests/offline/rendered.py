"""Plans and renders each stack once for all tests that only read the plan, or where its files go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from fleet.loading.home import ROOT
from gpu_ci.offline import render as rendering
from gpu_ci.offline.commands import render as command
from gpu_ci.offline.plan import Plan, make_plan

_PLANS: dict[tuple[str, Path | None], Plan] = {}


def plan_of(stack: str, file: Path | None = None) -> Plan:
    """The plan of a stack of the project, or of an example's file."""
    if (stack, file) not in _PLANS:
        _PLANS[stack, file] = make_plan(stack, ROOT, file)
    return _PLANS[stack, file]


_render = rendering.rendered


@cache
def texts_of(stack: str) -> dict[str, str]:
    """The text of every file of that plan, by its path."""
    return _render(plan_of(stack))


@contextmanager
def rendered_once() -> Iterator[None]:
    """Let `gpu-ci render` use these plans and texts."""

    def texts(plan: Plan) -> dict[str, str]:
        return texts_of(plan.config.stack) if plan is _PLANS.get((plan.config.stack, None)) else _render(plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "make_plan", lambda stack, *_: plan_of(stack))
        patch.setattr(rendering, "rendered", texts)
        yield
