"""Plans a new stack from a temporary folder, and then writes its three files, or none.

The policy values of a new stack are its tables for policies/stacks.toml, computed from the fleet that it has.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fleet.facts.errors import InputError
from fleet.facts.pricing import Money, total
from fleet.loading.config import read_fleet
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.settings.budget import MONTH
from gpu_ci.offline.agree import plan_with, replace_files, text_at
from gpu_ci.offline.init.answers import Answers, gpus
from gpu_ci.offline.init.parts import Found, Jobs
from gpu_ci.offline.init.text import text
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.policyconfig import STACKS, config_path, policy_configs, stacks_text
from gpu_ci.offline.policyvalues import new_entries
from gpu_ci.offline.tomltables import table

_MOST, USUAL = 20, 4
"""Nodes of the pool for tests: with a budget at most, and without one. 0 is a single node of the cheapest machine."""


class New(NamedTuple):
    """A planned stack. `files` has the texts by path below the project; `answers` name the chosen GPU."""

    answers: Answers
    files: Mapping[str, str]
    plan: Plan


def require_free(stack: str, root: Path) -> None:
    """Raise InputError if the stack exists: nothing is ever overwritten."""
    config = config_path(stack)
    existing = [name for name in (f"Pulumi.{stack}.yaml", config) if (root / name).exists() or (root / name).is_symlink()]
    existing += [f"{STACKS}: [{stack}]"] * (config in policy_configs(root))
    if existing:
        raise InputError(f"STACK: stack {stack} exists already ({', '.join(existing)}); give another name, or edit these files")


def prepared(answers: Answers, found: Found | None, root: Path, day: date, sets: Sequence[Jobs] = ()) -> New:
    """Choose GPU and sizes, and plan the stack. Nothing below `root` changes. Raises InputError if that gives no clean plan."""
    with TemporaryDirectory(prefix="gpu-ci-init-") as name:
        path = Path(name) / f"Pulumi.{answers.stack}.yaml"
        answers, fleet = _sized(answers, found, path, root, day, sets)
        plan, files = plan_with(answers.stack, root, path, STACKS, stacks_text(root) + tables(answers, fleet, day), as_of=day)
        if faults := [refusal.error for refusal in plan.refused] + [verdict.message for verdict in plan.blocked()]:
            raise InputError(f"the fleet of these answers does not pass its own plan: {faults[0]}; give other answers")
        files = {path.name: path.read_text(encoding="utf-8"), **files}
    return New(answers, files, plan)


def _sized(
    answers: Answers, found: Found | None, path: Path, root: Path, day: date, sets: Sequence[Jobs]
) -> tuple[Answers, Fleet]:
    """Write the stack file: (answers with a GPU, the fleet). A budget has the cheapest GPU, and the most nodes that fit."""
    chosen = replace(answers, gpu=answers.gpu or next(iter(gpus(answers.provider, answers.region)), ""))

    def written(most: int, monthly: int) -> Fleet:
        path.write_text(text(chosen, found, most, monthly, sets), encoding="utf-8")
        return read_fleet(answers.stack, path, root)

    most = USUAL
    if answers.budget is not None:  # more nodes cost more in the worst hour
        sizes = range(_MOST + 1)
        most = bisect_right(sizes, answers.budget, key=lambda most: total(bill.bill(written(most, 1), day))[1].usd) - 1
    idle, worst = total(bill.bill(written(max(most, 0), 1), day))
    if most >= 0:
        return chosen, written(most, monthly_budget(idle, worst))
    costs = f"{worst.usd:.2f} USD in its worst hour ({worst.usd * MONTH:.0f} a month)"
    why = f"--budget: the smallest fleet with {chosen.gpu} for these jobs costs {costs}"
    raise InputError(f"{why}; raise the budget, or name fewer --jobs")


def monthly_budget(idle: Money, worst: Money) -> int:
    """The budget of the alarm in USD: a month without jobs, and 160 hours of the worst case, those of the working days."""
    return math.ceil((idle.usd * MONTH + worst.usd * 160) / 100) * 100


def write(new: New, root: Path) -> None:
    """Write the files, all or none. Raises InputError if one appeared meanwhile or if the folder cannot be written."""
    require_free(new.answers.stack, root)
    replace_files({path: (text_at(root / path), after) for path, after in new.files.items()}, root)


def tables(answers: Answers, fleet: Fleet, day: date) -> str:
    """The stack's tables as TOML, with the values that its kind of stack would refuse and with the ceilings of its money."""
    head = f'\n[{answers.stack}]\nkind = "{answers.kind}"\n'
    entries = new_entries(fleet, answers.kind, day, answers.budget).items()
    return head + "".join(f"\n{table((answers.stack, policy), entry)}" for policy, entry in entries)
