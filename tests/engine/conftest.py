"""Level 5: the real engine with simulated providers. Without a `pulumi` on PATH its tests are skipped."""

from __future__ import annotations

import shutil
import sys

import pytest


def _missing() -> str:
    if shutil.which("pulumi") is None:
        return "no pulumi CLI on PATH"
    if sys.prefix == sys.base_prefix:
        return "not in a virtual environment, which the CLI's Python needs to be given"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs the CLI where it is not at hand, and gives the rest the time that it takes."""
    reason = _missing()
    for item in items:
        if item.get_closest_marker("engine") is None:
            continue
        item.add_marker(pytest.mark.timeout(900))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
