"""Runs `gpu-ci submit` in forks of one process, because loading the program and its client takes more than a second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.builders import ROOT
from tests.submit.life import until

_PARENT = """
import functools, json, os, pathlib, runpy, signal, sys
import gpu_ci.submit.cli, gpu_ci.submit.kubeconfig
from gpu_ci.submit.runs import RunOptions, Timing
# A command has two seconds between two looks, and no option for them.
gpu_ci.submit.cli.RunOptions = functools.partial(RunOptions, timing=Timing(poll=0.04))
# A shell starts background processes with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("loaded", flush=True)
for line in sys.stdin:
    words, home = json.loads(line)
    folder = pathlib.Path(home)
    pid = os.fork()
    if not pid:
        os.environ.clear()
        os.environ["HOME"] = home
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["gpu-ci", "submit", *words]
        runpy.run_module("gpu_ci", run_name="__main__")
    (folder / "pid").write_text(str(pid))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    (folder / "status").write_text(f"{status}.")
"""


class Command:
    """A command that runs; its files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _text(self, name: str) -> str:
        path = self._folder / name
        return path.read_text() if path.exists() else ""

    @property
    def logs(self) -> str:
        """What it has written to stdout."""
        return self._text("stdout")

    @property
    def progress(self) -> str:
        """What it has written to stderr."""
        return self._text("stderr")

    def send_signal(self, sign: int) -> None:
        """Send it a signal."""
        os.kill(int(self._text("pid")), sign)

    def wait(self) -> int:
        """Its exit status."""
        until(lambda: self._text("status").endswith("."))
        return int(self._text("status").removesuffix("."))


class Commands:
    """The process that starts commands, one at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _PARENT]
        self._parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._parent.stdout is not None
        assert self._parent.stdout.readline() == "loaded\n"

    def start(self, folder: Path, *words: str) -> Command:
        """Start `gpu-ci submit` with these words; its HOME and its output are in `folder`."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(f"{json.dumps([words, str(folder)])}\n")
        self._parent.stdin.flush()
        return Command(folder)

    def close(self) -> None:
        """End the process."""
        self._parent.communicate()
