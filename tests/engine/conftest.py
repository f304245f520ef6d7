"""Level 5: the real engine with simulated providers. Without a `pulumi` on PATH its tests are skipped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import pytest

from gpu_ci.offline.recording import Recording
from tests.engine import staging
from tests.engine.cli import Outcome
from tests.engine.staging import Deployment, Site
from tests.engine.verdicts import STREAMED


def _missing() -> str:
    if shutil.which("pulumi") is None:
        return "no pulumi CLI on PATH"
    if sys.prefix == sys.base_prefix:
        return "not in a virtual environment, which the CLI's Python needs to be given"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need the CLI if it is missing, and gives the others a longer time limit."""
    reason = _missing()
    for item in items:
        if item.get_closest_marker("engine") is None:
            continue
        item.add_marker(pytest.mark.timeout(900))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The staging stack, not yet deployed."""
    with staging.built(tmp_path_factory.mktemp("engine")) as built:
        yield built


@pytest.fixture(scope="session")
def plan(site: Site) -> Recording:
    """What the offline plan has of it."""
    return staging.recorded(site.cli.folder)


@pytest.fixture(scope="session")
def previewed(site: Site) -> Outcome:
    """Its first preview, as events."""
    return site.cli.having(**STREAMED)(*staging.PREVIEW, "--json")


@pytest.fixture(scope="session")
def update(site: Site, previewed: Outcome) -> Deployment:
    """Its first update. After the preview, which is to see an empty stack."""
    site.up()
    return site.deployment()
