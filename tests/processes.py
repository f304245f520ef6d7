"""`pytest --processes auto`: a process for each core, and each takes the next file of tests.

So one process alone imports a file, and a test that passes costs one short message. Without the option one process runs all.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from typing import Any
from unittest import mock

import pytest

_FORK = multiprocessing.get_context("fork")
Nodes = Sequence[pytest.Item | pytest.Collector]
_FILES = pytest.StashKey[Nodes]()
_SLOW = {"test_construct.py", "test_rules.py", "test_charts.py", "test_suites.py", "test_credentials.py"}
"""Files that take longest, whatever their size.

Not test_own_stacks.py: beside test_charts.py it would record the same stacks at the same time.
"""
_LONG = 1_000_000
_SHORT = 0.005
"""Seconds: no list of the slowest tests needs a set-up that is shorter."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--processes", default="1", metavar="N", help="run test files in N processes, or `auto`: one for each core")


def _count(config: pytest.Config) -> int:
    # syrupy writes what it was given when one process ends.
    number = "1" if config.getoption("update_snapshots", False) else config.getoption("processes")
    return (os.cpu_count() or 1) if number == "auto" else int(number)


def pytest_collection(session: pytest.Session) -> bool | None:
    """Find the files. The processes import them."""
    if _count(session.config) == 1 or session.config.option.collectonly:
        return None
    # It would import each file for its tests. The options choose tests, which a file has when it is imported.
    files = mock.patch.object(session, "genitems", _files)
    with files, mock.patch.multiple(session.config.option, keyword="", markexpr=""):
        session.stash[_FILES] = sorted(session.perform_collect(), key=_size, reverse=True)
    return True


def _files(node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item | pytest.Collector]:
    if isinstance(node, pytest.Directory):
        for child in node.ihook.pytest_make_collect_report(collector=node).result:
            yield from _files(child)
    else:
        yield node


def _size(node: pytest.Item | pytest.Collector) -> int:
    """The largest file is the first, because the last ones to end should be short."""
    return node.path.stat().st_size + _LONG * (node.path.name in _SLOW)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run every file in one of the processes, and report what they say as if this process had run it."""
    files = session.stash.get(_FILES, None)
    if files is None:
        return None
    next_file, processes = _FORK.Value("i", 0), {}
    for _ in range(min(_count(session.config), len(files))):
        here, there = _FORK.Pipe(duplex=False)
        processes[here] = _FORK.Process(target=_work, args=(session, files, next_file, there))
        processes[here].start()
        there.close()
    session.testscollected = 0
    try:
        for report in _reports(session, dict(processes)):
            # Not all of them, but none exactly if no test ran.
            session.testscollected += 1
            collected = isinstance(report, pytest.CollectReport)
            hook = session.config.hook
            (hook.pytest_collectreport if collected else hook.pytest_runtest_logreport)(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
    finally:
        for process in processes.values():
            process.terminate()
            process.join()
    return True


def _reports(session: pytest.Session, processes: dict[connection.Connection, ForkProcess]) -> Iterator[Any]:
    """What the processes send until each has ended."""
    files = dict.fromkeys(processes, "")
    while processes:
        for end in connection.wait(list(processes)):
            assert isinstance(end, connection.Connection)
            try:
                files[end], messages = end.recv()
            except EOFError:
                process = processes.pop(end)
                process.join()
                if process.exitcode:
                    session.shouldfail = f"a process ended with status {process.exitcode} in the tests of {files[end]}"
                    raise session.Failed(session.shouldfail) from None
            else:
                yield from (_opened(session.config, message) for message in messages)


def _opened(config: pytest.Config, message: Any) -> Any:
    if isinstance(message, dict):
        return config.hook.pytest_report_from_serializable(config=config, data=message)
    nodeid, location, when, duration, properties = message
    return pytest.TestReport(nodeid, location, {}, "passed", None, when, (), duration=duration, user_properties=properties)


# -- in a process ------------------------------------------------------------------------------------------------------


class _Reporter:
    """Sends the name of a file at its start, with the reports of the file before."""

    def __init__(self, config: pytest.Config, end: connection.Connection) -> None:
        self._config, self._end = config, end
        self._waiting: list[Any] = []

    def send(self, file: str) -> None:
        self._end.send((file, self._waiting))
        self._waiting = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if type(report) is not pytest.TestReport or not report.passed or hasattr(report, "wasxfail"):
            self._keep(report)
        elif report.when == "call" or report.duration > _SHORT:
            self._waiting.append((report.nodeid, report.location, report.when, report.duration, report.user_properties))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._keep(report)

    def _keep(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        self._waiting.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def _work(session: pytest.Session, files: Nodes, next_file: Any, end: connection.Connection) -> None:
    """Run the tests of one file after the other, of those that no other process has taken."""
    plugins = session.config.pluginmanager
    capture = plugins.getplugin("capturemanager")
    if capture is not None:
        # A file for what tests print belongs to one process.
        capture.stop_global_capturing()
        capture.start_global_capturing()
    plugins.unregister(name="terminalreporter")
    reporter = _Reporter(session.config, end)
    plugins.register(reporter)
    between = _Between.from_parent(session, name="between")
    with contextlib.suppress(KeyboardInterrupt):
        for file in _taken(files, next_file):
            reporter.send(file.nodeid)
            items = _tests(session, file)
            for item, following in zip(items, [*items[1:], between], strict=False):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        plugins.getplugin("runner").pytest_sessionfinish(session)
        reporter.send("")


class _Between(pytest.Item):
    """What follows the last test of a file: fixtures of the session stay, and those of the file end before the next import."""

    def runtest(self) -> None:
        """Nothing."""


def _taken(files: Nodes, next_file: Any) -> Iterator[pytest.Item | pytest.Collector]:
    while True:
        with next_file.get_lock():
            index = next_file.value
            next_file.value += 1
        if index >= len(files):
            return
        yield files[index]


def _tests(session: pytest.Session, file: pytest.Item | pytest.Collector) -> list[pytest.Item]:
    items = list(session.genitems(file))
    hook = session.config.hook
    hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
    hook.pytest_collection_finish(session=session)
    return items
