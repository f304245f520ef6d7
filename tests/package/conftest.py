"""One plugin for all tests of a process: its start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.package.plugin import Plugin, started


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    with started(tmp_path_factory.mktemp("plugin")) as running:
        yield running
