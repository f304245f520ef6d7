"""Plans a new stack in a temporary copy of the project, and then writes its three files, or none."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.pricing import total
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.settings.budget import MONTH
from offline.init.answers import Answers, gpus
from offline.init.cluster import Found
from offline.init.limits import tables
from offline.init.text import text
from offline.plan import Plan, make_plan
from offline.policyconfig import STACKS, policy_configs

_MOST, _USUAL, _LEAST = 20, 4, 2
"""Nodes of the pool for tests: with a budget at most, without one, and at least."""
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
    held = [name for name in _names(stack) if (root / name).exists() or (root / name).is_symlink()]
    held += [f"{STACKS}: [{stack}]"] * (f"policies/config/{stack}.json" in policy_configs(root))
    if held:
        raise InputError(f"STACK: stack {stack} exists already ({', '.join(held)}); give another name, or edit these files")


def _names(stack: str) -> tuple[str, str]:
    return f"Pulumi.{stack}.yaml", f"policies/config/{stack}.json"


def prepared(answers: Answers, found: Found | None, root: Path, day: date) -> New:
    """Choose GPU and sizes, and plan the stack. Nothing below `root` changes. Raises InputError if that gives no clean plan."""
    with _copy(root) as folder:
        answers, content, fleet = _sized(answers, found, folder, day)
        (folder / STACKS).write_text((root / STACKS).read_text(encoding="utf-8") + tables(answers, fleet, day), encoding="utf-8")
        stack_file, policies = _names(answers.stack)
        config = policy_configs(folder)[policies]
        (folder / policies).write_text(config, encoding="utf-8")
        plan = make_plan(answers.stack, folder, as_of=day)
        faults = [refusal.why for refusal in plan.refused] + [verdict.message for verdict in plan.broken]
        if faults:
            raise InputError(f"the fleet of these answers does not pass its own plan: {faults[0]}; give other answers")
        return New(answers, {stack_file: content, STACKS: (folder / STACKS).read_text(encoding="utf-8"), policies: config}, plan)


def _sized(answers: Answers, found: Found | None, folder: Path, day: date) -> tuple[Answers, str, Fleet]:
    """The answers with a GPU, the stack file, and its fleet. A budget chooses the cheapest GPU and the most nodes that fit."""
    models = gpus(answers.provider, answers.region)
    chosen = answers if answers.gpu or not models else replace(answers, gpu=models[0])
    sizes = range(_MOST, _LEAST - 1, -1) if answers.budget is not None else (_USUAL,)
    for most in sizes:
        fleet = _fleet(chosen, text(chosen, found, most, 1), folder)
        idle, worst = total(bill.bill(fleet, day))
        if answers.budget is None or worst.usd <= answers.budget:
            monthly = math.ceil((idle.usd * MONTH + worst.usd * _WORK) / 100) * 100
            content = text(chosen, found, most, monthly)
            return chosen, content, _fleet(chosen, content, folder)
    raise InputError(
        f"--budget: the smallest fleet with {chosen.gpu} for these jobs costs {worst.usd:.2f} USD in its worst hour "
        f"({worst.usd * MONTH:.0f} a month); raise the budget, or name fewer --jobs"
    )


def _fleet(answers: Answers, content: str, folder: Path) -> Fleet:
    (folder / _names(answers.stack)[0]).write_text(content, encoding="utf-8")
    return fleet_of(stackfile.load(answers.stack, folder))


@contextmanager
def _copy(root: Path) -> Iterator[Path]:
    """A folder with links to everything that a plan reads, and with an empty folder for policy configs."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ci-init-"))
    try:
        for path in root.iterdir():
            if path.name not in ("policies", ".git", ".venv"):
                (folder / path.name).symlink_to(path)
        (folder / "policies" / "config").mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def write(new: New, root: Path) -> None:
    """Write the files, all or none. Raises InputError if one appeared meanwhile or if the folder cannot be written."""
    drafts = {name: root / f"{name}.{os.getpid()}.new" for name in new.files}
    made: list[Path] = []
    try:
        require_free(new.answers.stack, root)
        for name, draft in drafts.items():
            draft.parent.mkdir(exist_ok=True)
            draft.write_text(new.files[name], encoding="utf-8")
        for name in _names(new.answers.stack):
            # Unlike a rename, a link never replaces a file.
            (root / name).hardlink_to(drafts[name])
            made.append(root / name)
        drafts[STACKS].replace(root / STACKS)
    except BaseException as error:
        for path in made:
            path.unlink()
        if isinstance(error, OSError):
            raise InputError(f"STACK: cannot be written ({error.strerror or error}); make the folder writable") from error
        raise
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
