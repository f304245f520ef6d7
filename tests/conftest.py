"""What is the same in every test run: the examples of property tests (`make search` takes others), and the day of every plan."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import sys
from functools import cache, partial

import kubernetes_validate.utils
import pytest
import typer
import typer.testing
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.day import AS_OF
from tests.processes import pytest_addoption, pytest_collection, pytest_runtestloop  # noqa: F401 - hooks of pytest

# The modules of the SDKs last, and collections would go through them again and again: a sixth of the run.
gc.set_threshold(2_000_000, 50, 1000)
# A busy machine may be ten times slower: no test measures time by a deadline or by how long an example takes to draw.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("same", _PATIENT, derandomize=True, max_examples=20)
settings.register_profile("search", _PATIENT, derandomize=False, max_examples=400, print_blob=True)
settings.load_profile("same")
# It would read a megabyte of schemas and list their folder again for each object that it validates.
for _name in ("schema_contents", "all_versions", "major_minor"):
    setattr(kubernetes_validate.utils, _name, cache(getattr(kubernetes_validate.utils, _name)))
_get_command = typer.testing._get_command  # type: ignore[attr-defined]


@cache
def _commands(app: typer.Typer) -> object:
    """The tree of commands, made once and not for each call. The import registers every command, so that the tree is whole."""
    importlib.import_module("gpu_ci.cli")
    return _get_command(app)


setattr(typer.testing, "_get_command", _commands)  # noqa: B010 - no name of the module's types
_close = asyncio.Runner.close


def _close_and_forget(runner: asyncio.Runner) -> None:
    """Forget the tasks that are done, which the end of each later loop would go through."""
    _close(runner)
    tasks = getattr(asyncio.tasks, "_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks")
    tasks.difference_update([task for task in tasks if task.done()])


setattr(asyncio.Runner, "close", _close_and_forget)  # noqa: B010 - mypy takes no assignment to a method
os.environ["GPU_CI_AS_OF"] = AS_OF.isoformat()
# Without libyaml it would take eight times as long.
yaml.safe_load = partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

SUMMARY = "summary"
"""A property of a test: a line that the end of the run shows, whichever process ran the test."""


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """Hypothesis goes through all objects before its first example: draw that while there are few."""
    given(st.none())(lambda _: None)()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Collect what the file before left, while what this one imports is not yet there."""
    if isinstance(collector, pytest.Module):
        gc.collect()
        gc.freeze()


def pytest_collection_finish() -> None:
    """Let plans share their recordings, where a test makes a plan, and leave the modules to no collection."""
    if "gpu_ci.offline.plan" in sys.modules:
        from tests import plans

        plans.share()
    # What is imported stays: no later collection goes through it.
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect what is left, once: pytest would do it five times at its end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the lines."""
    for report in terminalreporter.getreports("passed"):
        for name, line in report.user_properties:
            if name == SUMMARY:
                terminalreporter.write_line(str(line))
