"""YAML 1.2 as plain data, parsed in C: a chart renders megabytes, and a parser in Python takes minutes for those."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML with the core schema of YAML 1.2: `yes` and `on` are text, `010` is ten, and a key may appear once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping. Raises ConstructorError for a repeated key."""
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise ConstructorError(None, None, "a key is there twice", node.start_mark)
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return made

    def construct_number(self, node: Any) -> int:
        """An integer: decimal, 0x or 0o."""
        text: str = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor(_TAG + "int", _Loader.construct_number)


def read_all(text: str) -> list[Any]:
    """The documents of a text."""
    return list(yaml.load_all(text, Loader=_Loader))


def read(text: str) -> Any:
    """The one document of a text."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a safe loader
