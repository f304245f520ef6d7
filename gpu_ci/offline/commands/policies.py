"""`gpu-ci policies`: the page docs/policies.md."""

from __future__ import annotations

import sys

from gpu_ci.app import DOCUMENT, app
from gpu_ci.offline.policydocs import document


@app.command(rich_help_panel=DOCUMENT)
def policies() -> None:
    """Print docs/policies.md: every policy with its levels, reasons and fixes."""
    sys.stdout.write(document())
