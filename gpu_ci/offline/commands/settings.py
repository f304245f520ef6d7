"""`gpu-ci settings` and `schema`: the pages of the settings, and the JSON Schema of stack files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.facts.errors import InputError
from gpu_ci.app import DOCUMENT, app, exit_status
from gpu_ci.offline.settings.page import pages
from gpu_ci.offline.settings.schema import schema_text


@app.command(rich_help_panel=DOCUMENT)
def schema() -> None:
    """Print schema/stack.schema.json: the JSON Schema of stack files, for editors."""
    sys.stdout.write(schema_text())


@app.command(rich_help_panel=DOCUMENT)
def settings(
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder: write settings.md and the pages in settings/ there.")
    ] = None,
) -> None:
    """Print docs/settings.md: the settings to begin with. With --out write it and the pages with every key of a stack file."""
    with exit_status():
        if out is None:
            sys.stdout.write(pages()["settings.md"])
            return
        try:
            (out / "settings").mkdir(parents=True, exist_ok=True)
            for page, text in pages().items():
                (out / page).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"--out: {out} cannot be written ({error.strerror or error}); name a folder that can") from error
