"""`gpu-ci settings` and `schema`: the pages of the settings, and the JSON Schema of stack files."""

import sys

from fleet.facts.errors import reachable
from gpu_ci.app import DOCUMENT, Folder, app
from gpu_ci.offline.settings.page import pages
from gpu_ci.offline.settings.schema import schema_text


@app.command(rich_help_panel=DOCUMENT)
def schema() -> None:
    """Print schema/stack.schema.json: the JSON Schema of stack files, for editors."""
    sys.stdout.write(schema_text())


@app.command(rich_help_panel=DOCUMENT)
def settings(out: Folder) -> None:
    """Write settings.md, with the settings to begin with, and in settings/ the pages with every key of a stack file."""
    with reachable(f"--out: {out} cannot be written", "name a folder that can"):
        (out / "settings").mkdir(parents=True, exist_ok=True)
        for page, text in pages().items():
            (out / page).write_text(text, encoding="utf-8")
