"""The programs of a world: each has a log, and all end with it, also if this process is killed."""

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

_OF_CALLER = ("ETCD_", "KUBE", "KWOK", "HELM_", "PULUMI_")
"""Beginnings of environment variables of the caller's own clusters. No program of a world gets them."""
_LIFELINE = 'cat; for pid in $(cat "$1"); do kill -s KILL -- "-$pid"; done 2>/dev/null'
"""Ends what still runs when the pipe to this process closes, however it ended."""


def free_port() -> int:
    """A port of the loopback interface without a listener."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


HEALED = ("kube-scheduler", "kube-controller-manager")
"""Programs that end themselves to begin anew: the scheduler does so for a pod that moved while the API server was away."""


class WorldError(Exception):
    """A part of a world failed. The message is one line."""


class Processes:
    """Child processes by name. They end in reverse order with the block.

    `folder` gets `logs/<name>.log`, and `pids` with the ids of the processes that run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._needed: set[str] = set()
        self._lock = Lock()
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        self._write()
        self._lifeline = subprocess.Popen(  # noqa: S603 - the program is ours
            ["/bin/sh", "-c", _LIFELINE, "sh", str(folder / "pids")], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in reversed([*self._running]):
            self.stop(name)
        if self._lifeline.stdin is not None:
            self._lifeline.stdin.close()
        self._lifeline.wait()

    def start(
        self, name: str, words: Sequence[str], env: Mapping[str, str] | None = None, *, needed: bool = False, alone: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a program as the leader of a group of its own. `env` comes on top of the caller's environment, or is `alone`.

        Without a `needed` one nothing works: `require_alive` requires it. Raises OSError if it cannot be started.
        """
        environment = {key: value for key, value in os.environ.items() if not alone and not key.startswith(_OF_CALLER)}
        own = {**environment, "HOME": str(self.folder), **(env or {})}
        with self.log(name).open("ab") as log:
            # The caller names the program.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own, start_new_session=True)  # noqa: S603
        with self._lock:
            self._running[name] = process
            if needed:
                self._needed.add(name)
            self._write()
        return process

    def stop(self, name: str, by: signal.Signals = signal.SIGTERM, grace: float = 5) -> None:
        """End a program with all that it started; SIGKILL after `grace` seconds. A program may have ended before."""
        with self._lock:
            process = self._running.pop(name, None)
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, by)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with self._lock:
            self._write()

    def require_alive(self) -> None:
        """Raise WorldError if a needed program has ended by itself, but start one again whose exit a kubelet would heal."""
        for name in self._needed & self._running.keys():
            if not self.alive(name) and name in HEALED:
                self.start(name, [*map(str, self._running[name].args)], needed=True)  # type: ignore[arg-type] # a list of ours
            elif not self.alive(name):
                raise WorldError(f"{name} ended; its log {self.log(name)} ends with: {self.last_line(name)[:300] or 'nothing'}")

    def alive(self, name: str) -> bool:
        """Whether the program runs."""
        process = self._running.get(name)
        return process is not None and process.poll() is None

    def log(self, name: str) -> Path:
        """What the program wrote."""
        return self.folder / "logs" / f"{name}.log"

    def last_line(self, name: str) -> str:
        """The last line of what the program wrote; empty if it wrote nothing."""
        return ("\n" + self.log(name).read_text(encoding="utf-8", errors="replace").strip()).splitlines()[-1]

    def memory(self) -> dict[str, float]:
        """MiB that each program has in memory."""
        sizes: dict[str, float] = {}
        for name, process in [*self._running.items()]:
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
                sizes[name] = int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
        return sizes

    def _write(self) -> None:
        pids = "\n".join(str(process.pid) for process in self._running.values())
        (self.folder / "pids").write_text(pids, encoding="ascii")


def private(path: Path, text: str) -> Path:
    """Write a file that only its owner reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Threads may write the same file, and a program may read it meanwhile.
    number, new = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
    Path(new).replace(path)
    return path
