"""Agrees to more: plans a stack, and finds the policy values that refuse its fleet and that the fleet needs.

The plan after the change is made of exactly the texts that `replace_files` writes.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from difflib import unified_diff
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError
from fleet.loading.files import from_here
from gpu_ci.offline.inventory.page import document
from gpu_ci.offline.plan import Plan, Progress, make_plan
from gpu_ci.offline.policyconfig import STACKS, policy_configs, policy_settings, stacks_text
from gpu_ci.offline.policyvalues import Entry, grown
from gpu_ci.offline.tomltables import edited

Files = Mapping[str, tuple[str, str]]
"""The text of each file before ("" if there is none) and after, by path below the project."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The plan with today's policy values and with the new ones, and the files that change. `source` is the one people edit."""

    before: Plan
    after: Plan
    source: str
    files: Files

    @property
    def diff(self) -> str:
        """The unified diff of the file that people edit; "" if no value changes."""
        old, new = (text.splitlines(keepends=True) for text in self.files.get(self.source, ("", "")))
        return "".join(unified_diff(old, new, f"a/{self.source}", f"b/{self.source}"))

    @property
    def left(self) -> str:
        """Where a person edits what no computed value admits: in the stack file, or in the entry of a policy."""
        stack, rules = self.after.config.stack, dict.fromkeys(verdict.rule for verdict in self.after.blocked())
        entries = ", ".join(f"[{stack}.{rule}]" if self.source == STACKS else rule for rule in rules)
        values = f", or {entries} in {self.source} (docs/policies.md)" if entries else ""
        return f"agree has no value for this, and wrote nothing. Edit {from_here(self.after.config.path)}{values}."


def agreement(stack: str, root: Path, file: Path | None, day: date, progress: Progress = lambda _: None) -> Agreement:
    """What a stack needs to pass its policies. Changes nothing. Raises InputError for a stack without policy values."""
    config = f"policies/config/{stack}.json"
    tables = tomllib.loads(stacks_text(root))
    source = STACKS if stack in tables else config
    if source == config and not (root / config).is_file():
        raise InputError(
            f"{STACKS}: has no [{stack}], and there is no {config}; write the header [{stack}] with the stack's kind, such as "
            f'kind = "staging", or make a new stack by gpu-ci init'
        )
    text = text_at(root / source)
    with TemporaryDirectory(prefix="gpu-ci-agree-") as name:
        folder = Path(name)
        (folder / config).parent.mkdir(parents=True)

        def planned(values: str) -> Plan:
            (folder / source).write_text(values, encoding="utf-8", newline="")
            if source == STACKS:
                (folder / config).write_text(policy_configs(folder)[config], encoding="utf-8")
            return make_plan(stack, root, file, progress, day, policies_of=folder)

        before = after = planned(text)
        entries = tables[stack] if source == STACKS else dict(policy_settings(stack, folder))
        if changes := grown(before, entries):
            if source == STACKS:
                text = with_entries(text, stack, changes)
            else:
                text = json.dumps({**entries, **changes}, indent=2, ensure_ascii=False) + "\n"
            after = planned(text)
        made = {path: text_at(folder / path) for path in (source, config)}
    if file is None and not after.refused:
        made |= inventory(after, root)
    old = {path: text_at(root / path) for path in made}
    return Agreement(before, after, source, {path: (old[path], new) for path, new in made.items() if old[path] != new})


def with_entries(text: str, stack: str, changes: Mapping[str, Entry]) -> str:
    """The text of stacks.toml with these entries. Raises InputError."""
    try:
        return reduce(lambda made, policy: edited(made, (stack, policy), changes[policy], "why"), changes, text)
    except ValueError:
        headers = ", ".join(f"[{stack}.{policy}]" for policy in changes)
        form = f"cannot be edited in the form that it has; write {headers} with a key on each line"
        raise InputError(f"{STACKS}: {stack}: {form}") from None


def inventory(plan: Plan, root: Path) -> dict[str, str]:
    """The inventory page of a stack by its path below the project, if the project has one."""
    page = f"docs/inventory-{plan.config.stack}.md"
    return {page: document(plan.config.stack, plan.fleet)} if (root / page).is_file() else {}


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
