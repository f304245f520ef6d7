"""The rules of the pack: the `RULE` of every module in this folder that has one. A rule's own `order` gives its place."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from .rule import Rule, Section, StackRule

AnyRule = Rule | StackRule


def _rules() -> Iterator[AnyRule]:
    for module in iter_modules(__path__):
        rule = getattr(import_module(f"{__name__}.{module.name}"), "RULE", None)
        if isinstance(rule, AnyRule):
            yield rule


RULES: tuple[AnyRule, ...] = tuple(
    sorted(_rules(), key=lambda rule: (tuple(Section).index(rule.order[0]), rule.order[1], rule.id))
)
"""Every rule, by section and by place in it."""

CATALOGUE: dict[Section, tuple[AnyRule, ...]] = {
    section: tuple(rule for rule in RULES if rule.order[0] is section) for section in Section
}
"""The rules of each section."""

__all__ = ["CATALOGUE", "RULES", "AnyRule", "Rule", "StackRule"]
