"""The wheel as pip unpacks it into an environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.builders import ROOT


def unpacked(folder: Path) -> Path:
    """A folder like an environment's, with the built wheel in it. The build needs no network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("gpu_ci-*-py3-none-any.whl")
    site = folder / "site"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)
    return site
