"""no-silent-eviction: a change that ends running jobs or deletes data needs an approval.

A pack sees no earlier state, so there the rule is undeterminable, once for each stack. `gpu-ci plan --base` knows what each
change does, and checks it by the rule of `of_changes`. An exception with a reason approves a change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .kinds import HELM, POOLS
from .read import Later, UndeterminableError
from .rule import NOTHING, Stack, StackRule, Violation, facts, setting

_UNSEEN = "a pack sees no earlier state; `gpu-ci plan --base` says which running jobs a change ends, and decides"


def _check(stack: Stack, later: Later) -> Iterator[Violation]:
    if stack.resources:
        later.note(UndeterminableError(_UNSEEN))
    return iter(())


RULE = StackRule(**facts(__name__), types=POOLS | HELM, check=_check, in_manifests=NOTHING)


def of_changes(changes: Iterable[Violation]) -> StackRule:
    """The rule for the changes that end running jobs or delete data: what each one does, and the URN of its resource."""
    approve = f"if you want that, approve it with a reason in {setting('exceptions')}"
    return replace(RULE, check=lambda _, __: ((f"{what}; {approve}", urn) for what, urn in changes))
