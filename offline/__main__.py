"""`python -m offline`."""

import atexit
import gc

# Importing the SDKs creates many lasting objects and no garbage. Collections during the import would take a quarter of a plan.
gc.set_threshold(100_000, 50, 1000)
# The interpreter would otherwise free them one by one when the process ends.
atexit.register(gc.freeze)

from offline.cli import app  # noqa: E402 - the threshold is for this import

app(prog_name="python -m offline")
