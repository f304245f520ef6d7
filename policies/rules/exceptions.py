"""Exceptions from a rule: by URN pattern, with a reason and an expiry day.

They are part of the rule's config. Each is bounded: its pattern names a type and begins a name, its day is near, and its reason
has words. An exception that is expired or not bounded is a violation of every resource that it would excuse, so that it is not
forgotten.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from fleet.facts.day import parsed as day_of
from fleet.facts.record import Record

from .read import Faults, count, line, shown, text

PROPERTY = "exceptions"
STACK = "stack"
"""The URN pattern for what a stack rule reports about the stack as a whole."""
MOST_DAYS = 400
_WORDS = 3
_BOUNDED = re.compile(r"(?:.*[*$:])?[\w.-]+:(?!pulumi:)[\w./-]+:\w+::(?:[^#]*#)?(?:[^*#:]+|[^*#:]{3}[^#]*)")
"""A whole type, `::` and a name, of which at least three characters come before the first `*`. An object of a manifest has its
file and `#` before its name. `urn:pulumi:<stack>` has the form of a type and is not one."""


class Entry(Record):
    """An exception."""

    name: str
    urn: str
    reason: str
    expires: str

    def hides(self, messages: list[str]) -> str:
        """What the exception hides and why, for people."""
        more = f", and {len(messages) - 1} more" if len(messages) > 1 else ""
        return f"{self.name}, until {self.expires}: {line(self.reason, 200)}; it hides: {messages[0]}{more}"

    def unbounded(self, as_of: date) -> Iterator[str]:
        """ "<field>: <rule>; got <value>; <fix>" for each bound that it breaks. Before all other days no day is too far."""
        if self.urn != STACK and not _BOUNDED.fullmatch(self.urn):
            example = "*aws:eks/nodeGroup:NodeGroup::usw2-t4*"
            rule = "must name a whole type and then a name, with three characters or more before a *"
            yield f"{self.name}.urn: {rule}; got {shown(self.urn)}; write it as {example}, or {STACK} for the stack as a whole"
        if len({word.lower() for word in re.findall(r"[^\W\d_]{2,}", self.reason)}) < _WORDS:
            rule, fix = f"must have {_WORDS} different words or more", "say why the violation may stay"
            yield f"{self.name}.reason: {rule}; got {shown(self.reason)}; {fix}"
        if (day := day_of(self.expires)) is not None and as_of > date.min and (day - as_of).days > MOST_DAYS:
            rule, last = f"must be at most {MOST_DAYS} days after {as_of}", as_of + timedelta(MOST_DAYS)
            yield f"{self.name}.expires: {rule}; got {shown(self.expires)}; write {last} or an earlier day"

    def fault(self, as_of: date) -> str | None:
        """Why the exception is not valid on that day; None if it is."""
        if (expires := day_of(self.expires)) is None:
            return f"{self.name}.expires is {shown(self.expires)}: no such day; write YYYY-MM-DD"
        if as_of <= expires:
            return next(self.unbounded(as_of), None)
        rule, fix = "an expired exception is a violation", "fix what it excused and remove it, or give it a new day and reason"
        return f"{self.name} ({shown(self.urn)}) expired on {expires}: {rule}; {fix}"


def exemption(config: Mapping[str, Any], urn: str, as_of: date) -> tuple[Entry | None, list[str]]:
    """The exception that covers the resource of this URN on the day `as_of`, and messages about those that do not any more."""
    if not config.get(PROPERTY):
        return None, []
    entries = [(entry, entry.fault(as_of)) for entry in _entries(config) if matches(entry.urn, urn)]
    excuse = next((entry for entry, fault in entries if fault is None), None)
    return excuse, [fault for _, fault in entries if fault is not None]


def expired(config: Mapping[str, Any], as_of: date) -> Faults:
    """Messages for all expired exceptions, whatever they match."""
    return (fault for entry in _entries(config) if (fault := entry.fault(as_of)) is not None)


def unbounded(config: Mapping[str, Any], as_of: date) -> Faults:
    """Messages for the bounds that exceptions break: see `Entry.unbounded`."""
    return (fault for entry in _entries(config) for fault in entry.unbounded(as_of))


def matches(pattern: str, urn: str) -> bool:
    """Whether a URN matches a pattern, in which * matches any text."""
    return _compiled(pattern).fullmatch(urn) is not None


def _entries(config: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries in order. The engine checks the config against the schema; this skips entries that are not objects."""
    entries = config.get(PROPERTY)
    for index in range(count(entries)):
        entry = entries[index]  # type: ignore[index]  # count says that it is a list
        if isinstance(entry, Mapping):
            fields = (text(entry.get(key)) for key in ("urn", "reason", "expires"))
            yield Entry(f"{PROPERTY}[{index}]", *fields)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
