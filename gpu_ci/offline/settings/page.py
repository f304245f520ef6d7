"""docs/settings.md and docs/settings/: the schema of a stack file as tables, in the order in which a user meets the settings.

docs/settings.md has the first settings of a stack on the first provider of the registry. docs/settings/ has every key: a page
for each provider with its own keys, and a page for each subject.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.groups import grouped
from fleet.facts.yaml_text import yaml_text
from fleet.providers.registry import PROVIDERS
from fleet.settings.model import Model
from gpu_ci.offline.settings.schema import FIRST, Text, class_of, stack_schema

_ORDER = ("config", "gpu-ci:github", "gpu-ci:clusters", "pools", "runners", "system", "endpoint", "network", "existing")
"""Keys whose sections come before those of other keys."""
_SUBJECTS = {
    "file": "schema fleet github",
    "clusters": "cluster endpoint existing gitops operator health budget registry machines",
    "pools": "pool sharing schedules kubelet",
    "runners": "runner kept_jobs model pod_template template containers container_jobs compatibility",
    "workloads": "workloads jobs queues caches build_caches",
    "monitoring": "monitoring alerts",
}
_SUBJECT_OF = {module: page for page, modules in _SUBJECTS.items() for module in modules.split()}
"""The page that has the sections of a module of `fleet.settings`. Those of a provider are on the page of the provider."""
_VALUES = "settings/values.md"
_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`", "object": "mapping"}
_WORDS = {"github": "GitHub", "gitops": "GitOps"} | {
    word: word.upper()
    for word in ("ami", "ca", "cuda", "ecr", "eks", "gpu", "mig", "mps", "oci", "ocir", "oke", "vm", "cpu", "id")
}
_FEW = 10
"""Values that the page lists, with "or" between them. An editor has all."""
_ROOT = "StackFile"
_HEAD = "<!-- Written by `make docs` from the settings models and the docstrings of their fields. Do not edit. -->"
_BACK = "[The first settings](settings.md) explain the columns. Required keys come first, then other first settings."

Row = tuple[str, str, str, str, str]
"""Key, value, default, meaning and example."""


class _Section(NamedTuple):
    """The keys of a model, or those that the models of a base class have alike. All links are relative to docs/."""

    page: str
    heading: str
    intro: str
    rows: Mapping[str, Row]

    @property
    def link(self) -> str:
        return f"[{self.heading}]({self.page}#{_slug(self.heading)})"

    @property
    def text(self) -> str:
        return "\n\n".join((f"## {self.heading}", self.intro, *([_keys(self.rows)] if self.rows else [])))


Pages = Mapping[str, dict[str, _Section]]
"""The sections of each page by their headings."""


def pages() -> dict[str, str]:
    """The text of each page by its path below docs/."""
    return _Reference(stack_schema()).pages()


class _Reference:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._models = {**schema["$defs"], _ROOT: schema}
        self._rules: dict[str, tuple[str, list[str]]] = {}
        self._collect(schema)
        self._paths = dict(self._walk("", (_ROOT,), set()))
        self._rows = {name: self._rows_of(self._models[name]) for name in self._paths}

    def pages(self) -> dict[str, str]:
        by_page: Pages = {f"settings/{name}.md": {} for name in (*PROVIDERS, *_SUBJECTS)}
        for section in self._sections():
            by_page[section.page].setdefault(section.heading, section)
        texts = {page: [section.text for section in sections.values()] for page, sections in by_page.items()}
        texts[_VALUES] = [_table(("kind", "error for any other value"), self._values())]
        heads = {page: (f"# Settings: {_title(page)}", _HEAD, _BACK) for page in texts}
        written = {page: _below(page, "\n\n".join([*heads[page], *body]) + "\n") for page, body in texts.items()}
        return {"settings.md": self._start(by_page)} | written

    def _start(self, by_page: Pages) -> str:
        """The page with the first settings, and a link to each section of the others."""
        own = {heading: section for sections in by_page.values() for heading, section in sections.items()}
        parts: list[str] = []
        for name in dict.fromkeys(self._first_models(_ROOT)):
            rows = {key: self._rows[name][key] for key, schema in self._models[name]["properties"].items() if schema.get(FIRST)}
            parts += [f"### {_words(name)}", f"{self._intro(name)} All keys: {own[_words(name)].link}.", _keys(rows)]
        links = {page: [section.link for section in sections.values()] for page, sections in by_page.items()}
        links[_VALUES] = ["the kinds of values, and what each allows"]
        shown = {page: (*of[:_FEW], *[f"{len(of) - _FEW} more"] * (len(of) > _FEW)) for page, of in links.items()}
        table = _table(("page", "sections"), ((f"[{_title(page)}]({page})", ", ".join(of)) for page, of in shown.items()))
        around = (Path(__file__).parent.parent / "settings_head.md").read_text(encoding="utf-8")
        return around.replace("$head", _HEAD).replace("$settings", "\n" + "\n\n".join([*parts, "## All settings", table]) + "\n")

    def _first_models(self, name: str) -> Iterator[str]:
        """The models of first settings: of each key the first of its models."""
        yield name
        for key in self._ordered([name]):
            schema = self._models[name]["properties"][key]
            for reference in list(_references(schema))[: 1 if schema.get(FIRST) else 0]:
                yield from self._first_models(reference)

    def _sections(self) -> Iterator[_Section]:
        """The section of each model, and before it those of its base classes with the keys that several models have alike."""
        rows = {name: dict(rows) for name, rows in self._rows.items()}
        commons: dict[type, dict[str, Row]] = {}
        for partly in (False, True):
            for base, users in self._families():
                for key in dict.fromkeys(key for user in users for key in rows[user]):
                    alike = _alike(key, users, rows)
                    if alike == users or (partly and len(alike) > 1 and len(alike) * 2 >= len(users)):
                        only = "" if alike == users else f" Only for {_listed(alike)}."
                        (name, value, default, meaning, example), *_ = [rows[user].pop(key) for user in alike]
                        commons.setdefault(base, {})[key] = name, value, default, meaning + only, example
        shared = [(base, users) for base, users in self._families() if base in commons]
        abouts = {base: (_page_of(base), _common(base, users), f"Keys of {_listed(users)}.") for base, users in shared}
        sections = {base: _Section(*about, commons[base]) for base, about in abouts.items()}
        for name in self._paths:
            above = [sections[base] for base in class_of(name).__mro__ if base in sections]
            also = f" Also: {', '.join(section.link for section in above)}." if above else ""
            yield from above
            yield _Section(_page_of(class_of(name)), _words(name), self._intro(name) + also, rows[name])

    def _families(self) -> list[tuple[type, list[str]]]:
        """The base classes of several models with these models, that of most models first."""
        bases = ((base, name) for name in self._paths for base in class_of(name).__mro__)
        users = grouped((base, name) for base, name in bases if issubclass(base, Model) and base is not Model)
        return sorted(((base, names) for base, names in users.items() if len(names) > 1), key=lambda row: -len(row[1]))

    def _intro(self, name: str) -> str:
        path = self._paths[name]
        where = f"In the file: `{path}`." if path else "The top level of the file."
        return f"{_linked(self._models[name].get('description', ''))} {where}"

    def _values(self) -> Iterator[tuple[str, str]]:
        for rule, (title, values) in sorted(self._rules.items(), key=lambda item: (item[1][0].lower(), item[0])):
            listed = f": {', '.join(values)}" if 0 < len(values) <= _FEW else ""
            yield title, _cell(rule + listed).replace("<", "&lt;")

    def _collect(self, schema: Any) -> None:
        """Collect the title of each rule and the values that it allows, if it lists them."""
        for inner in schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ():
            self._collect(inner)
        if isinstance(schema, Mapping) and "patternErrorMessage" in schema:
            self._rules[schema["patternErrorMessage"]] = schema["title"], schema.get("enum", [])

    def _ordered(self, names: Iterable[str]) -> list[str]:
        """The keys of models, those with early sections first."""
        keys = dict.fromkeys(key for name in names for key in self._models[name]["properties"])
        return sorted(keys, key=lambda key: _ORDER.index(key) if key in _ORDER else len(_ORDER))

    def _walk(self, path: str, names: tuple[str, ...], seen: set[str]) -> Iterator[tuple[str, str]]:
        """Each model once, with its path in the file: the models of a key, then those of their keys."""
        seen.update(names)
        yield from ((name, path) for name in names)
        for key in self._ordered(names):
            properties = [self._models[name]["properties"].get(key, {}) for name in names]
            references = dict.fromkeys(reference for schema in properties for reference in _references(schema))
            if new := tuple(reference for reference in references if reference not in seen):
                yield from self._walk(f"{path}.{key}".strip(".") + _step(properties), new, seen)

    def _rows_of(self, model: Mapping[str, Any]) -> dict[str, Row]:
        required, properties = model.get("required", ()), model["properties"]
        keys = sorted(properties, key=lambda name: name not in required)
        return {key: self._row(key, properties[key], key in required) for key in keys}

    def _row(self, key: str, schema: Mapping[str, Any], required: bool) -> Row:
        text = Text.read(schema.get("description", ""))
        value = f"`{_flow({'': schema['default']}).partition(': ')[2]}`" if "default" in schema else ""
        default = "required" if required else value
        unit = f" Unit: {text.unit}." if text.unit else ""
        source = f" Source: {text.source}." if text.source else ""
        example = f" Example: `{_flow({key: schema['examples'][0]})}`" if schema.get("examples") else ""
        return f"`{key}`", self._type(schema), default, _linked(text.description) + unit + source, example

    def _type(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return f"[{_words(name)}]({_page_of(class_of(name))}#{_slug(_words(name))})"
        if parts := [part for part in schema.get("anyOf", schema.get("oneOf", ())) if part != {"type": "null"}]:
            return " or ".join(dict.fromkeys(map(self._type, parts)))
        if rule := schema.get("patternErrorMessage"):
            return f"[{self._rules[rule][0]}]({_VALUES})"
        if "enum" in schema or "const" in schema:
            values = [f"`{value}`" for value in schema.get("enum", [schema.get("const")])]
            # A long list is a list, not a sentence.
            return " or ".join(values) if len(values) <= _FEW else ", ".join(values)
        for word, words in (("items", "list of"), ("additionalProperties", "mapping to")):
            if isinstance(schema.get(word), Mapping):
                return f"{words} {self._type(schema[word])}"
        kind = schema.get("type", "any value")
        return _TYPES.get(kind, str(kind)) + _bounds(schema)


def _alike(key: str, users: Iterable[str], rows: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """The most models that have a key with the same value, default and meaning."""
    return max(grouped((rows[user][key][:4], user) for user in users if key in rows[user]).values(), key=len)


def _common(base: type, users: Sequence[str]) -> str:
    """The heading of keys that these models share. A base class of many models has a name that says what they are."""
    return f"{_words(base.__name__) if len(users) > 3 else _listed(users)}: common keys"


def _listed(models: Iterable[str]) -> str:
    *names, last = map(_words, models)
    return f"{', '.join(names)} and {last}" if names else last


def _page_of(model: type) -> str:
    """The page with the section of a model, by its module."""
    folder, module = model.__module__.split(".")[-2:]
    return f"settings/{folder if folder in PROVIDERS else _SUBJECT_OF[module]}.md"


def _title(page: str) -> str:
    return _words(Path(page).stem)


def _below(page: str, text: str) -> str:
    """A text of a page, whose links are relative to docs/, with links that are relative to the page."""

    def link(match: re.Match[str]) -> str:
        near = "" if match[1] == page else posixpath.relpath(match[1], posixpath.dirname(page))
        return f"]({near}{match[2] or ''})"

    return re.sub(r"\]\(([^)#:]+)(#[^)]*)?\)", link, text)


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (above := schema.get("exclusiveMinimum")) is not None:
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


def _keys(rows: Mapping[str, Row]) -> str:
    cells = (tuple(map(_cell, (*row[:3], row[3] + row[4]))) for row in rows.values())
    return _table(("key", "value", "default", "meaning"), cells)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in (columns, *rows))
    return "\n".join((next(lines), "|---" * len(columns) + "|", *lines))


def _words(name: str) -> str:
    """ "EksPool" and "pools" as headings: "EKS pool", "Pools"."""
    words = [_WORDS.get(word.lower(), word.lower()) for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]
    text = " ".join(words).replace("git hub", "GitHub").replace("git ops", "GitOps")
    return text[:1].upper() + text[1:]


def _slug(heading: str) -> str:
    return heading.lower().replace(" ", "-").replace(":", "").replace(",", "")


def _flow(value: Mapping[str, object]) -> str:
    """A mapping on one line, without its braces."""
    text = yaml_text(value, flow=True).strip()[1:-1]
    # What `yaml_text` quotes, and people do not.
    return re.sub(r'"([0-9]+(?:s|m|h|Mi|Gi))"', r"\1", text)


def _linked(text: str) -> str:
    return re.sub(r"docs/([a-z-]+\.md(?:#[a-z-]+)?)", r"[\1](\1)", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").strip()
