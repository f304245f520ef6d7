"""What tests of placement, rules and bills share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet import catalogue as fixed


@pytest.fixture(scope="module")
def catalogue() -> Iterator[None]:
    """The product reads the tests' own catalogue instead of its tables."""
    with fixed.in_use():
        yield


@pytest.fixture
def numbers() -> Iterator[None]:
    """As `catalogue`, for single tests of a module."""
    with fixed.in_use():
        yield
