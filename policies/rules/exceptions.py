"""Exceptions from a rule: by URN pattern, with a reason and an expiry day.

They are part of the rule's config. An expired exception is a violation of every resource that it excused, so that it is not
forgotten.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from .read import count, line, shown, text

PROPERTY = "exceptions"
STACK = "stack"
"""The URN pattern for what a stack rule reports about the stack as a whole."""

EXCEPTIONS: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "urn": {"type": "string", "pattern": "[^*]"},
            "reason": {"type": "string", "minLength": 10},
            "expires": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        },
        "required": ["urn", "reason", "expires"],
        "additionalProperties": False,
    },
    "default": [],
    "description": ("Resources that this policy ignores: a URN (* matches any text), the reason, and the last day (YYYY-MM-DD)."),
}
"""JSON schema of the property."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """The exception that excuses a resource, if any, and messages about expired exceptions."""

    name: str = ""
    why: str = ""
    expires: str = ""
    faults: tuple[str, ...] = ()

    @property
    def excused(self) -> bool:
        """Whether a valid exception covers the resource."""
        return bool(self.name)

    def reason(self, hidden: list[str]) -> str:
        """What the exception hides and why, for people."""
        more = f", and {len(hidden) - 1} more" if len(hidden) > 1 else ""
        return f"{self.name}, until {self.expires}: {line(self.why, 200)}; it hides: {hidden[0]}{more}"


_NONE = Exemption()


def exemption(config: Mapping[str, Any], urn: str, as_of: date) -> Exemption:
    """The exception that covers the resource of this URN on the day `as_of`."""
    if not config.get(PROPERTY):
        return _NONE
    excusing, faults = _NONE, []
    for entry in _entries(config):
        if not matches(entry.urn, urn):
            continue
        if (fault := entry.fault(as_of)) is not None:
            faults.append(fault)
        elif not excusing.excused:
            excusing = Exemption(entry.name, entry.reason, entry.expires)
    return Exemption(excusing.name, excusing.why, excusing.expires, tuple(faults))


def expired(config: Mapping[str, Any], as_of: date) -> Iterator[str]:
    """Messages for all expired exceptions, whatever they match."""
    return (fault for entry in _entries(config) if (fault := entry.fault(as_of)) is not None)


def matches(pattern: str, urn: str) -> bool:
    """Whether a URN matches a pattern, in which * matches any text."""
    return _compiled(pattern).fullmatch(urn) is not None


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    urn: str
    reason: str
    expires: str

    def fault(self, as_of: date) -> str | None:
        """Why the exception is not valid on that day; None if it is."""
        try:
            expires = date.fromisoformat(self.expires)
        except ValueError:
            return f"{self.name}.expires is {shown(self.expires)}: no such day; write YYYY-MM-DD"
        if as_of <= expires:
            return None
        return (
            f"{self.name} ({shown(self.urn)}) expired on {expires}: an expired exception is a violation; "
            "fix what it excused and remove it, or give it a new day and reason"
        )


def _entries(config: Mapping[str, Any]) -> Iterator[_Entry]:
    """The entries in order. The engine checks the config against the schema; this skips entries that are not objects."""
    entries = config.get(PROPERTY)
    for index in range(count(entries)):
        entry = entries[index]  # type: ignore[index]  # count says that it is a list
        if isinstance(entry, Mapping):
            fields = (text(entry.get(key)) for key in ("urn", "reason", "expires"))
            yield _Entry(f"{PROPERTY}[{index}]", *fields)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
