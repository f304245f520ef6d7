"""The table of programs in docs/world.md is made from fleet/facts/data/world.toml."""

from __future__ import annotations

from gpu_ci.world.get import PROGRAMS, Program
from tests.docs.markdown import ROOT, assert_written


def row(program: Program) -> str:
    """A row of the table."""
    image, size = program.reference.partition("@")[0], str(program.mib or "unknown")
    way = f"`{image}`" if image else "release" if program.url else f"build it: `{program.by_hand('amd64')}`"
    return f"| [{program.name}]({program.page}) | {program.release} | {way} | {size} | {program.memory} |\n"


def test_the_page_has_every_program_and_where_it_comes_from():
    head = "| program | version | `--get` takes it from | MiB to download | MiB of memory |\n|---|---|---|---|---|\n"
    assert_written(ROOT / "docs/world.md", "programs:world", head + "".join(map(row, PROGRAMS.values())))
