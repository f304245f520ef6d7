"""An edit of a stack file as a change: its plan before and after, the policy values that it needs, and the files to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError
from gpu_ci.offline.agree import Agreement, Files, agreement
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.inventory.page import document
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.report import effect_lines


@dataclass(frozen=True, slots=True)
class Change:
    """A planned edit. `files` has the texts before and after by path below the project, the stack file last."""

    before: Plan
    agreed: Agreement
    files: Files
    stack_file: str

    @property
    def after(self) -> Plan:
        """The plan after the edit, with the new policy values."""
        return self.agreed.after

    def lines(self) -> Iterator[str]:
        """What `pulumi up` does because of the change, and the price before and after."""
        return effect_lines(Comparison(self.before, self.after))

    def diff(self) -> str:
        """The unified diff of the files that people edit."""
        old, new = (text.splitlines(keepends=True) for text in self.files[self.stack_file])
        return "".join(unified_diff(old, new, f"a/{self.stack_file}", f"b/{self.stack_file}")) + self.agreed.diff


def planned(stack: GrowingStack, day: date, progress: Callable[[str], None], *, own_file: bool) -> Change:
    """Plan the stack before and after its edits. Nothing is written. `own_file`: whether it is the stack's usual file.

    Raises InputError if the settings after the edit are wrong, if its plan does not pass, and for a change that `pulumi up` refuses.
    """
    stack.grown()
    progress("planning the stack as it is")
    before = make_plan(stack.stack, stack.root, stack.path, progress, day)
    with TemporaryDirectory(prefix="gpu-ci-") as folder:
        path = Path(folder) / f"Pulumi.{stack.stack}.yaml"
        path.write_bytes(stack.draft.checked().encode())
        agreed = agreement(stack.stack, stack.root, path, day, progress)
    after = agreed.after
    faults = [refusal.error for refusal in after.refused] + [verdict.message for verdict in after.blocked()]
    faults += [change.what for change in Comparison(before, after).changes if change.is_refused]
    if faults:
        raise InputError("\n".join(f"after this edit: {fault}" for fault in dict.fromkeys(faults)))
    files = dict(agreed.files)
    page = f"docs/inventory-{stack.stack}.md"
    if own_file and (stack.root / page).is_file():
        files[page] = (stack.root / page).read_text(encoding="utf-8"), document(stack.stack, after.fleet)
    name = str(stack.path.relative_to(stack.root) if stack.path.is_relative_to(stack.root) else stack.path)
    # Last: whoever is killed before it has the old fleet.
    files[name] = stack.before, stack.draft.text
    return Change(before, agreed, files, name)
