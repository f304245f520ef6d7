"""Writes `docs/policies.md` from the policies and from `policies_head.md`, and fills in the head's words in capitals."""

import inspect
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from gpu_ci.offline.gfm import fold
from policies.rules import RULES, AnyRule, Rule
from policies.rules.kinds import POD
from policies.rules.rule import STACK_KINDS

_HEAD = Path(__file__).parent / "policies_head.md"


def document() -> str:
    """The page."""
    head = _HEAD.read_text(encoding="utf-8").replace("COUNT", str(len(RULES)), 1)
    head = head.replace("KINDS", " | ".join(STACK_KINDS), 1).replace("RULES", "---|" * len(STACK_KINDS), 1)
    return "\n".join((head.rstrip(), *map(_row, RULES), *_groups(), ""))


def _row(rule: AnyRule) -> str:
    levels = " | ".join(rule.levels[kind] for kind in STACK_KINDS)
    remedy, critical = "yes" if _has_remedy(rule) else "", "yes" if rule.critical else ""
    return f"| [{rule.id}](#{rule.id}) | {rule.severity} | {levels} | {remedy} | {critical} |"


def _has_remedy(rule: AnyRule) -> bool:
    return isinstance(rule, Rule) and rule.remedy is not None


def _groups() -> Iterator[str]:
    for name, rules in groupby(RULES, lambda rule: rule.section):
        yield f"\n## {name}"
        for rule in rules:
            yield from _section(rule)


def _section(rule: AnyRule) -> Iterator[str]:
    yield f"\n### {rule.id}\n"
    yield f"**{rule.title}.** {rule.rationale} ([source]({rule.source}))\n"
    yield fold("What it judges, and how to fix it", "\n".join(_details(rule)))


def _details(rule: AnyRule) -> Iterator[str]:
    yield _about(rule)
    together = "one by one" if isinstance(rule, Rule) else "all of the stack together"
    yield f"\n- *Judges*: {'; '.join(_kinds(rule))}; {together}."
    yield f"- *Fix*: {rule.fix}"
    keys = {rule.settings} if isinstance(rule.settings, str) else {*rule.settings.values()}
    if settings := ", ".join(f"`gpu-ci:{key}`" for key in sorted(keys - {""})):
        yield f"- *Settings* of the stack file: {settings}."
    if _has_remedy(rule):
        yield "- *Remediates*: with level remediate, it fixes the resource if it can."
    if rule.config:
        yield "\n| property | default | meaning |\n|---|---|---|"
        for name, schema in rule.config.items():
            default = json.dumps(schema["default"], ensure_ascii=False)
            yield f"| `{name}` | `{_cell(default)}` | {_cell(schema['description'])} |"


def _about(rule: AnyRule) -> str:
    """The docstring of the rule's module, without the name of the rule."""
    first, _, body = inspect.cleandoc(sys.modules[rule.check.__module__].__doc__ or "").partition("\n\n")
    title = first.replace("\n", " ").partition(": ")[2]
    return f"{title[:1].upper()}{title[1:]}\n{chr(10) + body if body else ''}".rstrip()


def _kinds(rule: AnyRule) -> Iterator[str]:
    if rule.types >= POD:
        yield "every kind of Kubernetes with a pod spec, its Patch and its list"
        yield from (f"`{token}`" for token in sorted(rule.types - POD))
    else:
        yield from (f"`{token}`" for token in sorted(rule.types))
    if rule.others is not None:
        yield f"{inspect.getdoc(rule.others)}".removesuffix(".").lower()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
