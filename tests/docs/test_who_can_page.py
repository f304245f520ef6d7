"""`docs/who-can.md` has what each actor reaches in the shipped stacks, so a pull request shows what changes."""

from __future__ import annotations

import pytest

from gpu_ci.offline.gfm import table
from gpu_ci.offline.who_can import ACTORS, Reach, who_can
from tests.docs.markdown import ROOT, assert_written

PAGE = ROOT / "docs" / "who-can.md"


@pytest.mark.parametrize("stack", ["staging", "prod", "homelab"])
def test_the_page_has_what_the_command_says_of_each_shipped_stack(stack: str) -> None:
    assert_written(PAGE, f"who-can:{stack}", f"\n{table(Reach._fields, who_can(stack, ROOT))}\n\n")


def test_the_page_explains_each_actor() -> None:
    for actor in ACTORS:
        assert f"\n| {actor} | " in PAGE.read_text()
