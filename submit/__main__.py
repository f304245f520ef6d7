"""`python -m submit`."""

from fleet.facts.streams import safe_streams
from submit.cli import app

with safe_streams():
    app(prog_name="python -m submit")
