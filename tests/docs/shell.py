"""Runs a shell block with bash, in a folder like a checkout. The test itself answers each program that is not the shell's.

Each of those programs is a small script on PATH. It sends its arguments to the test, and prints what the test answers.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import ROOT

REAL = ("awk", "base64", "bash", "cat", "cut", "env", "grep", "head", "make", "mkdir", "mktemp", "rm", "sh", "sort", "touch")
"""Programs that blocks really run."""
_STUB = """\
#!/bin/bash
if [ "${0##*/}" = jq ]; then set -- "$@" "$(cat)"; fi
exec 3<>"/dev/tcp/127.0.0.1/$ANSWERS" || exit 125
printf '%s\\0' "$(($# + 1))" "${0##*/}" "$@" >&3
IFS= read -r status <&3
cat <&3
exit "$status"
"""
"""What jq reads comes last among its arguments."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program prints, and its exit status."""

    text: str = ""
    status: int = 0


Answers = Callable[[str, tuple[str, ...]], Answer]
"""From the name of a program and its arguments to its answer."""


def checkout(home: Path, programs: Iterable[str]) -> Path:
    """Make a folder below `home` like a checkout with a virtual environment, and put scripts of the programs beside it."""
    folder = home / "checkout"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "build", "homelab"}:
            (folder / path.name).symlink_to(path)
    shutil.copytree(ROOT / "homelab", folder / "homelab")
    places = [home / "bin", folder / ".venv" / "bin"]
    for place in places:
        place.mkdir(parents=True)
    stub = places[0] / "python"
    stub.write_text(_STUB)
    stub.chmod(0o755)
    for program in {*programs} - {"python"}:
        (places[0] / program).symlink_to(stub)
    for program in ("gpu-ci", "python", "ruff", "mypy", "yamllint", "shellcheck", "zizmor", "hadolint"):
        (places[1] / program).symlink_to(stub)
    for program in REAL:
        found = shutil.which(program)
        assert found, f"{program} is not installed"
        (places[0] / program).symlink_to(found)
    for stamp in ("made", "run", "dev", "doctor"):
        (folder / ".venv" / stamp).touch()
    return folder


def run(text: str, folder: Path, variables: Mapping[str, str], answers: Answers) -> str:
    """Run a block in a checkout. Returns what bash prints on stderr."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        env = {
            "PATH": str(folder.parent / "bin"),
            "HOME": str(folder.parent),
            "TMPDIR": str(folder.parent),
            "ANSWERS": str(server.getsockname()[1]),
            **variables,
        }
        errors = folder.parent / "errors"
        with errors.open("w") as stderr:
            bash = subprocess.Popen(
                [shutil.which("bash") or "bash", "-u", "-c", text],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        while bash.poll() is None:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection:
                _serve(connection, answers)
    return errors.read_text()


def _serve(connection: socket.socket, answers: Answers) -> None:
    connection.settimeout(10)
    parts: list[str] = []
    with connection.makefile("rb") as request:
        received = b""
        while not parts or len(parts) - 2 < int(parts[0]):
            more = request.read1(65536)
            if not more:
                return
            received += more
            parts = received.decode().split("\0")
    name, *words = parts[1:-1]
    answer = answers(name, tuple(words))
    # A program in a pipe may end before it has read all.
    with contextlib.suppress(OSError):
        connection.sendall(f"{answer.status}\n{answer.text}".encode())
