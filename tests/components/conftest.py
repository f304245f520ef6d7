"""Recordings of whole stacks, made once for all tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gpu_ci.offline.recording import Recording
from tests.components.recorded import STACKS, recorded


@pytest.fixture(scope="session", params=STACKS)
def recording(request: pytest.FixtureRequest) -> Recording:
    """Each stack of the project, in preview."""
    return recorded(request.param)


@pytest.fixture(scope="session")
def recordings() -> tuple[Recording, ...]:
    """All of them."""
    return tuple(map(recorded, STACKS))


@pytest.fixture(scope="session")
def staging() -> Recording:
    """The staging stack, in preview."""
    return recorded("staging")


@pytest.fixture(scope="session")
def prod() -> Recording:
    """The production stack, in preview."""
    return recorded("prod")


@pytest.fixture(scope="session")
def reserved() -> Recording:
    """The example with reserved capacity, in preview."""
    return recorded("reserved")


@pytest.fixture(scope="session")
def capacity_block() -> Recording:
    """The example with a capacity block, EFA, a placement group and nodeadm settings, in preview."""
    return recorded("capacity-block")


@pytest.fixture(scope="session")
def machines() -> Recording:
    """The example of what prod does not use of OCI, in preview."""
    return recorded("oci-machines")


@pytest.fixture
def loop() -> Iterator[None]:
    """An event loop for outputs outside of a program: one that ran before leaves none."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)
