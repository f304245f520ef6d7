"""A command on a terminal: it runs in a fork, which has the modules and the recordings of this process already."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from gpu_ci.__main__ import main

_READ_AGAIN = ("typer", "gpu_ci.app", "gpu_ci.cli", "gpu_ci.offline.commands")
"""Modules that read the environment when they are loaded, and those that use them."""


def started(environment: Mapping[str, str], *arguments: str, columns: int = 80) -> tuple[int, int]:
    """The process of a command, and the other side of its terminal, which has this width."""
    sys.stdout.flush()
    child, leader = pty.fork()
    if not child:
        _run(environment, arguments, columns)
    return child, leader


def on_a_terminal(environment: Mapping[str, str], *arguments: str, columns: int = 80) -> str:
    """All output of a command on a terminal with this width."""
    child, leader = started(environment, *arguments, columns=columns)
    shown = b""
    # Linux: reading fails when the other side is closed.
    with suppress(OSError):
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    os.waitpid(child, 0)
    return shown.decode()


def _run(environment: Mapping[str, str], arguments: tuple[str, ...], columns: int) -> NoReturn:
    """Be the command."""
    status = 70
    try:
        # A shell that runs the tests in its background ignores Ctrl-C, and its children would too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        for key in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM"):
            os.environ.pop(key, None)
        os.environ.update(environment)
        for name in [name for name in sys.modules if name.startswith(_READ_AGAIN)]:
            del sys.modules[name]
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["gpu-ci", *arguments]
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - what Python itself does with it
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
