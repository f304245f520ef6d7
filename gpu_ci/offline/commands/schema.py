"""`gpu-ci schema`: the JSON Schema of stack files."""

from __future__ import annotations

import sys

from gpu_ci.app import DOCUMENT, app


@app.command(rich_help_panel=DOCUMENT)
def schema() -> None:
    """Print schema/stack.schema.json: the JSON Schema of stack files, for editors."""
    from gpu_ci.offline.settings.schema import schema_text  # noqa: PLC0415 - it builds models that a plan does not need

    sys.stdout.write(schema_text())
