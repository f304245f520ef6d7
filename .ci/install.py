"""Installs a hashed lock into .venv: `.venv/bin/python .ci/install.py LOCK`, from the repository's root.

uv installs the packages, because it is much faster than pip. The script uses the uv on PATH. Without one, pip first installs the
uv that .ci/requirements/dev.txt locks. uv reads neither pip.conf nor PIP_* (docs.astral.sh/uv/pip/compatibility), so the script
passes pip's index, certificate and links to it. If uv cannot install the packages, pip does. The script uses only the standard
library, because nothing is installed yet. At the end it writes .venv/bin/gpu-ci.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

VENV = Path(".venv")
PYTHON = str(VENV / "bin" / "python")
UNFINISHED = VENV / "unfinished"
"""This file exists during an installation. An interrupted one leaves packages that look complete to pip and uv."""
FOR_UV = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "cert": "SSL_CERT_FILE"}
"""By setting of pip: the variable of uv with the same meaning, and the separator of several values in it."""
QUIET = [] if sys.stderr.isatty() else ["--quiet"]


def run(*command: str, environment: dict[str, str] | None = None) -> bool:
    """Whether a command succeeds. Its output goes to stderr, because stdout is for the plan."""
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode == 0  # noqa: S603 - no shell


def pip(lock: str, *options: str) -> bool:
    return run(PYTHON, "-m", "pip", "install", *QUIET, "--disable-pip-version-check", "--require-hashes", *options, "-r", lock)


def pip_settings() -> dict[str, str]:
    """pip's settings by name. A variable wins over the section [install] of a file, and that section wins over [global]."""
    command = [PYTHON, "-m", "pip", "config", "list"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 - no shell
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return {
        key.removeprefix(f"{place}."): str(ast.literal_eval(value))
        for place in ("global", "install", ":env:")
        for key, value in found.items()
        if key.startswith(f"{place}.")
    }


def find_uv() -> str | None:
    """The uv to run; None if there is none for this machine."""
    own = VENV / "bin" / "uv"
    if (found := shutil.which("uv")) or own.exists():
        return found or str(own)
    if (row := re.search(r"^uv==(?:.*\\\n)*.*", Path(".ci/requirements/dev.txt").read_text(), re.MULTILINE)) is None:
        return None
    lock = VENV / "uv.txt"
    lock.write_text(f"{row[0]}\n")
    return str(own) if pip(str(lock), "--only-binary", ":all:") else None


def with_uv(lock: str, again: bool) -> bool:
    settings = pip_settings()
    if "no-index" in settings or (uv := find_uv()) is None:
        return False
    # Like pip, search all indexes for the version that the lock names. The hashes of the lock prove that it is the right file.
    environment = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, variable in FOR_UV.items():
        if values := settings.get(name, "").split():
            environment[variable] = ("," if name == "find-links" else " ").join(values)
    command = [uv, "pip", "install", *QUIET, "--python", PYTHON, "--require-hashes", *(["--reinstall"] if again else [])]
    return run(*command, "-r", lock, environment=environment | os.environ)


def write_command() -> None:
    """Write .venv/bin/gpu-ci, which runs the program of this folder. No build and no index is needed for that."""
    command = VENV / "bin" / "gpu-ci"
    words = (str(Path(PYTHON).absolute()), str(Path("gpu_ci").absolute()))
    command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    command.chmod(0o755)


def main(lock: str) -> int:
    again = UNFINISHED.exists()
    UNFINISHED.touch()
    if not with_uv(lock, again):
        sys.stderr.write("uv could not install the packages; trying pip, which takes longer\n")
        if not pip(lock, *(["--ignore-installed"] if again else [])):
            return 1
    UNFINISHED.unlink(missing_ok=True)
    write_command()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
