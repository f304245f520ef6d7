"""`offline policies`: the page docs/policies.md."""

from __future__ import annotations

import sys

from offline.app import DOCUMENT, app
from offline.policydocs import document


@app.command(rich_help_panel=DOCUMENT)
def policies() -> None:
    """Print docs/policies.md: every policy with its levels, reasons and fixes."""
    sys.stdout.write(document())
