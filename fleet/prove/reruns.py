"""What workflows write so that interrupted jobs run again on the set that `rerunOn` names (docs/rerun.md)."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.fleet import Fleet
from fleet.settings.runner import PodRunner

BY_US = "github.run_attempt > 1 && github.triggering_actor == 'github-actions[bot]'"
"""Whether the action rerun-once started this attempt: a person's rerun has the person's name (docs.github.com, github context).
GitHub compares the text `run_attempt` with a number as a number (docs.github.com, expressions)."""


def runs_on(name: str, again: str) -> str:
    """The `runs-on` of a job on set `name` whose interrupted attempt runs again on set `again`."""
    return f"${{{{ {BY_US} && '{again}' || '{name}' }}}}"


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for each set with `rerunOn`."""
    for cluster, name, runner in fleet.runner_sets():
        if isinstance(runner, PodRunner) and runner.rerun_on is not None:
            again = runner.rerun_on
            expression = runs_on(name, again)
            yield f"{cluster}/{name}: interrupted jobs run again on {again} with runs-on: {expression}; wake-labels: {again}"
