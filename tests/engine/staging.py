"""A shipped stack on the engine, staging if none is named: its copied project, its deployment, the options that name its pack."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.loading import stackfile
from gpu_ci.offline.judge import Configured, Remedies, Verdict, configure, judge
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.day import AS_OF
from tests.engine.cli import ROOT, STACK_FILE, Cli, Outcome, copy_project, environment
from tests.engine.live import Cloud
from tests.engine.provider import Provider, attach, providers

STACK = "staging"
EXISTING = "existing-eks"
KEY = "gpu-ci:githubPrivateKey"
CLEAR = "clear-text-of-the-github-app-key"
PACKAGES = ("aws", "eks", "kubernetes", "oci")


def pack(stack: str) -> tuple[str, ...]:
    """Options that name the policies and the stack's config of them."""
    return ("--policy-pack", "policies", "--policy-pack-config", f"policies/config/{stack}.json")


def preview(stack: str) -> tuple[str, ...]:
    """The command of a preview under the policies."""
    return ("preview", "--stack", stack, *pack(stack), "--suppress-progress")


PACK = pack(STACK)
PREVIEW = preview(STACK)


@dataclass(frozen=True)
class Site:
    """The project on a file backend with its stack and its secret; the providers that the engine attaches to."""

    cli: Cli
    serving: Mapping[str, Provider]
    stack: str = STACK

    @property
    def cloud(self) -> Cloud:
        """What is live, and the faults."""
        return self.serving["aws"].cloud

    @property
    def file(self) -> Path:
        """The stack's file in the project."""
        return self.cli.folder / STACK_FILE.format(self.stack)

    def up(self, *options: str) -> Outcome:
        """Updates the stack without a preview; raises AssertionError with the output when it fails."""
        return self.cli.ok("up", "--stack", self.stack, "--yes", "--skip-preview", "--suppress-progress", *options, timeout=600)

    def deployment(self) -> Deployment:
        """What the state contains."""
        export = ("stack", "export", "--stack", self.stack)
        opened = self.cli.ok(*export, "--show-secrets")
        self.cli.history.remove(opened)  # the one output that is meant to hold the secret
        return Deployment(self.cli.ok(*export).out, opened.out)

    def variant(self, name: str) -> Cli:
        """The CLI in a copy of the project that a test may change."""
        folder = self.cli.folder.with_name(name)
        shutil.copytree(self.cli.folder, folder, symlinks=True)
        return self.cli.at(folder)

    def checked(self, *, preview: bool) -> dict[str, Mapping[str, object]]:
        """URN to the inputs that the engine had checked."""
        return {urn: seen for provider in self.serving.values() for urn, seen in provider.checked(preview=preview).items()}


@dataclass(frozen=True)
class Deployment:
    """What an update left: the exported state as the CLI printed it, and with its secrets shown."""

    export: str
    opened: str

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """The state file's content."""
        parsed: dict[str, Any] = json.loads(self.export)
        return parsed

    @property
    def resources(self) -> list[dict[str, Any]]:
        """The resources of the state; none if it is empty."""
        found: list[dict[str, Any]] = self.document["deployment"].get("resources", [])
        return found


@contextmanager
def built(
    base: Path,
    stack: str = STACK,
    packages: Iterable[str] = PACKAGES,
    cloud: Cloud | None = None,
    root: Path = ROOT,
    change: Callable[[str], str] = str,
) -> Iterator[Site]:
    """The site below the folder `base`, of a stack or example of the checkout `root`; its providers run as long as the context.

    Those of `packages` are simulated, in `cloud` if it is there. The engine finds every other one on PATH. `change` edits the
    stack file first.
    """
    folder = copy_project(base / "project", root)
    stack_file = folder / STACK_FILE.format(stack)
    if not stack_file.exists():
        shutil.copy(folder / "examples" / stack_file.name, stack_file)
    lines = change(stack_file.read_text()).splitlines(keepends=True)
    # The salt belongs to the owner's passphrase, which is not here.
    stack_file.write_text("".join(line for line in lines if not line.startswith("encryptionsalt:")))
    with providers(packages, cloud) as serving:
        yield Site(_begun(folder, base / "home", serving, stack), serving, stack)


def existing(base: Path, serving: Mapping[str, Provider]) -> Cli:
    """The CLI in a project below `base` with the example of an existing EKS cluster, its stack and its secret, not yet deployed.

    The cluster is put into the cloud of the providers.
    """
    folder = copy_project(base / "project")
    shutil.copy(ROOT / "examples" / STACK_FILE.format(EXISTING), folder)
    serving["aws"].cloud.put_existing_cluster()
    return _begun(folder, base / "home", serving, EXISTING)


def _begun(folder: Path, home: Path, serving: Mapping[str, Provider], stack: str) -> Cli:
    """The CLI in a project with its stack and its secret."""
    cli = Cli(folder, environment(home, attach(serving)) | {"GPU_CI_AS_OF": AS_OF.isoformat()})
    cli.ok("stack", "init", stack, "--secrets-provider", "passphrase")
    cli.ok("config", "set", "--stack", stack, "--secret", KEY, given=CLEAR)
    return cli


def policies(folder: Path, stack: str = STACK) -> tuple[Configured, ...]:
    """The policies as the stack's file in `folder` configures them."""
    return configure(RULES, policy_settings(stack, folder), AS_OF)


def recorded(folder: Path, stack: str = STACK) -> Recording:
    """The offline recording of the project in `folder`, remediated as the plan is."""
    return record(folder / "__main__.py", stackfile.load(stack, folder), remedy=Remedies(policies(folder, stack)))


def broken(recording: Recording, folder: Path, stack: str = STACK) -> list[Verdict]:
    """The violations of mandatory policies that the offline plan reports."""
    verdicts = judge(recording, policies(folder, stack))
    return [verdict for verdict in verdicts if verdict.kind == "violation" and verdict.level == "mandatory"]
