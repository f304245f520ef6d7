"""The steps of a stack, as commands that people would type."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.facts.yaml_text import helm_values
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.render.workloads.smoke import smoke_tests
from gpu_ci.acceptance.leftovers import Scan
from gpu_ci.acceptance.runner import Script
from gpu_ci.acceptance.shell import Shell, Step, StepError

EDITED = "acceptance"
"""The value that the edit gives to a tag."""
_UNCHANGED = frozenset({"same", "refresh", "read"})
_POLL = 30
"""Seconds between two looks."""


@dataclass
class Steps:
    """The steps for one stack. `folder` is private and temporary: it gets kubeconfigs and the edited stack file."""

    stack: str
    file: Path
    fleet: Fleet
    shell: Shell
    folder: Path
    scan: Scan
    repository: str = ""

    def script(self) -> Script:
        """All steps in order, with the most seconds for each."""
        job = [Step("job", "pods of each GPU pool get GPUs that work", 3600, self._smoke)] if tested(self.fleet) else []
        if self.repository:
            job.append(
                Step("github-job", "a set of the stack runs a job that names it, and one by its labels", 7200, self._dispatch)
            )
        return Script(
            before=(
                Step("plan", "the fleet is proved offline", 600, self._plan),
                Step("doctor", "tools, credentials, quotas and offers are there", 600, self._doctor),
                Step("empty", "the stack has nothing yet, so the end destroys nothing else", 300, self._empty),
                Step("preview", "the engine and the policies accept the stack", 900, self._preview),
            ),
            paid=(
                Step("up", "the clouds create the fleet", 5400, self._up),
                Step("again", "a second run changes nothing", 900, self._again),
                *job,
                Step("edit", "another value of a tag updates, and replaces nothing", 1800, self._edit),
            ),
            end=(
                Step("destroy", "the clouds delete the fleet", 3600, self._destroy),
                Step("leftovers", "nothing of it is left", 900, self._leftovers),
            ),
        )

    def _gpu_ci(self, *words: str) -> None:
        self.shell.run(sys.executable, "-m", "gpu_ci", *words)

    def _pulumi(self, command: str, *words: str, of: Path | None = None) -> tuple[str, ...]:
        """A command of the CLI on the stack, by the stack file or by another one. What registers resources has the policies."""
        judged = ["--policy-pack", "policies"] if command in ("preview", "up") else []
        config = f"policies/config/{self.stack}.json"
        if judged and (self.shell.folder / config).is_file():
            judged += ["--policy-pack-config", config]
        file = ["--config-file", str(of)] if of else []
        return ("pulumi", *command.split(), "--stack", self.stack, "--non-interactive", *judged, *file, *words)

    def _plan(self) -> None:
        self._gpu_ci("plan", "--", self.stack)

    def _doctor(self) -> None:
        self._gpu_ci("doctor", "--", self.stack)

    def _empty(self) -> None:
        if count := self._in_state():
            raise StepError(
                f"the stack {self.stack} has {count} resources already, and the last step destroys all; give a stack of its own"
            )
        if leftovers := self.scan():
            self._list(leftovers)
            raise StepError(
                f"{len(leftovers)} resources of an earlier stack {self.stack} exist; delete them by the commands above"
            )

    def _preview(self) -> None:
        self.shell.run(*self._pulumi("preview"))

    def _up(self) -> None:
        self.shell.run(*self._pulumi("up", "--yes"))

    def _again(self) -> None:
        self.shell.run(*self._pulumi("preview", "--expect-no-changes", "--diff"))

    def _smoke(self) -> None:
        written = json.loads(self.shell.read(*self._pulumi("stack output kubeconfigs", "--show-secrets", "--json")))
        for name in tested(self.fleet):
            if text := written.get(name):
                path = self.folder / f"{name}.kubeconfig"
                path.write_text(text)
                access = ["--kubeconfig", str(path), "--context", helm_values(text)["current-context"]]
            else:
                existing: Any = getattr(self.fleet.clusters[name], "existing", None)
                access = ["--context", existing.context]
                if existing.kubeconfig:
                    access += ["--kubeconfig", str(existing.kubeconfig)]
            self._gpu_ci("smoke", "--cluster", name, *access, "--", self.stack)

    def _dispatch(self) -> None:
        """Start the workflow on a runner set, once by the name of the set and once by its labels."""
        self._gpu_ci("smoke", "--repository", self.repository, "--", self.stack)

    def _edit(self) -> None:
        """Change a tag in a copy of the stack file. A new tag would create the tags of Auto Scaling groups."""
        copy = self.folder / self.file.name
        shutil.copyfile(self.file, copy)
        key = edited_tag(self.fleet)
        self.shell.run(*self._pulumi("config set", "--path", f'{NAMESPACE}:tags["{key}"]', EDITED, of=copy))
        counts = json.loads(self.shell.read(*self._pulumi("preview", "--json", of=copy)))["changeSummary"]
        self.shell.say(f"the preview of the edit: {', '.join(f'{count} {word}' for word, count in counts.items())}")
        if changes := counts.keys() - _UNCHANGED - {"update"}:
            raise StepError(f"the edit of tag {key} would {', '.join(sorted(changes))} resources; it may only update")
        self.shell.run(*self._pulumi("up", "--yes", of=copy))

    def _destroy(self) -> None:
        destroy = self._pulumi("destroy", "--yes")
        try:
            self.shell.run(*destroy)
        except StepError as error:
            # An update that was killed has left its lock. A cloud may refuse to delete what another resource still uses.
            self.shell.say(f"{error}; once more")
            self._unlock()
            self.shell.run(*destroy)
        self.scan.delete_late()

    def _unlock(self) -> None:
        try:
            self.shell.run("pulumi", "cancel", "--yes", "--stack", self.stack, "--non-interactive")
        except StepError as error:
            self.shell.say(f"{error}; there may be no lock")

    def _leftovers(self) -> None:
        """Clouds list for some minutes what they have deleted."""
        if count := self._in_state():
            raise StepError(f"the state has {count} resources; run pulumi destroy --stack {self.stack}")
        while leftovers := self.scan():
            self._list(leftovers)
            self._wait(f"{len(leftovers)} resources are left; delete them by the commands above")

    def _in_state(self) -> int:
        export = self.shell.read("pulumi", "stack", "export", "--stack", self.stack, "--non-interactive")
        return len((json.loads(export)["deployment"] or {}).get("resources") or ())

    def _wait(self, why: str) -> None:
        if self.shell.now() + _POLL > self.shell.until:
            raise StepError(why)
        self.shell.pause(_POLL)

    def _list(self, leftovers: list[Any]) -> None:
        for leftover in leftovers:
            self.shell.say(f"  {leftover}")


def tested(fleet: Fleet) -> list[str]:
    """The clusters in which a smoke test can run."""
    return [name for name, cluster in fleet.clusters_by_name() if any(test.job is not None for test in smoke_tests(cluster))]


def edited_tag(fleet: Fleet) -> str:
    """The tag that the edit changes: ttl, or else the first."""
    return "ttl" if "ttl" in fleet.tags else next(iter(fleet.tags))
