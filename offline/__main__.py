"""`python -m offline`."""

from offline.cli import app

app(prog_name="python -m offline")
