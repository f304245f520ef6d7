"""Where the output of a program goes never changes what its exit status says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).resolve().parent.parent.parent

PROGRAM = """
import sys
from fleet.facts.streams import safe_streams
with safe_streams():
    import warnings
    warnings.warn("a library's own", DeprecationWarning)
    print("\\u2264 0.75 USD", flush=True)
    print("progress", file=sys.stderr, flush=True)
    for line in range(STOP):
        print("x" * 1000, flush=True)
    sys.exit(3)
"""


@cases(
    ("redirection", "environment", "status", "out", "error"),
    [
        ("", {}, 3, "≤ 0.75 USD\n", "progress\n"),
        (">&-", {}, 3, "", "progress\n"),
        ("2>&-", {}, 3, "≤ 0.75 USD\n", ""),
        (">&- 2>&-", {}, 3, "", ""),
        ("2>/dev/full", {}, 3, "≤ 0.75 USD\n", ""),
        (
            ">/dev/full",
            {},
            2,
            "",
            "error: stdout: must be writable; got No space left on device; free space, or write elsewhere\n",
        ),
        (">/dev/full 2>/dev/full", {}, 2, "", ""),
        ("", {"PYTHONIOENCODING": "ascii"}, 3, "\\u2264 0.75 USD\n", "progress\n"),
        ("", {"PYTHONWARNINGS": "error"}, 3, "≤ 0.75 USD\n", "progress\n"),
    ],
)
def test_the_status_is_the_programs_own(redirection, environment, status, out, error):
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {redirection}', sys.executable, PROGRAM.replace("STOP", "0")],  # noqa: S607
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, out, error)


def test_a_reader_that_has_ended_is_no_failure_of_the_program():
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("STOP", "100_000")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b"progress\n"
    assert process.wait() == 141
