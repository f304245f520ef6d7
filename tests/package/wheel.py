"""The wheel as pip unpacks it into an environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.builders import ROOT


def built(folder: Path) -> Path:
    """The wheel. Its build needs no network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("gpu_ci-*-py3-none-any.whl")
    return wheel


def unpacked(folder: Path) -> Path:
    """A folder like an environment's, with the built wheel in it."""
    wheel = built(folder)
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site
