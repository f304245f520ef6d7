"""`--processes`: what several processes run is reported as by one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.builders import ROOT
from tests.cases import naming
from tests.warm import FORKED

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


# One process loads pytest for every run.
RUNS = f"""
{FORKED}
import pytest
folder, *runs = json.loads(sys.argv[1])
os.chdir(folder)
print(json.dumps([forked(lambda: sys.exit(pytest.main(options)))[:2] for options in runs]))
"""


def run(folder: Path, files: dict[str, str], *runs: tuple[str, ...]) -> list[tuple[int, str]]:
    """For each run, the status of pytest with these options on the files, and what it prints."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    usual = ("-p", "tests.processes", "-p", "no:cacheprovider", "-qra", "--processes", "2")
    command = [sys.executable, "-c", RUNS, json.dumps([str(folder), *((*usual, *options) for options in runs)])]
    # Plugins of others would take most of the time.
    environment = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=100)
    return [(status, output) for status, output in json.loads(done.stdout)]


KILLED = "import os\ndef test_killed(): os.kill(os.getpid(), 9)"
SUMMARY = "2 failed, 5 passed, 1 skipped, 1 xfailed, 1 xpassed, 2 errors, 2 subtests passed"
EXPECTED: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {
    ("test_ends.py", "test_import.py", "inner"): (
        1,
        (
            SUMMARY,
            "SKIPPED [1] test_ends.py:14: a reason",
            "ModuleNotFoundError: No module named 'no_such_module'",
            "ERROR test_ends.py::test_end - OSError: at the end",
            "FAILED test_ends.py::test_number[2] - AssertionError: three of them",
            "SUBFAILED(part='1') test_ends.py::test_parts - assert 1 != 1",
            "what a test says",
        ),
    ),
    ("--ignore", "test_import.py", "--ignore", "killed", "-k", "good", "."): (0, ("1 passed in",)),
    ("-x", "test_ends.py"): (1, ("stopping after 1 failures",)),
    ("-k", "no_such_test", "inner"): (5, ("no tests ran",)),
    ("--processes", "1", "inner"): (0, ("1 passed in",)),
    ("killed", "inner"): (1, ("a process ended with status -9 in the tests of killed/test_killed.py",)),
}
"""By pytest's options: the status and lines of the output."""


def test_outcomes_are_reported_pytests_own_options_hold_and_a_killed_process_fails_the_run(tmp_path: Path) -> None:
    told = run(tmp_path, FILES | {"killed/test_killed.py": KILLED}, *EXPECTED)
    for (options, (status, lines)), (ended, output) in zip(EXPECTED.items(), told, strict=True):
        with naming(options):
            assert ended == status, output
            assert [line for line in lines if line not in output] == [], output
