"""Finds the smallest change of a stack's policy values that admits a plan, and writes it as a unified diff.

It changes numbers and lists of strings, never a level, a flag or an exception. No policy declares which value bounds what: each
number is moved as far as its schema allows, then back towards its old value while the policy still gives no more violations, and
the policy judges each step. The entries that a list lacks are those that the policy's messages name (`policies.rules.rule`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from fleet.facts.errors import InputError
from gpu_ci.offline.configschema import faults
from gpu_ci.offline.ended import ENDED
from gpu_ci.offline.judge import Configured, Verdict, configure, judge
from gpu_ci.offline.naming import named
from gpu_ci.offline.plan import Plan, blocked_of
from gpu_ci.offline.policyconfig import STACKS, stacks_text
from gpu_ci.offline.policyfile import policy_settings
from gpu_ci.offline.words import alike, counted
from policies.rules import RULES, AnyRule
from policies.rules.rule import ADDED

_FARTHEST = 10**6
"""The farthest that a number without a bound in its schema is moved."""
_CENTS = 100
"""Numbers that need not be whole, such as USD an hour, are found to the cent."""
_ROUNDS = 4
"""A list is read again after entries were added: with them, a policy may go on to its next fault."""
_WIDTH = 130

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Agreement:
    """The values that admit a plan, by policy, their diff, and the verdicts that fail the plan with these values too."""

    values: Mapping[str, Values]
    diff: str
    left: tuple[Verdict, ...]


def agree(plan: Plan, root: Path) -> Agreement:
    """The smallest change of the policy values of a plan's stack; `root` has the files. A plan without failures needs none."""
    if plan.recording is None or not plan.broken:
        return Agreement({}, "", ())
    failing = {verdict.rule for verdict in plan.broken}
    values = {}
    for configured in plan.policies:
        if configured.policy.id in failing and (found := _Search(plan, configured).found()):
            values[configured.policy.id] = found
    # The policies judge the plan again with all new values, as the next plan does.
    left = _judged(plan, [_with(each, values.get(each.policy.id, {}), plan) for each in plan.policies])
    return Agreement(values, _diff(plan.config.stack, values, root), left)


def lines(agreement: Agreement) -> Iterator[str]:
    """What a person should know before they read the diff."""
    names = ", ".join(f"{policy}.{name}" for policy, found in agreement.values.items() for name in found)
    if names:
        yield f"This change of policy values admits {'a part of ' if agreement.left else ''}the plan: {names}."
        yield "Review it and correct each why. Apply the diff with git apply, then run gpu-ci policy-config."
    elif not agreement.left:
        yield "No policy fails the plan, so no policy value needs a change."
    for verdict, found in alike(agreement.left):
        where = found[0] if len(found) == 1 else counted(len(found), "resource", "resources")
        yield f"No policy value admits {verdict.rule}; change the stack, or the policy's level: {where}: {verdict.message}"


# -- the values --------------------------------------------------------------------------------------------------------


def _judged(plan: Plan, policies: Sequence[Configured]) -> tuple[Verdict, ...]:
    if plan.recording is None:
        return ()
    ended = {replace(verdict, kind="violation") for verdict in plan.verdicts if verdict.kind == ENDED}
    return blocked_of(verdict for verdict in named(plan.config, judge(plan.recording, policies)) if verdict not in ended)


def _rule(configured: Configured) -> AnyRule:
    return next(rule for rule in RULES if rule.id == configured.policy.id)


def _with(configured: Configured, values: Values, plan: Plan) -> Configured:
    """The policy with these values on top of its own."""
    if not values:
        return configured
    rule = _rule(configured)
    entry = {**configured.config, **values, "enforcementLevel": configured.level.value}
    return configure([rule], {rule.id: entry}, plan.as_of)[0]


class _Search:
    """Looks for the values of one policy that leave the fewest violations."""

    def __init__(self, plan: Plan, configured: Configured) -> None:
        self._plan = plan
        self._configured = configured
        rule = _rule(configured)
        self._numbers = {name: schema for name, schema in rule.config.items() if schema.get("type") in ("integer", "number")}
        self._lists = {
            name: schema["items"]
            for name, schema in rule.config.items()
            if schema.get("type") == "array" and schema.get("items", {}).get("type") == "string"
        }
        self._old = {name: configured.config[name] for name in (*self._numbers, *self._lists)}

    def found(self) -> dict[str, Any]:
        """The values that change, by property; none if no number and no list admits anything."""
        before = len(self._left({}))
        values: dict[str, Any] = {}
        for _ in range(_ROUNDS):
            known, values = values, self._extended(self._moved(values))
            if values == known:
                break
        least = len(self._left(values))
        if least >= before:
            return {}
        for name in self._lists:
            self._shorten(name, values, least)
        for name, schema in self._numbers.items():
            self._shrink(name, schema, values, least)
        return {name: value for name, value in values.items() if value != self._old[name]}

    def _left(self, values: Values) -> tuple[Verdict, ...]:
        return _judged(self._plan, [_with(self._configured, values, self._plan)])

    def _moved(self, values: dict[str, Any]) -> dict[str, Any]:
        """Each number at the end of its range that leaves fewer violations."""
        moved = {name: values.get(name, self._ends(name)[1]) for name in self._numbers}
        values = {**values, **moved}
        for name in self._numbers:
            values = min(
                ({**values, name: end} for end in (values[name], *self._ends(name))), key=lambda each: len(self._left(each))
            )
        return values

    def _ends(self, name: str) -> tuple[float, float]:
        schema = self._numbers[name]
        return schema.get("minimum", 0), schema.get("maximum", _FARTHEST)

    def _extended(self, values: dict[str, Any]) -> dict[str, Any]:
        """The lists with the entries that messages name as missing."""
        for verdict in self._left(values):
            for added, name in ADDED.findall(verdict.message):
                known = [*values.get(name, self._old.get(name, ()))]
                if name in self._lists and added not in known and not faults(self._lists[name], added, name):
                    values = {**values, name: [*known, added]}
        return values

    def _shorten(self, name: str, values: dict[str, Any], least: int) -> None:
        """Remove entries that are not needed, and the change of a list that needs none."""
        for added in [each for each in values.get(name, ()) if each not in self._old[name]]:
            without = [each for each in values[name] if each != added]
            if len(self._left({**values, name: without})) <= least:
                values[name] = without

    def _shrink(self, name: str, schema: Mapping[str, Any], values: dict[str, Any], least: int) -> None:
        """Move a number back to its old value, as far as it leaves no more violations."""
        scale = 1 if schema["type"] == "integer" else _CENTS
        end, old = values[name], self._old[name]

        def holds(steps: int) -> bool:
            return len(self._left({**values, name: self._stepped(old, end, steps, scale)})) <= least

        low, high = 0, 0 if holds(0) else round(abs(end - old) * scale) + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        values[name] = self._stepped(old, end, low, scale)

    @staticmethod
    def _stepped(old: float, end: float, steps: int, scale: int) -> float:
        """The value that many steps from the old one towards the end; after the first step on a whole step."""
        if not steps:
            return old
        up = end > old
        start = (old * scale) // 1 if up else -((-old * scale) // 1)
        found = (start + steps if up else start - steps) / scale
        bounded = min(found, end) if up else max(found, end)
        return int(bounded) if bounded == int(bounded) else bounded


# -- the diff ----------------------------------------------------------------------------------------------------------


def _diff(stack: str, values: Mapping[str, Values], root: Path) -> str:
    """The diff of the file in which a person sets the stack's values; "" for no values."""
    if not values:
        return ""
    text = stacks_text(root)
    if stack in tomllib.loads(text):
        return _unified(STACKS, text, _edited(text, stack, values))
    name = f"policies/config/{stack}.json"
    before = (root / name).read_text(encoding="utf-8") if (root / name).is_file() else ""
    settings = dict(policy_settings(stack, root))
    for policy, found in values.items():
        entry: Any = settings.get(policy, {})
        settings[policy] = {**({"enforcementLevel": entry} if isinstance(entry, str) else entry), **found}
    return _unified(name, before, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")


def _unified(name: str, before: str, after: str) -> str:
    old = f"a/{name}" if before else "/dev/null"
    changes = unified_diff(before.splitlines(True), after.splitlines(True), old, f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)


def _edited(text: str, stack: str, values: Mapping[str, Values]) -> str:
    """The TOML with these values; all else keeps its words and its place. Raises InputError for a table without a header."""
    found = text.splitlines(keepends=True)
    written = tomllib.loads(text)[stack]
    for keys in ([stack], *([stack, policy] for policy in values if policy in written)):
        if not any(_header(keys, r"[.\]]").match(line) for line in found):
            table = ".".join(keys)
            raise InputError(f"{STACKS}: {table}: --agree changes only tables that have a header; write the header [{table}]")
    for policy, changes in values.items():
        span = _table(found, [stack, policy])
        if span is None:
            names = ", ".join(changes)
            added = [f"[{stack}.{policy}]\n", *(_pair(name, value) for name, value in changes.items())]
            added.append(f'why = "Proposed by --agree for {names}; say why this stack needs it."\n')
            end = _end_of_stack(found, stack)
            found[end:end] = ["\n", *added]
            continue
        for name, value in changes.items():
            start, end = _table(found, [stack, policy]) or (0, 0)
            line, after = _key(found, name, start, end) or (start, start)
            found[line:after] = [_pair(name, value)]
        start, end = _table(found, [stack, policy]) or (0, 0)
        why = _key(found, "why", start, end)
        if why is not None and "# review" not in found[why[1] - 1]:
            found[why[1] - 1] = f"{found[why[1] - 1].rstrip()}  # review: written for the old {', '.join(changes)}\n"
    return "".join(found)


_ANY_HEADER = re.compile(r"\s*\[")


def _header(keys: Sequence[str], closed: str = r"\]") -> re.Pattern[str]:
    """The header of a table with these keys."""
    dotted = r"\s*\.\s*".join(f"[\"']?{re.escape(key)}[\"']?" for key in keys)
    return re.compile(rf"\s*\[\[?\s*{dotted}\s*{closed}")


def _table(found: Sequence[str], keys: Sequence[str]) -> tuple[int, int] | None:
    """The lines of the table with this header, without the header."""
    start = next((index for index, line in enumerate(found) if _header(keys).match(line)), None)
    if start is None:
        return None
    return start + 1, _next_table(found, start)


def _next_table(found: Sequence[str], start: int) -> int:
    """The line of the next header. A line of a list that begins with a bracket parses by itself as no table."""
    heads = (index for index in range(start + 1, len(found)) if _ANY_HEADER.match(found[index]) and _parses(found[index]))
    return next(heads, len(found))


def _key(found: Sequence[str], name: str, start: int, end: int) -> tuple[int, int] | None:
    """The lines of a key and its value, which may be a list of several lines."""
    for index in range(start, end):
        if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=", found[index]):
            for after in range(index + 1, end + 1):
                if _parses("".join(found[index:after])):
                    return index, after
    return None


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _end_of_stack(found: Sequence[str], stack: str) -> int:
    """The line after the last line of the stack's tables."""
    end = _next_table(found, max(index for index, line in enumerate(found) if _header([stack], r"[.\]]").match(line)))
    while not found[end - 1].strip() or found[end - 1].lstrip().startswith("#"):
        end -= 1
    return end


def _pair(name: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        return f"{name} = {value!r}\n"
    entries = [json.dumps(each, ensure_ascii=False) for each in value]
    short = f"{name} = [{', '.join(entries)}]\n"
    listed = "".join(f"  {each},\n" for each in entries)
    return short if len(short) <= _WIDTH else f"{name} = [\n{listed}]\n"
