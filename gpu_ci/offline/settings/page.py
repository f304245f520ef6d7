"""docs/settings.md: the schema of a stack file as tables, in the order in which a user meets the settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.facts.yaml_text import yaml_text
from gpu_ci.offline.settings.schema import Text, stack_schema

_FIRST = ("config", "gpu-ci:github", "gpu-ci:clusters", "pools", "runners", "system", "endpoint", "network", "existing")
"""Keys whose sections come before those of other keys."""
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`", "object": "mapping"}
_WORDS = {"github": "GitHub", "gitops": "GitOps"} | {
    word: word.upper() for word in ("ami", "ecr", "eks", "gpu", "mig", "mps", "oci", "ocir", "oke", "vm", "cpu", "id")
}
_FEW = 10
"""Values that the page lists, with "or" between them. An editor has all."""
_ROOT = "StackFile"

Group = tuple[str, str, tuple[str, ...]]
"""A key, its path in the file and the models that its values may have."""
Row = tuple[str, str, str, str, str]
"""Key, value, default, meaning and example."""


def page() -> str:
    """The page."""
    return _Page(stack_schema()).text()


class _Page:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._models = {**schema["$defs"], _ROOT: schema}
        self._rules: dict[str, tuple[str, list[str]]] = {}
        self._collect(schema)

    def text(self) -> str:
        lines = [(Path(__file__).parent.parent / "settings_head.md").read_text(encoding="utf-8").rstrip()]
        for group in self._groups(("", "", (_ROOT,)), set()):
            lines += self._section(*group)
        lines += ["", "## Kinds of values", "", "| kind | error for any other value |", "|---|---|"]
        for rule, (title, values) in sorted(self._rules.items(), key=lambda item: (item[1][0].lower(), item[0])):
            listed = f": {', '.join(values)}" if 0 < len(values) <= _FEW else ""
            lines.append(f"| {title} | {_cell(rule + listed).replace('<', '&lt;')} |")
        return "\n".join([*lines, ""])

    def _collect(self, schema: Any) -> None:
        """Collect the title of each rule and the values that it allows, if it lists them."""
        for inner in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
            self._collect(inner)
        if isinstance(schema, Mapping) and "patternErrorMessage" in schema:
            self._rules[schema["patternErrorMessage"]] = schema["title"], schema.get("enum", [])

    def _groups(self, group: Group, models: set[str]) -> Iterator[Group]:
        """The group, then the groups of its keys, each model once."""
        _, path, names = group
        models.update(names)
        yield group
        keys = dict.fromkeys(setting for name in names for setting in self._models[name]["properties"])
        for setting in sorted(keys, key=lambda setting: _FIRST.index(setting) if setting in _FIRST else len(_FIRST)):
            properties = [self._models[name]["properties"].get(setting, {}) for name in names]
            references = dict.fromkeys(ref for schema in properties for ref in _references(schema))
            if new := tuple(ref for ref in references if ref not in models):
                yield from self._groups((setting, f"{path}.{setting}".strip(".") + _step(properties), new), models)

    def _section(self, key: str, path: str, names: tuple[str, ...]) -> Iterator[str]:
        rows = {name: self._rows(self._models[name]) for name in names}
        first, *tables = rows.values()
        alike = {setting: row for setting, row in first.items() if all(table.get(setting, "")[:4] == row[:4] for table in tables)}
        common = alike if tables and len(alike) > 1 else {}
        at = f"In the file: `{path}`." if path else "The top level of the file."
        if common:
            yield from ("", f"## {_words(key.rpartition(':')[2])}: common keys", "", at, "", *_table(common))
        for name in names:
            own_rows = {setting: row for setting, row in rows[name].items() if setting not in common}
            also = f" The [common keys](#{_slug(_words(key.rpartition(':')[2]))}-common-keys) belong here too." if common else ""
            doc = _linked(self._models[name].get("description", ""))
            yield from ("", f"## {_words(name)}" if not common else f"### {_words(name)}", "", f"{doc} {at}{also}")
            yield from ("", *_table(own_rows)) if own_rows else ()

    def _rows(self, model: Mapping[str, Any]) -> dict[str, Row]:
        required = model.get("required", ())
        properties = model["properties"]
        return {
            key: self._row(key, properties[key], key in required)
            for key in sorted(properties, key=lambda name: name not in required)
        }

    def _row(self, key: str, schema: Mapping[str, Any], required: bool) -> Row:
        text = Text.read(schema.get("description", ""))
        value = f"`{_flow({'': schema['default']}).partition(': ')[2]}`" if "default" in schema else ""
        default = "required" if required else value
        unit = f" Unit: {text.unit}." if text.unit else ""
        source = f" Source: {text.source}." if text.source else ""
        example = _flow({key: schema["examples"][0]}) if schema.get("examples") else ""
        return (f"`{key}`", self._type(schema), default, _linked(text.description) + unit + source, example and f"`{example}`")

    def _type(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            name = _words(schema["$ref"].rpartition("/")[2])
            return f"[{name}](#{_slug(name)})"
        if parts := [part for part in schema.get("anyOf", schema.get("oneOf", ())) if part != {"type": "null"}]:
            return " or ".join(dict.fromkeys(map(self._type, parts)))
        if rule := schema.get("patternErrorMessage"):
            return f"[{self._rules[rule][0]}](#kinds-of-values)"
        if "enum" in schema or "const" in schema:
            values = [f"`{value}`" for value in schema.get("enum", [schema.get("const")])]
            # A long list is a list, not a sentence.
            return " or ".join(values) if len(values) <= _FEW else ", ".join(values)
        for word, words in (("items", "list of"), ("additionalProperties", "mapping to")):
            if isinstance(schema.get(word), Mapping):
                return f"{words} {self._type(schema[word])}"
        kind = schema.get("type", "any value")
        return _TYPES.get(kind, str(kind)) + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if above is not None:
        return f" above {above}" + (f", at most {most}" if most is not None else "")
    if least is not None:
        return f", {least} to {most}" if most is not None else f", at least {least}"
    return f", at most {most}" if most is not None else ""


def _references(schema: Any) -> Iterator[str]:
    """The models that a property names, at any depth."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for word in ("anyOf", "oneOf", "items", "additionalProperties"):
            yield from _references(schema.get(word))
    for part in schema if isinstance(schema, list) else ():
        yield from _references(part)


def _step(properties: list[Mapping[str, Any]]) -> str:
    if any(isinstance(schema.get("additionalProperties"), Mapping) for schema in properties):
        return ".*"
    return "[]" if any(schema.get("type") == "array" for schema in properties) else ""


def _table(rows: Mapping[str, Row]) -> Iterator[str]:
    yield from ("| key | value | default | meaning | example |", "|---|---|---|---|---|")
    yield from ("| " + " | ".join(map(_cell, row)) + " |" for row in rows.values())


def _words(name: str) -> str:
    """ "EksPool" and "pools" as headings: "EKS pool", "Pools"."""
    words = [_WORDS.get(word.lower(), word.lower()) for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]
    text = " ".join(words).replace("git hub", "GitHub").replace("git ops", "GitOps")
    return text[:1].upper() + text[1:]


def _slug(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _flow(value: Mapping[str, object]) -> str:
    """A mapping on one line, without its braces."""
    text = yaml_text(value, flow=True).strip()[1:-1]
    # What `yaml_text` quotes, and people do not.
    return re.sub(r'"([0-9]+(?:s|m|h|Mi|Gi))"', r"\1", text)


def _linked(text: str) -> str:
    return re.sub(r"docs/([a-z-]+\.md(?:#[a-z-]+)?)", r"[\1](\1)", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").strip()
