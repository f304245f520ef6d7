"""The rules of the pack: the `RULE` of every module in this folder that has one. A rule's own `order` gives its place."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from .rule import Rule, StackRule

AnyRule = Rule | StackRule


def _rules() -> Iterator[AnyRule]:
    for module in iter_modules(__path__):
        rule = getattr(import_module(f"{__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, AnyRule):
            yield rule


RULES: tuple[AnyRule, ...] = tuple(sorted(_rules(), key=lambda rule: rule.order))
"""Every rule, in the order of docs/policies.md and of a plan."""

__all__ = ["RULES", "AnyRule", "Rule", "StackRule"]
