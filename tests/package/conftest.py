"""One plugin for all tests of a run: its start takes seconds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from tests.package.plugin import Plugin, opened, started


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """Started by the first process that needs it, which ends it when no other one uses it. All lock the file with its port."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "port").open("a+") as file:
        for lock in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            fcntl.flock(file, lock)
            file.seek(0)
            if port := file.read():
                fcntl.flock(file, fcntl.LOCK_SH)
                with opened(int(port)) as plugin:
                    yield plugin
                return
        with started(folder) as plugin:
            file.write(str(plugin.port))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_SH)
            yield plugin
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
