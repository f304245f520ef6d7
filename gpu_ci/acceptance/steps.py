"""The steps of a stack, as commands that people would type."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fleet.facts.tables import beside
from fleet.facts.yaml_text import helm_values
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.provider import Left
from fleet.render.workloads.catalogue import smoke_tests
from gpu_ci.acceptance.runner import Script, Shell, Step, StepError

EDITED = "acceptance"
"""The value that the edit gives to a tag."""
DESTROY, CANCEL, AGAIN = 3600, 60, 1740
"""Seconds of the first destroy, of the removal of its lock, and at least of the second destroy."""
_POLL = 30
"""Seconds between two looks."""


_STEPS: dict[str, dict[str, Any]] = beside(__file__, "steps.toml")
"""What each step proves, and the most seconds that it may take."""


class Scan:
    """The scan for resources that a destroyed stack left in its clouds, as each provider finds them."""

    def __init__(self, project: str, stack: str, fleet: Fleet) -> None:
        self._clouds = [provider.leftovers(project, stack, clusters) for provider, clusters in fleet.by_provider()]

    def __call__(self) -> list[Left]:
        """Everything that exists, each once. Raises StepError if a cloud's SDK is missing."""
        try:
            return list(dict.fromkeys(each for cloud in self._clouds for each in cloud))
        except ImportError as error:
            raise StepError(f"{error.name} is not installed; make acceptance installs it") from None

    def delete_late(self) -> None:
        """Delete what the clouds create again after the stack is gone."""
        for cloud in self._clouds:
            cloud.delete_late()


def _step(name: str, act: Callable[..., None], *words: str) -> Step:
    """A row of steps.toml. Its command has these words."""
    return Step(name, **_STEPS[name], act=partial(act, *words) if words else act)


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
        pods = [_step("job", self._smoke)] if tested(self.fleet) else []
        github = [_step("github-job", self._gpu_ci, "smoke", "--repository", self.repository)] if self.repository else []
        proved = (_step("plan", self._gpu_ci, "plan"), _step("doctor", self._gpu_ci, "doctor"), _step("empty", self._empty))
        up = (_step("up", self._pulumi, "up", "--yes"), _step("again", self._pulumi, "preview", "--expect-no-changes", "--diff"))
        destroy = Step("destroy", "the clouds delete the fleet", DESTROY + CANCEL + AGAIN, self._destroy, graces=3)
        return Script(
            before=(*proved, _step("preview", self._pulumi, "preview")),
            paid=(*up, *pods, *github, _step("edit", self._edit)),
            end=(destroy, _step("leftovers", self._leftovers)),
        )

    def _gpu_ci(self, *words: str) -> None:
        self.shell.run(sys.executable, "-m", "gpu_ci", *words, "--", self.stack)

    def _pulumi(self, command: str, *words: str, of: Path | None = None) -> None:
        self.shell.run(*self._words(command, *words, of=of))

    def _words(self, command: str, *words: str, of: Path | None = None) -> tuple[str, ...]:
        """A command of the CLI on the stack, by the stack file or by another one. What registers resources has the policies."""
        judged = ["--policy-pack", "policies"] if command in ("preview", "up") else []
        config = f"policies/config/{self.stack}.json"
        if judged and (self.shell.folder / config).is_file():
            judged += ["--policy-pack-config", config]
        file = ["--config-file", str(of)] if of else []
        return ("pulumi", *command.split(), "--stack", self.stack, "--non-interactive", *judged, *file, *words)

    def _empty(self) -> None:
        if count := self._in_state():
            why = f"the stack {self.stack} has {count} resources already, and the last step destroys all"
            raise StepError(f"{why}; give a stack of its own")
        if leftovers := self.scan():
            self._list(leftovers)
            why = f"{len(leftovers)} resources of an earlier stack {self.stack} exist"
            raise StepError(f"{why}; delete them by the commands above")

    def _smoke(self) -> None:
        written = json.loads(self.shell.read(*self._words("stack output kubeconfigs", "--show-secrets", "--json")))
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
            self._gpu_ci("smoke", "--cluster", name, *access)

    def _edit(self) -> None:
        """Change a tag in a copy of the stack file. A new tag would create the tags of Auto Scaling groups."""
        copy = self.folder / self.file.name
        shutil.copyfile(self.file, copy)
        key = "ttl" if "ttl" in self.fleet.tags else next(iter(self.fleet.tags))
        self._pulumi("config set", "--path", f'{NAMESPACE}:tags["{key}"]', EDITED, of=copy)
        counts = json.loads(self.shell.read(*self._words("preview", "--json", of=copy)))["changeSummary"]
        self.shell.say(f"the preview of the edit: {', '.join(f'{count} {word}' for word, count in counts.items())}")
        if changes := counts.keys() - {"same", "refresh", "read", "update"}:
            raise StepError(f"the edit of tag {key} would {', '.join(sorted(changes))} resources; it may only update")
        self._pulumi("up", "--yes", of=copy)

    def _destroy(self) -> None:
        """Each command has seconds of its own, so that the second destroy can delete what a first one that hangs has left."""
        end, self.shell.until = self.shell.until, self.shell.now() + DESTROY
        try:
            self._pulumi("destroy", "--yes")
        except StepError as error:
            # An update that was killed has left its lock. A cloud may refuse to delete what another resource still uses.
            self.shell.say(f"{error}; once more")
            self.shell.until = self.shell.now() + CANCEL
            self._unlock()
            self.shell.until = max(end, self.shell.now() + AGAIN)
            self._pulumi("destroy", "--yes")
        self.scan.delete_late()

    def _unlock(self) -> None:
        try:
            self._pulumi("cancel", "--yes")
        except StepError as error:
            self.shell.say(f"{error}; there may be no lock")

    def _leftovers(self) -> None:
        """Clouds list for some minutes what they have deleted."""
        if count := self._in_state():
            raise StepError(f"the state has {count} resources; run pulumi destroy --stack {self.stack}")
        while leftovers := self.scan():
            self._list(leftovers)
            if self.shell.now() + _POLL > self.shell.until:
                raise StepError(f"{len(leftovers)} resources are left; delete them by the commands above")
            self.shell.pause(_POLL)

    def _in_state(self) -> int:
        export = self.shell.read(*self._words("stack export"))
        return len((json.loads(export)["deployment"] or {}).get("resources") or ())

    def _list(self, leftovers: list[Left]) -> None:
        for leftover in leftovers:
            self.shell.say(f"  {leftover}")


def tested(fleet: Fleet) -> list[str]:
    """The clusters in which a smoke test can run."""
    return [name for name, cluster in fleet.clusters_by_name() if any(test.job is not None for test in smoke_tests(cluster))]
