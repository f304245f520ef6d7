"""The program `gpu-ci`; `python -m gpu_ci` is the same."""

import atexit
import gc
import importlib
import sys
from pathlib import Path

# In a clone our folders are beside this one. A wheel has them in one folder below it, so that nothing called `fleet`
# lands in somebody's environment.
_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(next(folder for folder in (_HERE / "_tree", _HERE.parent) if folder.is_dir())))
_DOCUMENTS = ("inventory", "policies", "policy-config", "policy-pack", "schema", "settings")
_MODULES = {
    "--version": "gpu_ci.app",
    "accept": "gpu_ci.acceptance.cli",
    "image": "gpu_ci.image",
    **dict.fromkeys(_DOCUMENTS, "gpu_ci.offline.commands.documents"),
    **dict.fromkeys(("smoke", "submit"), "gpu_ci.submit.cli"),
    "world": "gpu_ci.world.cli",
}
"""The module of each command that is in no file of its own name."""


def main() -> None:
    """Run the command that the arguments name."""
    # Importing the SDKs creates many lasting objects and no garbage. Collections during the import would take a quarter of a
    # plan. Later collections would take a tenth, and free little. The threshold still bounds the memory of thousands of pools.
    gc.set_threshold(2_000_000, 50, 1000)
    # The interpreter would otherwise free them one by one when the process ends.
    atexit.register(gc.freeze)
    try:
        from fleet.facts.streams import safe_streams  # noqa: PLC0415 - a bare clone lacks its packages

        with safe_streams():
            _import(sys.argv[1] if len(sys.argv) > 1 else "")

            from gpu_ci.app import app  # noqa: PLC0415 - after the command, which registers itself with it

            app(prog_name="gpu-ci")
    except ModuleNotFoundError as error:
        if error.name not in ("pydantic", "rich", "typer", "yaml"):
            raise
        sys.stderr.write(f"error: {sys.executable} lacks the packages; run `make .venv/run` once, then .venv/bin/gpu-ci\n")
        sys.exit(2)


def _import(command: str) -> None:
    """Import the module of the command: all of them would add 3 % to a plan. Help and typer's errors name every command."""
    name = command.replace("-", "_")
    of_file = name.isidentifier() and (_HERE / "offline" / "commands" / f"{name}.py").is_file()
    importlib.import_module(f"gpu_ci.offline.commands.{name}" if of_file else _MODULES.get(command, "gpu_ci.cli"))


if __name__ == "__main__":
    main()
