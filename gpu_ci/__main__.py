"""`python -m gpu_ci`."""

import atexit
import gc
import importlib.util
import pkgutil
import sys

from fleet.facts.streams import safe_streams

# Importing the SDKs creates many lasting objects and no garbage. Collections during the import would take a quarter of a plan.
# Later collections would take a tenth, and free little. The threshold still bounds the memory of a fleet of thousands of pools.
gc.set_threshold(4_000_000, 50, 1000)
# The interpreter would otherwise free them one by one when the process ends.
atexit.register(gc.freeze)

with safe_streams():
    if importlib.util.find_spec("pulumi") is None:
        sys.stderr.write(
            f"error: {sys.executable} lacks the packages; run `make .venv/run` once, then .venv/bin/python -m gpu_ci\n"
        )
        sys.exit(2)

    from gpu_ci.offline import commands

    # The other commands would add 3 % to a plan. Help and the errors of typer name every command.
    asked = sys.argv[1].replace("-", "_") if len(sys.argv) > 1 else ""
    known = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    importlib.import_module(f"{commands.__name__}.{asked}" if asked in known else "gpu_ci.offline.cli")

    from gpu_ci.offline.app import app

    app(prog_name="python -m gpu_ci")
