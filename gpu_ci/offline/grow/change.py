"""An edit of a stack file as a change: its plan before and after, the policy values that it needs, and the files to write."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from fleet.facts.credentials import mask
from fleet.facts.errors import InputError
from fleet.loading.home import ROOT
from gpu_ci.app import AsOf, File, Yes, console
from gpu_ci.offline.agree import Agreement, agreement, inventory, replace_files, text_at
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.day import day_of
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.init.questions import confirmed
from gpu_ci.offline.plan import Plan, make_plan, require_sdk
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.report import effect_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
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
    grown = GrowingStack(stack, ROOT, edit.file)
    yield grown
    _finish(grown, edit)


def _finish(stack: GrowingStack, edit: Edit) -> None:
    with Progress() as progress:
        before, agreed = planned(stack, day_of(edit.as_of), progress)
    name = str(stack.path.relative_to(stack.root) if stack.path.is_relative_to(stack.root) else stack.path)
    old, new = (text.splitlines(keepends=True) for text in (stack.before, stack.draft.text))
    sys.stdout.write(mask("".join(unified_diff(old, new, f"a/{name}", f"b/{name}")) + agreed.diff))
    out = console()
    for line in (*stack.notes, *effect_lines(Comparison(before, agreed.after))):
        out.print(line, markup=False, highlight=False)
    if not edit.yes and not confirmed("Write this?"):
        out.print("Nothing was written.")
        raise typer.Exit(1)
    files = dict(agreed.files)
    # Only the usual file of a stack has an inventory.
    if edit.file is None:
        files |= {page: (text_at(stack.root / page), text) for page, text in inventory(agreed.after, stack.root).items()}
    # Last: a command that is killed before it leaves the old fleet.
    files[name] = stack.before, stack.draft.text
    replace_files(files, stack.root)
    together = " Commit them together." if len(files) > 1 else ""
    out.print(f"Wrote {', '.join(files)}.{together}")
    if stack.draft.text.count("REPLACE") > stack.before.count("REPLACE"):
        out.print(f"Some of it only you know: `grep -n -A1 REPLACE {name}` lists these lines.")


def planned(stack: GrowingStack, day: date, progress: Callable[[str], None]) -> tuple[Plan, Agreement]:
    """The plan before the edits, and the one after them with the policy values that it needs. Nothing is written.

    Raises InputError if the settings are wrong, if the plan does not pass, and for a change that `pulumi up` refuses.
    """
    stack.grown()
    before = make_plan(stack.stack, stack.root, stack.path, progress, day)
    with TemporaryDirectory(prefix="gpu-ci-") as folder:
        agreed = agreement(stack.stack, stack.root, stack.written(Path(folder)), day, progress)
    after = agreed.after
    faults = [refusal.error for refusal in after.refused] + [f"{verdict.rule}: {verdict.message}" for verdict in after.blocked()]
    faults += [change.what for change in Comparison(before, after).changes if change.is_refused]
    if faults:
        raise InputError("\n".join(f"after this edit: {fault}" for fault in dict.fromkeys(faults)))
    return before, agreed
