"""`python -m tests.bench` with options that it cannot take: status 2 and one sentence, before anything runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from tests.bench import __main__ as bench
from tests.builders import ROOT


@pytest.mark.parametrize("sizes", ["abc", "", "100,", "0", "-5", "1.5", "100,100", "1000,100", "1_0", "٣"])
def test_sizes_that_are_no_rising_numbers_are_a_usage_error(sizes):
    with pytest.raises(typer.BadParameter) as caught:
        bench._counts(sizes)
    assert caught.value.message == f"must be whole numbers of pools, each larger than the one before, as 100,1000; got {sizes!r}"


def test_sizes_are_numbers():
    assert bench._counts("5") == (5,)
    assert bench._counts("100, 1000,1001") == (100, 1000, 1001)


@pytest.mark.parametrize(("option", "value"), [("--sizes", "abc"), ("--rounds", "0")])
def test_a_usage_error_is_status_2_without_a_traceback(option, value):
    command = [sys.executable, "-m", "tests.bench", option, value]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert option in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "", "nothing was measured"
