"""The rules of the pack: the `RULE` of every module in this folder that has one. A rule's own `order` gives its place."""

from importlib import import_module
from pkgutil import iter_modules

from .rule import Rule, StackRule

AnyRule = Rule | StackRule


_MODULES = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
RULES: tuple[AnyRule, ...] = tuple(sorted((each.RULE for each in _MODULES if hasattr(each, "RULE")), key=lambda rule: rule.order))
"""Every rule, in the order of docs/policies.md and of a plan."""

__all__ = ["RULES", "AnyRule", "Rule", "StackRule"]
