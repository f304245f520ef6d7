"""`--processes`: what several processes run is reported as by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOT

ENDS = """
import pytest

@pytest.fixture
def broken_end():
    yield
    raise OSError("at the end")

@pytest.mark.parametrize("number", range(3))
def test_number(number):
    assert number < 2, "three of them"

def test_nothing():
    pytest.skip("a reason")

def test_parts(subtests):
    for part in range(3):
        with subtests.test(part=part):
            assert part != 1

def test_end(broken_end):
    print("what a test says")

@pytest.mark.xfail
def test_fails(): assert False

@pytest.mark.xfail
def test_passes(): pass
"""
FILES = {"test_ends.py": ENDS, "test_import.py": "import no_such_module", "inner/test_good.py": "def test_good(): pass"}


def run(folder: Path, files: dict[str, str], *options: str) -> tuple[int, str]:
    """The status of pytest on these files, and what it prints."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.processes", "-p", "no:cacheprovider", "-qra", *options]
    environment = {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_every_outcome_is_reported(tmp_path: Path) -> None:
    status, output = run(tmp_path, FILES, "--processes", "2", ".")
    assert status == 1
    summary = "2 failed, 5 passed, 1 skipped, 1 xfailed, 1 xpassed, 2 errors, 2 subtests passed"
    for line in (
        summary,
        "SKIPPED [1] test_ends.py:14: a reason",
        "ModuleNotFoundError: No module named 'no_such_module'",
        "ERROR test_ends.py::test_end - OSError: at the end",
        "FAILED test_ends.py::test_number[2] - AssertionError: three of them",
        "SUBFAILED(part='1') test_ends.py::test_parts - assert 1 != 1",
        "what a test says",
    ):
        assert line in output


@pytest.mark.parametrize(
    ("options", "status", "line"),
    [
        (("--ignore", "test_import.py", "-k", "good", "."), 0, "1 passed in"),
        (("-x", "test_ends.py"), 1, "stopping after 1 failures"),
        (("-k", "no_such_test", "inner"), 5, "no tests ran"),
        (("--processes", "1", "inner"), 0, "1 passed in"),
    ],
)
def test_pytests_own_options_hold(tmp_path: Path, options: tuple[str, ...], status: int, line: str) -> None:
    told, output = run(tmp_path, FILES, "--processes", "2", *options)
    assert told == status
    assert line in output


def test_a_process_that_ends_early_fails_the_run_and_names_its_file(tmp_path: Path) -> None:
    files = {"test_killed.py": "import os\ndef test_killed(): os.kill(os.getpid(), 9)", "test_good.py": "def test_good(): pass"}
    status, output = run(tmp_path, files, "--processes", "2", ".")
    assert status == 1
    assert "a process ended with status -9 in the tests of test_killed.py" in output
