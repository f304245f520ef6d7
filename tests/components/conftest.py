"""Recordings of whole stacks, made once for all component tests."""

from __future__ import annotations

import pytest

from offline.record import Recording, record
from tests.components.recorded import ROOT, STACKS, stack_config


@pytest.fixture(scope="session", params=STACKS)
def recording(request: pytest.FixtureRequest) -> Recording:
    """Each stack of the project, in preview."""
    return record(ROOT / "__main__.py", stack_config(request.param))


@pytest.fixture(scope="session")
def staging() -> Recording:
    """The staging stack, in preview."""
    return record(ROOT / "__main__.py", stack_config("staging"))
