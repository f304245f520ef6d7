"""`python -m gpu_ci.submit`."""

from fleet.facts.streams import safe_streams
from gpu_ci.submit.cli import app

with safe_streams():
    app(prog_name="python -m gpu_ci.submit")
