"""The runner sets of a fleet, as jobs see them."""

from typing import NamedTuple

from fleet.providers.fleet import Fleet
from fleet.settings.runner import Runner, RunnerPod


class Served(NamedTuple):
    """A runner set of the fleet, as jobs see it. `shared`: a set of another group has the same name."""

    cluster: str
    name: str
    group: str
    runner: Runner
    shared: bool

    @property
    def words(self) -> str:
        """Set and cluster for people."""
        return f"{self.name} of {self.cluster}"

    @property
    def labels(self) -> tuple[str, ...]:
        """What a `runs-on` may say for it, in lower case."""
        return tuple(label.lower() for label in (self.name, *self.runner.labels))

    @property
    def edit(self) -> str:
        """The line that names it alone."""
        return f"runs-on: {{group: {self.group}, labels: {self.name}}}" if self.shared else f"runs-on: {self.name}"

    @property
    def gpus(self) -> int:
        """GPUs of a runner."""
        if isinstance(self.runner, RunnerPod):
            return self.runner.gpus
        machine = self.runner.whole_machine
        return min(kind.gpus for kind in machine.types) if machine is not None else 0


def served(fleet: Fleet, repository: str = "") -> tuple[Served, ...]:
    """The runner sets of a fleet, or those that jobs of a repository (owner/name) may reach."""
    shared, sets = fleet.shared_names, fleet.reached_by(repository)
    return tuple(Served(cluster, name, fleet.group_of(cluster, runner), runner, name in shared) for cluster, name, runner in sets)
