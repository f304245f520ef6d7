"""`gpu-ci settings` and `schema`: the page docs/settings.md, and the JSON Schema of stack files."""

from __future__ import annotations

import sys

from gpu_ci.app import DOCUMENT, app
from gpu_ci.offline.settings.page import page
from gpu_ci.offline.settings.schema import schema_text


@app.command(rich_help_panel=DOCUMENT)
def schema() -> None:
    """Print schema/stack.schema.json: the JSON Schema of stack files, for editors."""
    sys.stdout.write(schema_text())


@app.command(rich_help_panel=DOCUMENT)
def settings() -> None:
    """Print docs/settings.md: every key of a stack file with its meaning, unit, default and an example."""
    sys.stdout.write(page())
