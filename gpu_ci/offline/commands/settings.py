"""`gpu-ci settings`: the page docs/settings.md."""

from __future__ import annotations

import sys

from gpu_ci.app import DOCUMENT, app


@app.command(rich_help_panel=DOCUMENT)
def settings() -> None:
    """Print docs/settings.md: every key of a stack file with its meaning, unit, default and an example."""
    from gpu_ci.offline.settings.page import page  # noqa: PLC0415 - it builds models that a plan does not need

    sys.stdout.write(page())
