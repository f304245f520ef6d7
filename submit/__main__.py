"""`python -m submit`."""

from submit.cli import app

app(prog_name="python -m submit")
