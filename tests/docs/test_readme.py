"""The README shows what the command really prints. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

from typer.testing import CliRunner

from offline.cli import app

README = Path(__file__).resolve().parents[2] / "README.md"
_BLOCK = re.compile(r"(<!-- plan:staging -->\n)(.*?)(<!-- /plan -->)", re.DOTALL)


def test_the_plan_in_the_readme_is_the_plan():
    printed = CliRunner().invoke(app, ["plan", "staging"]).stdout
    block = "```text\n" + "\n".join(line.rstrip() for line in printed.splitlines()) + "\n```\n"
    text = README.read_text()
    found = _BLOCK.search(text)
    assert found, "the README has a block for the staging plan"
    if os.environ.get("GPU_CI_RENEW"):
        README.write_text(text[: found.start(2)] + block + text[found.end(2) :])
        return
    assert found[2] == block, "out of date; renew it with: GPU_CI_RENEW=1 .venv/bin/python -m pytest tests/docs/test_readme.py"
