"""Stubs of every command that a shell script starts: the script runs on them in a folder, and each call is written down.

PATH holds the stubs alone, so a command that has none is not found. A stub writes its call to the log, fails if the test says so,
and then does what its body has. Stubs are functions of the script's own shell, which costs far less than processes. What a path,
`exec` or a real command starts is the same stub as a program, and `programs=True` has programs only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

_PROGRAM = """#!/bin/bash
. "$STUBS/stubs"
stub "${0##*/}" "$@"
"""
# `|| return` keeps the script's own traps out of the stubs: they see the script's line.
_STUBS = r"""
at_call() { :; }
count() {
  calls=0
  if [[ -e $STUB/$1.count ]]; then read -r calls <"$STUB/$1.count"; fi
  calls=$((calls + 1))
  printf '%s\n' "$calls" >"$STUB/$1.count"
}
stub() {
  local name="$1" calls
  shift
  printf 'CALL\t%s\t%s\t%s\n' "$name" "${STUB_LIMIT-}" "${*//$'\n'/ }" >>"$STUB/log"
  at_call
  if [[ $name == "${STUB_FAIL-}" ]]; then
    count "$name"
    if [[ $calls -ge ${STUB_FROM-1} && $calls -le ${STUB_TO-1000} ]]; then
      printf '%s\n' "${STUB_ERROR-}" >&2
      return "${STUB_CODE-1}"
    fi
  fi
  "body_$name" "$@" || return
}
"""
# A stub that hangs is a program, which can be killed.
_FUNCTIONS = r"""
unset BASH_ENV
. "$STUBS/stubs"
for program in "$PATH"/*; do
  program="${program##*/}"
  if [[ $program == "${STUB_HANG-}" ]]; then continue; fi
  eval "$program() { stub $program \"\$@\" || return; }"
done
unset program
"""
TIMEOUT = """
    while [[ $1 == --* ]]; do shift; done
    local -x STUB_LIMIT="$1"
    shift
    "$@" """
"""The body of `timeout`: what it starts writes down the limit."""


@dataclass(frozen=True)
class Call:
    """One call of a command: the step it was in, its name, its count among the calls of that name, its limit in seconds if it has
    one, its arguments."""

    step: str
    name: str
    count: int
    limit: str
    arguments: str


def bodies(own: Mapping[str, str], real: Iterable[str], plain: Iterable[str]) -> dict[str, str]:
    """What each stub does: its own body, the work of the real command, or nothing."""
    return dict.fromkeys(plain, ":") | {name: f'{shutil.which(name)} "$@"' for name in real} | dict(own)


@dataclass
class StubbedScript:
    """A script whose stubs write to a folder. `start` runs it; the rest shows what happened."""

    folder: Path
    output: str = ""
    missing: tuple[str, ...] = ()
    programs: bool = False
    announces: ClassVar[str]
    """What the script writes before the name of a step."""
    commands: ClassVar[tuple[str, ...]]
    """The stubs on PATH."""
    bodies: ClassVar[dict[str, str]]
    """What each stub does."""
    more: ClassVar[str] = ""
    """Functions of their own."""
    functions: ClassVar[str] = ""
    """What differs where stubs are functions."""

    @staticmethod
    def add_files(folder: Path) -> None:
        """Add files that the bodies read to the folder of the stubs."""

    @classmethod
    @cache
    def _installed(cls) -> tempfile.TemporaryDirectory[str]:
        """A folder with the stubs, for every run of this process."""
        place = tempfile.TemporaryDirectory(prefix="stubs-")
        folder = Path(place.name)
        (folder / "bin").mkdir()
        (folder / "program").write_text(_PROGRAM)
        (folder / "program").chmod(0o755)
        functions = "".join(f"body_{name}() {{\n{body}\n}}\n" for name, body in cls.bodies.items())
        (folder / "stubs").write_text(_STUBS + functions + cls.more)
        (folder / "functions").write_text(_FUNCTIONS + cls.functions)
        for name in cls.commands:
            (folder / "bin" / name).symlink_to(folder / "program")
        cls.add_files(folder)
        return place

    @property
    def stub(self) -> Path:
        """Where the stubs write."""
        return self.folder / "stub"

    @property
    def stubs(self) -> Path:
        """Where the stubs are."""
        return Path(self._installed().name)

    def without(self, *commands: str) -> Self:
        """The same machine, on which these are not installed."""
        self.missing = commands
        return self

    def _path(self) -> Path:
        if not self.missing:
            return self.stubs / "bin"
        own = self.folder / "bin"
        own.mkdir()
        for name in {*self.commands} - {*self.missing}:
            (own / name).symlink_to(self.stubs / "program")
        return own

    def start(self, script: Path, environment: Mapping[str, str], behaviour: Mapping[str, str]) -> int:
        """Run the script once. `behaviour` has the stubs' variables. Gives the exit status."""
        own = {"PATH": self._path(), "STUB": self.stub, "STUBS": self.stubs, "STUB_PATH": os.environ["PATH"]}
        if not self.programs:
            own["BASH_ENV"] = self.stubs / "functions"
        variables = {f"STUB_{name.rstrip('_').upper()}": value for name, value in behaviour.items()}
        with (self.stub / "log").open("ab") as log:
            done = subprocess.run(
                ["/bin/bash", str(script)],
                env={name: str(value) for name, value in own.items()} | variables | dict(environment),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        self.output = (self.stub / "log").read_text()
        return done.returncode

    @property
    def calls(self) -> list[Call]:
        """Every call, in order."""
        step, calls, counts = "start", [], Counter[str]()
        for line in self.output.splitlines():
            if line.startswith(self.announces):
                step = line.removeprefix(self.announces)
            elif line.startswith("CALL\t"):
                _, name, limit, arguments = line.split("\t", 3)
                counts[name] += 1
                calls.append(Call(step, name, counts[name], limit, arguments))
        return calls

    def called(self, name: str) -> list[str]:
        """Arguments of each call of a command."""
        return [call.arguments for call in self.calls if call.name == name]
