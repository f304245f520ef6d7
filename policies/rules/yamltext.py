"""YAML that stands as a text in a property, as the plain values that Helm would make of it.

Bounded and total: what is no YAML, is too long, or uses more of YAML than values need (references without end, foreign tags,
merge keys) is not read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite
from typing import Any

import yaml

LONGEST = 65_536
"""Characters of a text that are read at most: reading YAML takes time, and values have a few hundred lines."""
_MOST = 20_000
"""Values in a text, those that references repeat included."""
_TAG = "tag:yaml.org,2002:"
# PyYAML takes 1e3 for a text.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# go-yaml 2, by which Helm reads: YAML 1.1. PyYAML takes no single letters.
_FLAGS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}


@lru_cache(maxsize=64)
def parsed(content: str) -> Any:
    """The values, numbers as floats like those of the wire; {} for an empty text, None for what is not read here."""
    if len(content) > LONGEST:
        return None
    try:
        # The pure loader, for its recursion ends in an exception. Nothing is constructed but here.
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        return {} if node is None else _Reader().value(node)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return None


class _Reader:
    """Makes plain values of nodes; one use."""

    def __init__(self) -> None:
        self._room = _MOST

    def value(self, node: Any) -> Any:
        """The value of a node. Raises ValueError for what values have no need of."""
        self._room -= 1
        if self._room < 0:
            raise ValueError("more values than are read")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.tag.removeprefix(_TAG), node.value, plain=node.style is None)
        if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            raise ValueError("a foreign tag")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        found: dict[str, Any] = {}
        for key, item in node.value:
            name = _key(key)
            if name in found:
                raise ValueError("a key twice")
            found[name] = self.value(item)
        return found


def _key(node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == f"{_TAG}merge":
        raise ValueError("a key that is no text")
    value = _scalar(node.tag.removeprefix(_TAG), node.value, plain=node.style is None)
    # Helm turns the YAML into JSON, whose keys are texts.
    return ("true" if value else "false") if isinstance(value, bool) else node.value


def _scalar(kind: str, written: str, *, plain: bool) -> Any:
    if kind == "null":
        return None
    if kind == "bool" or (kind == "str" and plain and written in ("y", "Y", "n", "N")):
        if (flag := _FLAGS.get(written.lower())) is None:
            raise ValueError("no flag")
        return flag
    if kind in ("int", "float") or (kind == "str" and plain and _FLOAT.fullmatch(written)):
        return _number(written)
    if kind not in ("str", "timestamp", "value"):
        raise ValueError("a foreign tag")
    return written


def _number(written: str) -> float | str:
    """The number as Go reads it; the text where Go reads none (`.inf`, `9:00`)."""
    bare = written.replace("_", "")
    digits = bare.lstrip("+-")
    try:
        return float(int(bare, 8 if digits.isdigit() and digits.startswith("0") else 0))
    except (ValueError, OverflowError):
        pass
    try:
        found = float(bare)
    except ValueError:
        return written
    return found if isfinite(found) else written
