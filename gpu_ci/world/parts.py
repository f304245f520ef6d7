"""The programs that a world is made of: which are on this machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.tables import toml

_VERSION = re.compile(r"v?\d+\.\d+\.\d+\S*")
OPTIONAL: dict[str, str] = {name: row["without"] for name, row in toml("world.toml")["programs"].items() if "without" in row}
"""Programs that may be missing, and what that means."""
NEEDED = tuple(name for name in toml("world.toml")["programs"] if name not in OPTIONAL)
"""Programs without which no world starts."""


class Parts(dict[str, str]):
    """The paths of the programs by name."""

    @property
    def missing(self) -> list[str]:
        """Needed programs that this machine does not have."""
        return [name for name in NEEDED if name not in self]

    def versions(self) -> dict[str, str]:
        """What the programs say of their version; those that say nothing are left out."""
        said = ((name, _VERSION.search(_said(path))) for name, path in self.items())
        return {name: match[0] for name, match in said if match is not None}

    def require(self) -> None:
        """Raise InputError if a needed program is missing."""
        if self.missing:
            raise InputError(f"programs: {', '.join(self.missing)} are not on PATH; `gpu-ci world --get` downloads or names each")


def _said(program: str) -> str:
    """What a program prints of its version, on its first line: others name compilers."""
    words = [program, "version", "--short"] if program.endswith("helm") else [program, "--version"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 - a part of the world
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0] if done.returncode == 0 else ""


def cache() -> Path:
    """The folder of downloaded programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-ci" / "world"


def find(folder: Path | None = None) -> Parts:
    """Search PATH, and then the folder of downloads."""
    path = os.pathsep.join([os.environ.get("PATH", ""), str(folder or cache())])
    named = ((name, shutil.which(name, path=path)) for name in (*NEEDED, *OPTIONAL))
    return Parts({name: place for name, place in named if place is not None})
