"""Functions that show a text without credentials, whose forms are in `data/credentials.toml`.

Standard library only, because the published policy pack contains this module.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from fleet.facts.tables import toml

HIDDEN = "***"
"""The replacement for a credential."""

_NAMED: dict[str, str] = toml("credentials.toml")["patterns"]
"""Patterns that the forms name."""
GITHUB_TOKEN, GITHUB_FINE_GRAINED_TOKEN = _NAMED["github-token"], _NAMED["fine-grained-token"]
AWS_KEY_ID, PRIVATE_KEY = _NAMED["aws-key-id"], _NAMED["private-key"]

_Form = tuple[str, re.Pattern[str]]
"""A form of credential: what every text with it contains in lower case, and its pattern. The group `head` may be shown."""


def _forms(certainty: str) -> tuple[_Form, ...]:
    rows = [{"head": "", **row} for row in toml("credentials.toml")[certainty]]
    filled = partial(re.sub, "<([a-z-]+)>", lambda name: _NAMED[name[1]])
    texts = ((row["mark"], filled(row["head"]), filled(row["body"])) for row in rows)
    return tuple((mark, re.compile(f"(?P<head>{head}){body}")) for mark, head, body in texts)


_CERTAIN = _forms("certain")
"""Forms that only credentials have."""
_LIKELY = _forms("likely")
"""Forms that other texts may have too. Hiding one of those does no harm."""


def mask(text: str) -> str:
    """The text with `***` for every credential. Mask a text before you cut it: half a credential may match no pattern."""
    lower = text.lower()
    for mark, pattern in (*_CERTAIN, *_LIKELY):
        if mark in lower:
            text = pattern.sub(rf"\g<head>{HIDDEN}", text)
    return text


def masked(value: Any) -> Any:
    """Plain data with every text masked, including keys."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {masked(key): masked(entry) for key, entry in value.items()}
    return [masked(entry) for entry in value] if isinstance(value, list | tuple) else value


def holds_credential(text: str) -> bool:
    """Whether a text contains one of the forms that only credentials have."""
    lower = text.lower()
    return any(mark in lower and pattern.search(text) for mark, pattern in _CERTAIN)
