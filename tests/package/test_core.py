"""What `uvx gpu-ci audit .` downloads: the wheel and its dependencies without an extra, each in its largest form."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.package.wheel import built

LOCK = ROOT / ".ci" / "requirements" / "core.txt"
SIZES = Path(__file__).with_name("core_wheels.csv")
MOST = 12_000_000
"""Bytes. Today 9.2 MB; it may only fall."""


def locked() -> dict[str, str]:
    """Version by name."""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", LOCK.read_text(), re.MULTILINE))


def recorded() -> list[dict[str, str]]:
    with SIZES.open() as file:
        return list(csv.DictReader(file))


def test_the_core_downloads_at_most_12_mb(tmp_path):
    assert {row["package"]: row["version"] for row in recorded()} == locked(), (
        "GPU_CI_NETWORK=1 GPU_CI_RENEW=1 pytest tests/package/test_core.py"
    )
    wheel = built(tmp_path).stat().st_size
    total = wheel + sum(int(row["bytes"]) for row in recorded())
    assert wheel > 1_000_000
    assert total <= MOST, f"{total:,} bytes"


def test_the_core_has_the_versions_of_the_whole():
    whole = (ROOT / "requirements.txt").read_text()
    for name, version in locked().items():
        # A package of one system alone may be in one of the locks.
        assert f"\n{name}=={version} " in f"\n{whole}" or name == "colorama", "make lock"


def test_each_file_of_the_core_has_a_hash():
    entries = re.split(r"^(?=[\w-]+==)", LOCK.read_text(), flags=re.MULTILINE)[1:]
    assert len(entries) > 10
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.network
@pytest.mark.skipif(os.environ.get("GPU_CI_NETWORK") != "1", reason="GPU_CI_NETWORK=1 is not set: no network")
def test_the_recorded_sizes_are_those_of_the_index(tmp_path):
    lock = tmp_path / "pylock.toml"
    command = [str(ROOT / ".venv/bin/uv"), "pip", "compile", "-q", "--universal", "--python-version", "3.11", "-c", str(LOCK)]
    subprocess.run([*command, "--format", "pylock.toml", "-o", str(lock), "pyproject.toml"], cwd=ROOT, check=True)
    hashes = LOCK.read_text()
    rows = []
    for package in tomllib.loads(lock.read_text())["packages"]:
        wheels = [wheel for wheel in package["wheels"] if wheel["hashes"]["sha256"] in hashes]
        rows.append([package["name"], package["version"], str(max(wheel["size"] for wheel in wheels))])
    if os.environ.get("GPU_CI_RENEW") == "1":
        with SIZES.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["package", "version", "bytes"], *rows])
    assert [[*row.values()] for row in recorded()] == rows
