"""`python -m tests.bench` with options that it cannot take: status 2 and one sentence, before anything runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

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


def test_a_usage_error_is_status_2_without_a_traceback():
    command = [sys.executable, "-m", "tests.bench", "--rounds", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert_usage_error("--rounds", done.returncode, done.stdout, done.stderr)
    app = typer.Typer()
    app.command()(bench.main)
    here = CliRunner().invoke(app, ["--sizes", "abc"])
    assert_usage_error("--sizes", here.exit_code, here.stdout, here.stderr)


def assert_usage_error(option, status, shown, error):
    assert status == 2, error
    assert option in error
    assert "Traceback" not in error
    assert shown == "", "nothing was measured"
