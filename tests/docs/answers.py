"""Answers the programs that a shell block of a page calls, and keeps what is wrong with each call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.outputs import EksOutputs
from gpu_ci.cli import app
from gpu_ci.offline.wire import UNKNOWN, Secret
from tests.components.recorded import recorded
from tests.docs.kubectl import Call
from tests.docs.markdown import ROOT
from tests.docs.resources import unknown_fields, unknown_kinds
from tests.docs.shell import Answer
from tests.docs.test_cloud_commands import aws_faults, oci_faults
from tests.docs.test_commands import pulumi_faults, wrong_names
from tests.docs.tools import TOOLS

CHECKERS = ("hadolint", "mypy", "ruff", "shellcheck", "yamllint", "zizmor")
"""Programs of the virtual environment that `make lint` calls. `make lint` itself is their test."""
PROGRAMS = frozenset((*TOOLS, *CHECKERS, "gpu-ci", "python", "python3", "aws", "oci"))
NEEDS = ("there is no kubeconfig", "found no working podman", "helm is missing", "gh cannot be started")
"""Errors of our commands after everything was right: only the cluster or the program that they call is missing."""
NOT_RUN = frozenset(
    ["accept", "add", "agree", "doctor", "freshen", "init", "pending", "probe", "remove", "why", "world", "worth"]
)
"""Commands that change or ask clouds, ask GitHub or the reader, or read what a machine printed. Only arguments are checked."""
READERS = ("acme", "staging")
"""The name that pages give to the stack that a reader makes, and our stack that stands for it here."""


class Answers:
    """Answers the calls of one block, in a checkout at `folder`. `faults` has what is wrong with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.faults: list[str] = []

    def __call__(self, program: str, words: tuple[str, ...]) -> Answer:
        if program in CHECKERS:
            return Answer()
        try:
            faults, text = self._answer(program, tuple(re.sub(rf"\b{READERS[0]}\b", READERS[1], word) for word in words))
        except Exception as error:  # noqa: BLE001 - the block would wait for its answer
            faults, text = [repr(error)], ""
        self.faults += [f"{program} {' '.join(words)}: {fault}" for fault in faults]
        return Answer(text, 1 if faults else 0)

    def _answer(self, program: str, words: tuple[str, ...]) -> tuple[list[str], str]:
        faults = [*TOOLS[program].faults(words), *self._missing_files(words)] if program in TOOLS else []
        if faults:
            return faults, ""
        own = {"gpu-ci": self._gpu_ci, "python": self._python, "python3": self._python, "pulumi": self._pulumi, "git": self._git}
        answer = own.get(program)
        return answer(words) if answer else ([*CHECKS.get(program, _nothing)(words)], "answer")

    # -- this repository's commands ----------------------------------------------------------------------------------------

    def _python(self, words: tuple[str, ...]) -> tuple[list[str], str]:
        if words[0].endswith(".py"):
            return ([] if (ROOT / words[0]).is_file() else [f"no file {words[0]}"]), ""
        if words[0] == "-m" and words[1] in ("package.reference", "pytest", "http.server"):
            return [*self._missing_files(words)], ""
        return [f"module {words[1]}"], ""

    def _gpu_ci(self, arguments: tuple[str, ...]) -> tuple[list[str], str]:
        if arguments[0] in NOT_RUN:
            return [*_parsed(arguments)], ""
        free = arguments[0] == "plan" and "--base" not in arguments
        with chdir(self._folder), pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", "")
            patch.setenv("HOME", str(self._folder))
            patch.delenv("KUBECONFIG", raising=False)
            # A release has no git checkout.
            patch.setattr("gpu_ci.image._commit", lambda: "0123456789ab")
            # No GitHub may be asked from here.
            patch.setattr("gpu_ci.submit.smoke.GH", "gh-of-no-machine")
            status, text, errors = _planned(arguments) if free else _invoke(arguments)
        wrong = status != 0 and not any(need in errors for need in NEEDS)
        return [f"exit status {status}: {errors or text}"] * wrong, text

    # -- other programs ----------------------------------------------------------------------------------------------------

    def _pulumi(self, words: tuple[str, ...]) -> tuple[list[str], str]:
        faults = [*pulumi_faults([*words])]
        folder = words[words.index("-C") + 1] if "-C" in words else ""
        named = words[words.index("output") + 1 :] if "output" in words else ()
        if faults or not named or named[0].startswith("-"):
            return faults, ""
        name = named[0]
        if folder:
            exported = re.findall(r'export\("(\w+)"', (ROOT / folder / "__main__.py").read_text())
            return ([] if name in exported else [f"output {name}"]), "{}"
        outputs = _plain(recorded(words[words.index("-s") + 1] if "-s" in words else READERS[1]).outputs)
        return ([] if name in outputs else [f"output {name}"]), json.dumps(outputs.get(name))

    def _git(self, words: tuple[str, ...]) -> tuple[list[str], str]:
        """Makes the second checkout that later commands of a block read."""
        if words[:2] == ("worktree", "add"):
            (self._folder / words[2]).parent.mkdir(exist_ok=True)
            (self._folder / words[2]).symlink_to(ROOT)
        return [], ""

    def _missing_files(self, words: tuple[str, ...]) -> Iterator[str]:
        """Files of the repository that a call names and that are not there."""
        for word in words:
            path = word.removeprefix("@")
            if path.startswith(("bootstrap/", "homelab/", "policies/", "Pulumi.")) and not (self._folder / path).exists():
                yield f"no file {path}"


@cache
def _planned(arguments: tuple[str, ...]) -> tuple[int, str, str]:
    """A plan reads the repository and writes nothing, so each is made once."""
    return _invoke(arguments)


def _parsed(arguments: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the arguments of a command that is not run."""
    done = CliRunner().invoke(app, [*arguments[: arguments.index("--") if "--" in arguments else None], "--help"])
    if done.exit_code:
        yield done.stderr


def _invoke(arguments: tuple[str, ...]) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*arguments])
    return done.exit_code, done.stdout, done.stderr


def _kubectl_faults(words: tuple[str, ...]) -> Iterator[str]:
    call = Call("", words)
    yield from wrong_names(call)
    yield from unknown_kinds(call)
    yield from unknown_fields(call)


def _cosign_faults(words: tuple[str, ...]) -> Iterator[str]:
    """Workflows that a call names and this repository does not have."""
    for path in re.findall(r"(\.github/workflows/[\w.-]+)@", " ".join(words)):
        if not (ROOT / path).is_file():
            yield f"no file {path}"


def _nothing(_words: tuple[str, ...]) -> Iterator[str]:
    yield from ()


def _jq_faults(words: tuple[str, ...]) -> Iterator[str]:
    """Keys that a path of jq (`.a.b`) names and the outputs of a stack do not have. The last word is what jq reads."""
    *_, path, read = words
    if not re.fullmatch(r"(\.\w+)+", path) or not read.startswith("{"):
        return
    held = json.loads(read)
    for key in path[1:].split("."):
        if not isinstance(held, dict) or not held:
            return
        if key not in held and key not in EksOutputs.__annotations__:
            yield f"key {key}"
        held = held.get(key)


def _plain(value: Any) -> Any:
    """Outputs as JSON can hold them."""
    if isinstance(value, Secret):
        return _plain(value.reveal())
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return "unknown" if value is UNKNOWN else value


CHECKS: Mapping[str, Callable[[tuple[str, ...]], Iterator[str]]] = {
    "aws": aws_faults,
    "cosign": _cosign_faults,
    "jq": _jq_faults,
    "kubectl": _kubectl_faults,
    "oci": oci_faults,
}
"""What is wrong with the names in a call, by program."""
