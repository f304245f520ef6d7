"""`python -m offline`."""

import gc

# Importing the SDKs makes many lasting objects and no garbage; looking for it all the same takes a quarter of a plan.
gc.set_threshold(100_000, 50, 1000)

from offline.cli import app  # noqa: E402 - the setting is for this import

app(prog_name="python -m offline")
