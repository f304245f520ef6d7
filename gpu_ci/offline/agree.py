"""Changes of a stack's files: edits of its stack file, and the policy values that refuse its fleet and that the fleet needs.

The plan after the change is made of exactly the texts that `replace_files` writes.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from difflib import unified_diff
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import typer

from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.facts.record import Record
from fleet.loading.files import from_here
from fleet.loading.home import ROOT
from gpu_ci.app import AsOf, File, Yes, console, reply
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.init.questions import confirmed
from gpu_ci.offline.inventory.page import document
from gpu_ci.offline.plan import Plan, make_plan, require_sdk
from gpu_ci.offline.policyconfig import STACKS, config_path, policy_configs, policy_settings, stacks_text
from gpu_ci.offline.policyvalues import Entry, grown
from gpu_ci.offline.progress import Progress, Stages, quiet
from gpu_ci.offline.report import effect_lines
from gpu_ci.offline.tomltables import edited

Files = Mapping[str, tuple[str, str]]
"""The text of each file before ("" if there is none) and after, by path below the project."""


class Agreement(NamedTuple):
    """The plan with today's policy values and with the new ones, and the files that change. `source` is the one people edit."""

    before: Plan
    after: Plan
    source: str
    files: Files

    @property
    def diff(self) -> str:
        """The unified diff of the file that people edit; "" if no value changes."""
        return _diff(self.source, *self.files.get(self.source, ("", "")))

    @property
    def left(self) -> str:
        """Where a person edits what no computed value admits: in the stack file, or in the entry of a policy."""
        stack, rules = self.after.config.stack, dict.fromkeys(verdict.rule for verdict in self.after.blocked())
        entries = ", ".join(f"[{stack}.{rule}]" if self.source == STACKS else rule for rule in rules)
        values = f", or {entries} in {self.source} (docs/policies.md)" if entries else ""
        return f"agree has no value for this, and wrote nothing. Edit {from_here(self.after.config.path)}{values}."


def _diff(name: str, before: str, after: str) -> str:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(unified_diff(old, new, f"a/{name}", f"b/{name}"))


def agreement(stack: str, root: Path, file: Path | None, day: date, progress: Stages = quiet, *, page: bool = True) -> Agreement:
    """What a stack needs to pass its policies. Changes nothing. Raises InputError for a stack without policy values.

    `page`: whether the stack's inventory changes with it. It is that of the stack's usual file.
    """
    config = config_path(stack)
    tables = tomllib.loads(stacks_text(root))
    if (source := STACKS if stack in tables else config) == config and not (root / config).is_file():
        fix = f'write the header [{stack}] with the stack\'s kind, such as kind = "staging", or make a new stack by gpu-ci init'
        raise InputError(f"{STACKS}: has no [{stack}], and there is no {config}; {fix}")
    text = text_at(root / source)
    planned = partial(plan_with, stack, root, file, source, progress=progress, as_of=day)
    before, made = planned(text)
    after = before
    entries = tables[stack] if source == STACKS else dict(policy_settings(stack, root))
    if changes := grown(before, entries):
        if source == STACKS:
            text = with_entries(text, stack, changes)
        else:
            text = json.dumps({**entries, **changes}, indent=2, ensure_ascii=False) + "\n"
        after, made = planned(text)
    inventory = f"docs/inventory-{stack}.md"
    if page and not after.refused and (root / inventory).is_file():
        made[inventory] = document(stack, after.fleet)
    old = {path: text_at(root / path) for path in made}
    return Agreement(before, after, source, {path: (old[path], new) for path, new in made.items() if old[path] != new})


def plan_with(stack: str, root: Path, file: Path | None, source: str, values: str, **how: Any) -> tuple[Plan, dict[str, str]]:
    """The plan of a stack if `source` had these policy values, and the texts of the files that then have them.

    `how` are more arguments of `make_plan`.
    """
    config = config_path(stack)
    with TemporaryDirectory(prefix="gpu-ci-") as name:
        folder = Path(name)
        (folder / config).parent.mkdir(parents=True)
        (folder / source).write_text(values, encoding="utf-8", newline="")
        made = {source: values} | ({config: policy_configs(folder)[config]} if source == STACKS else {})
        (folder / config).write_text(made[config], encoding="utf-8", newline="")
        return make_plan(stack, root, file, **how, policies_of=folder), made


def with_entries(text: str, stack: str, changes: Mapping[str, Entry]) -> str:
    """The text of stacks.toml with these entries. Raises InputError."""
    try:
        return reduce(lambda made, policy: edited(made, (stack, policy), changes[policy], "why"), changes, text)
    except ValueError:
        headers = ", ".join(f"[{stack}.{policy}]" for policy in changes)
        form = f"cannot be edited in the form that it has; write {headers} with a key on each line"
        raise InputError(f"{STACKS}: {stack}: {form}") from None


def text_at(path: Path) -> str:
    """The text with its own line ends; "" if there is no file."""
    return path.read_bytes().decode() if path.is_file() else ""


def replace_files(files: Files, root: Path) -> None:
    """Write all files, or none. Raises InputError if one changed meanwhile or if a folder cannot be written."""
    drafts = {path: root / f"{path}.{os.getpid()}.new" for path in files}
    done: list[str] = []
    try:
        for path, (old, new) in files.items():
            if text_at(root / path) != old:
                raise InputError(f"{path}: changed since it was read; run the command again")
            drafts[path].parent.mkdir(exist_ok=True)
            drafts[path].write_text(new, encoding="utf-8", newline="")
        for path, draft in drafts.items():
            if files[path][0]:
                draft.replace(root / path)
            else:
                # Unlike a rename, a link never replaces a file.
                (root / path).hardlink_to(draft)
            done.append(path)
    except BaseException as error:
        for path in done:
            if files[path][0]:
                (root / path).write_text(files[path][0], encoding="utf-8", newline="")
            else:
                (root / path).unlink()
        if isinstance(error, OSError):
            raise InputError(f"STACK: cannot be written ({error.strerror or error}); make the folder writable") from error
        raise
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


# -- edits of a stack file ---------------------------------------------------------------------------------------------


class Edit(Record, kw_only=True):
    """Options of every command that shows a change of a stack's files, asks, and then writes it."""

    file: File = None
    yes: Yes = False
    as_of: AsOf = None


@contextmanager
def growing(stack: str, edit: Edit) -> Iterator[GrowingStack]:
    """The stack to edit. After the edits it shows the change, and writes it if a person or --yes agrees.

    Exits with 1 after a no. Without a terminal --yes is required.
    """
    require_sdk("add, remove")
    grown_stack = GrowingStack(stack, ROOT, edit.file)
    yield grown_stack
    _finish(grown_stack, edit)


def _finish(stack: GrowingStack, edit: Edit) -> None:
    before, agreed = _planned(stack, edit)
    name = str(stack.path.relative_to(stack.root) if stack.path.is_relative_to(stack.root) else stack.path)
    old, new = stack.before, stack.draft.text
    lines = (*stack.notes, *effect_lines(Comparison(before, agreed.after)))
    require_consent(_diff(name, old, new) + agreed.diff, lines, "Write this?", edit)
    # Last: a command that is killed before it leaves the old fleet.
    files = {**agreed.files, name: (old, new)}
    replace_files(files, stack.root)
    out = console()
    together = " Commit them together." if len(files) > 1 else ""
    out.print(f"Wrote {', '.join(files)}.{together}")
    if new.count("REPLACE") > old.count("REPLACE"):
        out.print(f"Some of it only you know: `grep -n -A1 REPLACE {name}` lists these lines.")


def require_consent(diff: str, lines: Iterable[str], question: str, edit: Edit) -> None:
    """Print a change and what it does. Exits with 1 unless --yes or a person agrees."""
    reply(diff)
    out = console()
    for line in lines:
        out.print(line)
    if not edit.yes and not confirmed(question):
        out.print("Nothing was written.")
        raise typer.Exit(1)


def _planned(stack: GrowingStack, edit: Edit) -> tuple[Plan, Agreement]:
    """The plan before the edits, and the one after them with the policy values that it needs. Nothing is written.

    Raises InputError if the settings are wrong, if the plan does not pass, and for a change that `pulumi up` refuses.
    """
    day = day_of(edit.as_of)
    with Progress() as progress, TemporaryDirectory(prefix="gpu-ci-") as folder:
        stack.grown()
        before = make_plan(stack.stack, stack.root, stack.path, progress, day)
        agreed = agreement(stack.stack, stack.root, stack.written(Path(folder)), day, progress, page=edit.file is None)
    after = agreed.after
    faults = [refusal.error for refusal in after.refused] + [f"{verdict.rule}: {verdict.message}" for verdict in after.blocked()]
    faults += [change.what for change in Comparison(before, after).changes if change.is_refused]
    if faults:
        raise InputError("\n".join(f"after this edit: {fault}" for fault in dict.fromkeys(faults)))
    return before, agreed
