"""`gpu-ci accept STACK --budget-usd N`: see docs/acceptance.md."""

import math
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import typer

from fleet.facts.day import day_of
from fleet.facts.errors import InputError, quoted
from fleet.facts.pricing import Money, total
from fleet.loading.config import read_stack
from fleet.loading.home import ROOT
from fleet.prove.bill import bill
from fleet.providers.fleet import Fleet
from gpu_ci.acceptance import record
from gpu_ci.acceptance.runner import Run, Script, Shell
from gpu_ci.acceptance.steps import Scan, Steps, tested
from gpu_ci.app import RUN, RecordFile, Repository, Stack, Yes, app, write_record


@app.command(rich_help_panel=RUN)
def accept(
    stack: Stack,
    budget_usd: str,
    minutes: int | None = None,
    repository: Repository = None,
    keep: bool = False,
    yes: Yes = False,
    record_file: RecordFile = None,
) -> None:
    """Build a stack in your account, run a GPU job, edit it, destroy it and scan for leftovers. It costs money.

    Without --record the record is docs/acceptance/<day>-<providers>.json.

    Exit status: 0 every step succeeded, 1 a step failed, 2 the input is wrong: nothing was started.
    """
    (config, fleet), day = read_stack(stack), day_of()
    require_possible(fleet, repository or "")
    _, worst = total(bill(fleet, day))
    shell, scan = Shell(ROOT), Scan(config.project, stack, fleet)
    with tempfile.TemporaryDirectory() as folder:
        script = Steps(stack, config.path, fleet, shell, Path(folder), scan, repository or "").script()
        budget, most = amount(budget_usd), seconds(minutes, script)
        shell.say(bounded(script, worst, budget, most))
        if not yes:
            _ask(stack)
        run = Run(shell, script, worst.usd, budget, keep, most)
        run.run()
    path = record_file or ROOT / record.path_of(day, fleet, run.ok)
    write_record(path, record.document(run, fleet, day, os.environ))
    summary(run, path, stack)
    raise typer.Exit(0 if run.ok else 1)


def require_possible(fleet: Fleet, repository: str) -> None:
    """Raise InputError if a whole run cannot succeed with this stack."""
    if not fleet.deployable:
        raise InputError("stack: pulumi up creates nothing of this stack; give one with EKS, OKE or existing clusters")
    for name, cluster in fleet.clusters_by_name():
        if cluster.protect:
            why = f"clusters.{name}.protect: is true, so the stack cannot be destroyed"
            raise InputError(f"{why}; remove it, or give another stack")
    if not fleet.tags:
        raise InputError("tags: must have an entry, which the edit changes; add gpu-ci:tags to the stack file")
    if repository and (repository.count("/") != 1 or repository.startswith("-")):
        raise InputError(f"--repository: must be ORG/REPO; got {quoted(repository)}")
    if repository and not any(fleet.runner_sets()):
        raise InputError("--repository: the stack has no runner set; leave the option out")
    if not repository and not tested(fleet):
        why = "--repository: no GPU pool of the stack can run a smoke test, so a job of GitHub is needed"
        raise InputError(f"{why}; give ORG/REPO")


def amount(text: str) -> float:
    """USD. Raises InputError if it is not an amount above 0."""
    with suppress(ValueError):
        if 0 < (usd := float(text)) < math.inf:
            return usd
    raise InputError(f"--budget-usd: must be a number of USD above 0; got {quoted(text)}; give BUDGET_USD=25")


def seconds(minutes: int | None, script: Script) -> float:
    """The most seconds of a run. Raises InputError if they leave no time before the end."""
    if minutes is None:
        return math.inf
    if minutes * 60 <= script.ending:
        why = f"--minutes: must be above {script.ending / 60:.0f}, which destroy and leftovers may take"
        raise InputError(f"{why}; got {minutes}")
    return minutes * 60


def bounded(script: Script, worst: Money, budget: float, longest: float = math.inf) -> str:
    """A line that says what the run costs at most. Raises InputError if that is unknown or more than the budget in USD."""
    if worst.unknown:
        raise InputError(f"--budget-usd: the plan does not know the price of {worst.unknown} items, so no budget is safe")
    hours, most = script.hours(longest), script.bound(worst.usd, longest)
    cost = f"{worst} USD in the worst hour x {hours:.2f} hours at the longest = {most:.2f} USD"
    if most > budget:
        enough = math.ceil(most)
        why = f"--budget-usd: must cover {cost}; got {budget:.2f}"
        raise InputError(f"{why}; lower nodes.max of the pools, or give BUDGET_USD={enough}")
    return f"This costs at most {cost}, within {budget:.2f} USD. Traffic and taxes are not included."


def _ask(stack: str) -> None:
    if not sys.stdin.isatty():
        raise InputError("--yes: must be given without a terminal")
    if typer.prompt(f"It creates and destroys the stack {stack}. Type its name to start") != stack:
        raise InputError("stack: the name differs; nothing was started")


def summary(run: Run, path: Path, stack: str) -> None:
    """Print each step with its time, what to do now, and where the record is."""
    run.shell.say("")
    for result in run.all_results:
        run.shell.say(f"{result.status:<8}{result.step.name:<12}{result.seconds:>7.0f} s  {result.why}".rstrip())
    unfinished = any(result.step.name in ("destroy", "leftovers") and result.status == "failed" for result in run.results)
    if run.keep or unfinished:
        fix = f"Delete it: pulumi destroy --stack {stack}; then what the step leftovers lists"
        run.shell.say(f"The stack may still exist, at up to {run.worst:.2f} USD an hour. {fix}")
    run.shell.say(f"{'ACCEPTED' if run.ok else 'FAILED'}: the record is {path}")
