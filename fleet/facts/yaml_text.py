"""Writes documents as YAML that every reader takes alike: kubectl's and ArgoCD's of YAML 1.1, others of 1.2."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

_WORD = re.compile(r"[A-Za-z/][A-Za-z0-9_./@= -]*(:[A-Za-z0-9_./@-]+)*")
_RESERVED = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
"""Words that YAML 1.1 or 1.2 reads as something else than text."""


def yaml_text(document: Mapping[str, Any]) -> str:
    """The document in block style, its keys in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Writer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(plain(document), out)
    return out.getvalue()


class _Writer(SafeRepresenter):
    """Quotes whatever a reader could take for a boolean, a number or a time."""

    def text(self, data: str) -> ScalarNode:
        """A text as a scalar."""
        # A space at an end is lost where nothing quotes it.
        plain_word = _WORD.fullmatch(data) and data.lower() not in _RESERVED and data == data.strip()
        several = "\n" in data and all(line.isprintable() for line in data.split("\n"))
        style = None if plain_word else "|" if several else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Writer.add_representer(str, _Writer.text)


def plain(thing: Mapping[str, Any]) -> dict[str, Any]:
    """A copy as plain dicts and lists, which JSON and YAML writers take."""
    return {str(key): _plain(value) for key, value in thing.items()}


def _plain(thing: Any) -> Any:
    if isinstance(thing, Mapping):
        return plain(thing)
    if isinstance(thing, list | tuple):
        return [_plain(each) for each in thing]
    return thing
