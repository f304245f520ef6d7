"""Plans a new stack from a temporary folder, and then writes its three files, or none."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError
from fleet.facts.pricing import total
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.settings.budget import MONTH
from gpu_ci.offline.init.answers import Answers, gpus
from gpu_ci.offline.init.found import Found
from gpu_ci.offline.init.limits import tables
from gpu_ci.offline.init.text import text
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.policyconfig import STACKS, policy_configs, stacks_text

_MOST, _USUAL = 20, 4
"""Nodes of the pool for tests: with a budget at most, and without one."""
_WORK = 160
"""Hours of the worst case in a month that the alarm's budget covers: those of the working days."""


@dataclass(frozen=True, slots=True)
class New:
    """A planned stack. `files` has the texts by path below the project; `answers` name the chosen GPU."""

    answers: Answers
    files: Mapping[str, str]
    plan: Plan


def require_free(stack: str, root: Path) -> None:
    """Raise InputError if the stack exists: nothing is ever overwritten."""
    existing = [name for name in _names(stack) if (root / name).exists() or (root / name).is_symlink()]
    existing += [f"{STACKS}: [{stack}]"] * (f"policies/config/{stack}.json" in policy_configs(root))
    if existing:
        raise InputError(f"STACK: stack {stack} exists already ({', '.join(existing)}); give another name, or edit these files")


def _names(stack: str) -> tuple[str, str]:
    return f"Pulumi.{stack}.yaml", f"policies/config/{stack}.json"


def prepared(answers: Answers, found: Found | None, root: Path, day: date) -> New:
    """Choose GPU and sizes, and plan the stack. Nothing below `root` changes. Raises InputError if that gives no clean plan."""
    with TemporaryDirectory(prefix="gpu-ci-init-") as name:
        folder = Path(name)
        stack_file, policies = _names(answers.stack)
        answers, fleet = _sized(answers, found, folder / stack_file, root, day)
        (folder / policies).parent.mkdir(parents=True)
        limits = stacks_text(root) + tables(answers, fleet, day)
        (folder / STACKS).write_text(limits, encoding="utf-8")
        (folder / policies).write_text(policy_configs(folder)[policies], encoding="utf-8")
        plan = make_plan(answers.stack, root, folder / stack_file, as_of=day, policies_of=folder)
        faults = [refusal.error for refusal in plan.refused] + [verdict.message for verdict in plan.blocked()]
        if faults:
            raise InputError(f"the fleet of these answers does not pass its own plan: {faults[0]}; give other answers")
        files = {path: (folder / path).read_text(encoding="utf-8") for path in (stack_file, STACKS, policies)}
    return New(answers, files, plan)


def _sized(answers: Answers, found: Found | None, path: Path, root: Path, day: date) -> tuple[Answers, Fleet]:
    """Write the stack file to `path`: the answers with a GPU, and the fleet. A budget chooses the cheapest GPU, and the most
    nodes that fit."""
    models = gpus(answers.provider, answers.region)
    chosen = answers if answers.gpu or not models else replace(answers, gpu=models[0])

    def written(most: int, monthly: int) -> Fleet:
        path.write_text(text(chosen, found, most, monthly), encoding="utf-8")
        return fleet_of(stackfile.load(answers.stack, root, stack_file=path))

    for most in range(_MOST, 0, -1) if answers.budget is not None else (_USUAL,):
        idle, worst = total(bill.bill(written(most, 1), day))
        if answers.budget is None or worst.usd <= answers.budget:
            return chosen, written(most, math.ceil((idle.usd * MONTH + worst.usd * _WORK) / 100) * 100)
    raise InputError(
        f"--budget: the smallest fleet with {chosen.gpu} that init writes for these jobs costs {worst.usd:.2f} USD in its "
        f"worst hour ({worst.usd * MONTH:.0f} a month); raise the budget, or name fewer --jobs"
    )


def write(new: New, root: Path) -> None:
    """Write the files, all or none. Raises InputError if one appeared meanwhile or if the folder cannot be written."""
    drafts = {name: root / f"{name}.{os.getpid()}.new" for name in new.files}
    written: list[Path] = []
    try:
        require_free(new.answers.stack, root)
        for name, draft in drafts.items():
            draft.parent.mkdir(exist_ok=True)
            draft.write_text(new.files[name], encoding="utf-8")
        for name in _names(new.answers.stack):
            # Unlike a rename, a link never replaces a file.
            (root / name).hardlink_to(drafts[name])
            written.append(root / name)
        drafts[STACKS].replace(root / STACKS)
    except BaseException as error:
        for path in written:
            path.unlink()
        if isinstance(error, OSError):
            raise InputError(f"STACK: cannot be written ({error.strerror or error}); make the folder writable") from error
        raise
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
