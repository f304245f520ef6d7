"""`Pulumi.yaml`: the project's name, the folder of its stack files, and the config keys that it declares.

Facts: pulumi/pulumi, sdk/go/common/workspace (`project.go`, `config.go`, `loaders.go`).
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.errors import InputError, quoted
from fleet.loading.files import ConfigFile, listed, meant

_TYPES = ("array", "boolean", "integer", "object", "string")
_DECLARATION_KEYS = ("default", "description", "items", "secret", "type", "value")
# A term of a range of blang/semver, as the CLI reads it: adjacent terms mean AND, `||` means OR, x is any number.
_VERSIONS = re.compile(r"(?:[<>]=?|={1,2}|!=?)?\d+\.(?:\d+|x)\.(?:\d+|x)(?:[-+][0-9A-Za-z.+-]+)?")
_PATH_SIGNS = re.compile(r"[.\[\]\"]")


class Declared(NamedTuple):
    """One key of Pulumi.yaml's `config`: `fill` is its default or value, None if it has neither."""

    key: str
    type: str | None
    items: object
    secret: bool
    fill: object
    line: int


class Project(NamedTuple):
    """The settings of a project file that affect its stacks."""

    path: Path
    name: str
    stack_folder: str
    declared: tuple[Declared, ...]
    needed: str = ""
    """The range of versions of the Pulumi CLI that the project requires; empty for any version."""

    @classmethod
    def read(cls, path: Path) -> "Project":
        """Read a project file. Raises InputError if it cannot be used."""
        file = ConfigFile.read(path, "project: there must be a project file", "run from the project's folder")
        top, start = file.document.value, "start with `name:` and `runtime:`"
        if not isinstance(top, dict):
            raise file.wrong((), "Pulumi.yaml", "must be a mapping", top, start)
        name = top.get("name")
        if not isinstance(name, str) or not name:
            raise file.wrong(("name",), "name", "must be a non-empty string", name, "give the project's name")
        if (needed := top.get("requiredPulumiVersion")) is not None and not _is_range(needed):
            at, rule = "requiredPulumiVersion", "must be a range of versions of the Pulumi CLI"
            raise file.wrong((at,), at, rule, needed, 'write it like ">=3.252.0 <4.0.0"')
        folder, config = top.get("stackConfigDir") or "", top.get("config")
        if isinstance(config, str):  # the old spelling of stackConfigDir
            folder, config = config, None
        if not isinstance(folder, str):
            raise file.wrong(("stackConfigDir",), "stackConfigDir", "must be a path", folder, "quote it or remove it")
        keys = file.mapping(("config",), config, "config", "write one key per line below it")
        return cls(path, name, folder, tuple(_declared(file, name, key, value) for key, value in keys.items()), needed or "")


def _declared(file: ConfigFile, project: str, key: str, raw: Any) -> Declared:
    at = ("config", key)

    def refuse_if(broken: object, rule: str, value: object, fix: str, below: str = "") -> None:
        file.refuse_if(broken, at, f"config.{key}{below}", rule, value, fix)

    full = file.full_key(at, project, key)
    ours = full.startswith(f"{project}:")
    refuse_if(_PATH_SIGNS.search(full.partition(":")[2]), "must name a whole key, not a path in one", key, "declare the key")
    if isinstance(raw, str | int | list):
        # The short form: a plain value is the default of the project's own key, and the value of another package's key.
        raw = {"default" if ours else "value": raw}
    refuse_if(not isinstance(raw, dict), "must be a string, integer, boolean, list or mapping", raw, "quote it")
    for word in raw:
        refuse_if(word not in _DECLARATION_KEYS, f"may hold {listed(_DECLARATION_KEYS)}", word, meant(word, _DECLARATION_KEYS))
    kind, items, fill, value = raw.get("type"), raw.get("items"), raw.get("default"), raw.get("value")
    refuse_if(fill is not None and value is not None, "has either a default or a value", raw, "remove one of them")
    typed = kind is not None or fill is not None
    refuse_if(not ours and typed, "another package's key takes only `value`", raw, "write `value:`")
    refuse_if(not ours and value is None, "another package's key needs a value", raw, "write `value:`")
    refuse_if(kind not in (None, *_TYPES), f"must be one of {listed(_TYPES)}", kind, "correct it", ".type")
    bare = kind == "array" and not isinstance(items, dict)
    refuse_if(bare, "an array needs the type of its items", items, "write `items: {type: …}`", ".items")
    if kind is not None and fill is not None and not fits(kind, items, fill):
        raise file.wrong(at, f"config.{key}.default", f"must be of type {type_name(kind, items)}", fill, "correct it")
    fill = value if fill is None else fill
    return Declared(full, kind, items, raw.get("secret") is True, fill, file.document.lines.get(at, 1))


def fits(kind: str, items: object, value: object) -> bool:
    """Whether a value is of a declared type. The CLI also takes the text of an integer or boolean."""
    if kind == "array":
        return isinstance(value, list) and all(fits(*_item_type(items), item) for item in value)
    if kind == "integer":
        return _is_integer(value)
    if kind == "boolean":
        return isinstance(value, bool) or value in ("true", "false")
    return isinstance(value, {"string": str, "object": dict}[kind])


def type_name(kind: object, items: object) -> str:
    """A declared type as text for an error line."""
    return f"array<{type_name(*_item_type(items))}>" if kind == "array" else str(kind)


def _is_integer(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"[-+]?[0-9]+", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and value == math.floor(value)


def _item_type(items: object) -> tuple[str, object]:
    if (kind := items.get("type") if isinstance(items, dict) else None) not in _TYPES:
        raise InputError(f"Pulumi.yaml: items.type must be one of {listed(_TYPES)}; got {quoted(kind)}; correct it")
    return kind, items.get("items") if isinstance(items, dict) else None


def _is_range(value: object) -> bool:
    terms = value.replace("||", " ").split() if isinstance(value, str) else []
    return bool(terms) and all(map(_VERSIONS.fullmatch, terms))
