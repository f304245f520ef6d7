"""`python -m offline`."""

import atexit
import gc
import importlib.util
import sys

# Importing the SDKs creates many lasting objects and no garbage. Collections during the import would take a quarter of a plan.
# Later collections would take a tenth, and free little. The threshold still bounds the memory of a fleet of thousands of pools.
gc.set_threshold(4_000_000, 50, 1000)
# The interpreter would otherwise free them one by one when the process ends.
atexit.register(gc.freeze)

if importlib.util.find_spec("pulumi") is None:
    sys.stderr.write(f"error: {sys.executable} lacks the packages; run `make .venv/run` once, then .venv/bin/python -m offline\n")
    sys.exit(2)

from offline.cli import app  # noqa: E402 - the threshold is for this import

app(prog_name="python -m offline")
