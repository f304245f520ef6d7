"""Runs the Pulumi CLI in isolation: own home, file backend, passphrase, no network, no plugin to install, a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fleet.loading import stackfile
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.engine.provider import Provider, attach, providers

ROOT = Path(__file__).resolve().parents[2]
STACK_FILE = "Pulumi.{}.yaml"
MAIN = "main"
"""The stack of the projects in `bootstrap/` and `deployments/`."""

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ")
_LEFT_OUT = frozenset({"build", "tests", "docs", "bench"})
_NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist, so that every request to another machine fails at once."""
_SHOWN_LINES = 80


@dataclass(frozen=True)
class Outcome:
    """One finished command."""

    command: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams with each run of white space as one blank, because the CLI indents and wraps messages."""
        return " ".join(f"{self.out}\n{self.err}".split())

    def __str__(self) -> str:
        lines = [f"$ pulumi {' '.join(self.command)}", f"status {self.status}"]
        for name, stream in (("stdout", self.out), ("stderr", self.err)):
            kept = stream.splitlines()[-_SHOWN_LINES:]
            lines += [f"--- {name}{' (its end)' if len(stream.splitlines()) > _SHOWN_LINES else ''}", *kept]
        return "\n".join(lines)


@dataclass(frozen=True)
class Cli:
    """The CLI in one project folder. `history` is shared by every copy made with `at`."""

    folder: Path
    environment: Mapping[str, str]
    history: list[Outcome] = field(default_factory=list)

    def at(self, folder: Path) -> Cli:
        """The same CLI, home and backend in another folder."""
        return Cli(folder, self.environment, self.history)

    def having(self, **environment: str) -> Cli:
        """The same CLI with more in its environment."""
        return Cli(self.folder, {**self.environment, **environment}, self.history)

    def __call__(self, *command: str, given: str = "", timeout: float = 400) -> Outcome:
        """Runs one command. `given` is its standard input: secrets go there, never on a command line.

        Raises AssertionError with the output so far when it takes longer than `timeout` seconds.
        """
        with subprocess.Popen(
            ["pulumi", *command, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            late = False
            try:
                out, err = process.communicate(given, timeout=timeout)
            except subprocess.TimeoutExpired:
                late = True
                os.killpg(process.pid, signal.SIGKILL)  # language host and program are of its session
                out, err = process.communicate()
        outcome = Outcome(command, process.returncode, out, err)
        self.history.append(outcome)
        assert not late, f"the CLI was not done after {timeout} seconds\n{outcome}"
        return outcome

    def ok(self, *command: str, given: str = "", timeout: float = 400) -> Outcome:
        """As a call; raises AssertionError with the output when the command fails."""
        outcome = self(*command, given=given, timeout=timeout)
        assert outcome.status == 0, f"the CLI failed\n{outcome}"
        return outcome


def environment(home: Path, attached: str = "") -> dict[str, str]:
    """A clean environment with everything below `home`; `attached` is PULUMI_DEBUG_PROVIDERS."""
    (home / "state").mkdir(parents=True)
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | {
        "HOME": str(home),
        "PULUMI_HOME": str(home / "pulumi"),
        "PULUMI_BACKEND_URL": f"file://{home / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "throwaway",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Upper case only: gRPC in Python reads the lower-case names, and the program has to reach its engine.
        "HTTP_PROXY": _NOWHERE,
        "HTTPS_PROXY": _NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        **({"PULUMI_DEBUG_PROVIDERS": attached} if attached else {}),
    }


def copy_project(target: Path, root: Path = ROOT) -> Path:
    """A copy of what the CLI needs of the checkout `root`, with this Python's virtual environment linked in."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        top = _LEFT_OUT if Path(folder) == root else frozenset()
        return {name for name in names if name in top or name.startswith(".") or name == "__pycache__"}

    shutil.copytree(root, target, ignore=left_out)
    link_environment(target)
    return target


def link_environment(folder: Path) -> None:
    """Links this Python's virtual environment as the `.venv` that Pulumi.yaml names."""
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)


def add_to_config(stack_file: Path, lines: str) -> None:
    """Adds lines at the start of a stack file's `config`, indented as its first key is.

    Raises AssertionError when the file has no key below `config:`.
    """
    before, mark, after = stack_file.read_text().partition("\nconfig:\n")
    if not mark:
        before, mark, after = "", "config:\n", stack_file.read_text().removeprefix("config:\n")
    first = next(line for line in after.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    indent = first[: len(first) - len(first.lstrip())]
    assert indent, f"no key below config: in {stack_file}:\n{stack_file.read_text()}"
    added = "".join(f"{indent}{line}\n" for line in lines.splitlines())
    stack_file.write_text(before + mark + added + after)


@dataclass(frozen=True)
class Site:
    """A project of the repository on a file backend, with its simulated cloud, after two updates of its stack `main`."""

    cli: Cli
    cloud: Provider

    @property
    def recording(self) -> Recording:
        """What the offline recorder records from the same files."""
        return record(self.cli.folder / "__main__.py", stackfile.load(MAIN, self.cli.folder), preview=False)


@contextmanager
def deployed(base: Path, project: str, package: str, **secrets: str) -> Iterator[Site]:
    """The project in a folder of the repository, deployed twice to the simulated `package`; the second update changes nothing."""
    folder = copy_project(base / "project") / project
    with providers((package,)) as serving:
        cli = Cli(folder, environment(base / "home", attach(serving)))
        cli.ok("stack", "init", MAIN, "--secrets-provider", "passphrase")
        for key, clear in secrets.items():
            cli.ok("config", "set", "--stack", MAIN, "--secret", key, given=clear)
        cli.ok("preview", "--stack", MAIN, "--suppress-progress")
        cli.ok("up", "--stack", MAIN, "--yes", "--suppress-progress")
        cli.ok("up", "--stack", MAIN, "--yes", "--suppress-progress", "--expect-no-changes")
        yield Site(cli, serving[package])
