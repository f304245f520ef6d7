"""`Pulumi.yaml` and `Pulumi.<stack>.yaml` as the configuration that the Pulumi CLI would hand the program.

Facts: pulumi/pulumi, sdk/go/common/workspace (`project.go`, `config.go`, `loaders.go`), pkg/resource/plugin/plugin.go and
sdk/go/common/resource/config (`key.go`, `object.go`, `plaintext.go`). Stricter than the CLI where it lets a slip pass:
unknown top-level keys, the same key spelled with and without namespace, a missing stack file.
"""

import dataclasses
import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

from fleet.facts.errors import FleetError, Problem
from offline.errors import InputError, shown
from offline.places import Keys, Lines, Place
from offline.yamlread import Document, read_yaml

PLACEHOLDER = "[secret]"
"""Stands in for a secret: offline nothing can be decrypted."""

_STACK_KEYS = ("config", "encryptedkey", "encryptionsalt", "environment", "mainEnvironment", "secretsprovider")
_TYPES = ("array", "boolean", "integer", "object", "string")
_DECLARATION_KEYS = ("default", "description", "items", "secret", "type", "value")
_STACK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
# A term of a range of blang/semver, which the CLI reads: terms side by side are AND, `||` is OR, x is any number.
_VERSIONS = re.compile(r"(?:[<>]=?|={1,2}|!=?)?\d+\.(?:\d+|x)\.(?:\d+|x)(?:[-+][0-9A-Za-z.+-]+)?")
_PATH_SIGNS = re.compile(r"[.\[\]\"]")


@dataclass(frozen=True)
class StackConfig:
    """One stack's configuration.

    `values`: full key ("gpu-ci:clusters") to text: a scalar's own text, JSON for objects and lists.
    `objects`: the same keys to what the program gets from that text (JSON parsed; scalars stay text).
    `secret_keys`: keys that hold a secret, whose value is PLACEHOLDER (inside an object: each secret value of it).
    `positions`: path to 1-based line of `path`, e.g. ("gpu-ci:clusters", "usw2", "pools").
    `placed`: keys that the stack lacks and that `with_placeholders` put in.
    `environment`: the stack names ESC environments; what they hold is not seen offline.
    """

    project: str
    stack: str
    path: Path
    values: Mapping[str, str]
    secret_keys: frozenset[str]
    objects: Mapping[str, object]
    positions: Mapping[Keys, int] = dataclasses.field(default_factory=dict, repr=False)
    placed: tuple[str, ...] = ()
    environment: bool = False

    def line_of(self, *path: str | int) -> int | None:
        """The line of a path or of its nearest ancestor that has one; None where the file says nothing of it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.positions:
                return self.positions[path[:end]]
        return None


def stacks(root: Path) -> tuple[str, ...]:
    """The names of the stacks that have a file in `root`."""
    names = (path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in root.glob("Pulumi.*.yaml"))
    return tuple(sorted(name for name in names if name))


def load(stack: str, root: Path, project_file: Path | None = None, stack_file: Path | None = None) -> StackConfig:
    """Reads one stack of the project in `root` (`project_file` and `stack_file` name other files).

    Raises InputError for whatever keeps the configuration from being used.
    """
    if not _STACK_NAME.fullmatch(stack):
        raise InputError(
            f"stack: a stack name is 1 to 100 letters, digits, hyphens, underscores and periods; got {shown(stack)}; "
            f"give one of: {_listed(stacks(root))}"
        )
    project_path = project_file or root / "Pulumi.yaml"
    project = _Project.read(project_path)
    folder = project_path.parent / project.stack_folder
    path = stack_file or folder / f"Pulumi.{stack}.yaml"
    mend = f"create it or give one of: {_listed(stacks(folder))}"
    document = _document(path, "stack: there must be a file for the stack", mend)
    return _StackFile(path, document, project).config(stack)


def with_placeholders(config: StackConfig, keys: Iterable[str]) -> StackConfig:
    """The same configuration with a placeholder secret for each key that it lacks; `placed` lists them.

    A key without namespace belongs to the project.
    """
    wanted = [key if ":" in key else f"{config.project}:{key}" for key in keys]
    missing = tuple(dict.fromkeys(key for key in wanted if key not in config.values))
    filled = dict.fromkeys(missing, PLACEHOLDER)
    return dataclasses.replace(
        config,
        values=MappingProxyType({**config.values, **filled}),
        objects=MappingProxyType({**config.objects, **filled}),
        secret_keys=config.secret_keys | set(missing),
        placed=config.placed + missing,
    )


def wrong(config: StackConfig, error: FleetError, name: str = "") -> InputError:
    """Every problem of a config's settings as a line with file and line number; `name` is the file's, else that of its path."""
    return InputError("\n".join(_at(config, problem, name or config.path.name) for problem in error.problems))


def _at(config: StackConfig, problem: Problem, name: str) -> str:
    keys = tuple(int(part) if part.isdigit() else part for part in problem.path)
    line = config.line_of(*keys) or config.line_of(*problem.path) or 1
    return f"{name}:{line}: {problem.where}: {problem.message}" + (f"; got {problem.value}" if problem.value else "")


@dataclass(frozen=True)
class _Declared:
    """One key of Pulumi.yaml's `config`: `fill` is its default or value, None where it has none."""

    key: str
    type: str | None
    items: object
    secret: bool
    fill: object
    line: int | None


@dataclass(frozen=True)
class _Project:
    path: Path
    name: str
    stack_folder: str
    declared: tuple[_Declared, ...]

    @classmethod
    def read(cls, path: Path) -> "_Project":
        document = _document(path, "project: there must be a project file", "run from the project's folder")
        top = document.value
        if not isinstance(top, dict):
            raise _wrong(path, 1, "Pulumi.yaml", "must be a mapping", top, "start with `name:` and `runtime:`")
        name = top.get("name")
        if not isinstance(name, str) or not name:
            line = document.lines.get(("name",), 1)
            raise _wrong(path, line, "name", "must be a non-empty string", name, "give the project's name")
        needed = top.get("requiredPulumiVersion")
        if needed is not None and not _is_range(needed):
            line = document.lines.get(("requiredPulumiVersion",), 1)
            rule = "must be a range of versions of the Pulumi CLI"
            raise _wrong(path, line, "requiredPulumiVersion", rule, needed, 'write it like ">=3.252.0 <4.0.0"')
        folder = top.get("stackConfigDir") or ""
        config = top.get("config")
        if isinstance(config, str):  # the old spelling of stackConfigDir
            folder, config = config, None
        if not isinstance(folder, str):
            line = document.lines.get(("stackConfigDir",), 1)
            raise _wrong(path, line, "stackConfigDir", "must be a path", folder, "quote it or remove it")
        if config is not None and not isinstance(config, dict):
            line = document.lines.get(("config",), 1)
            raise _wrong(path, line, "config", "must be a mapping", config, "write one key a line below it")
        declared = tuple(_declared(path, document, name, key, value) for key, value in (config or {}).items())
        return cls(path, name, folder, declared)


def _declared(path: Path, document: Document, project: str, key: str, raw: object) -> _Declared:
    line = document.lines.get(("config", key), 1)
    full = _full_key(path, line, project, key)
    ours = full.startswith(f"{project}:")
    if _PATH_SIGNS.search(full.partition(":")[2]):
        raise _wrong(path, line, f"config.{key}", "must name a whole key, not a path in one", key, "declare the key")
    if isinstance(raw, str | int | list):
        # The short form: a plain value is a default for the project's own keys, a value for others'.
        raw = {"default" if ours else "value": raw}
    if not isinstance(raw, dict):
        raise _wrong(path, line, f"config.{key}", "must be a string, integer, boolean, list or mapping", raw, "quote it")
    for word in raw:
        if word not in _DECLARATION_KEYS:
            raise _wrong(
                path, line, f"config.{key}", f"may hold {_listed(_DECLARATION_KEYS)}", word, _meant(word, _DECLARATION_KEYS)
            )
    kind, items, fill = raw.get("type"), raw.get("items"), raw.get("default")
    if fill is not None and raw.get("value") is not None:
        raise _wrong(path, line, f"config.{key}", "has either a default or a value", raw, "remove one of them")
    if not ours and (kind is not None or fill is not None):
        raise _wrong(path, line, f"config.{key}", "another package's key takes `value` alone", raw, "write `value:`")
    if not ours and raw.get("value") is None:
        raise _wrong(path, line, f"config.{key}", "another package's key needs a value", raw, "write `value:`")
    if kind is not None and kind not in _TYPES:
        raise _wrong(path, line, f"config.{key}.type", f"must be one of {_listed(_TYPES)}", kind, "correct it")
    if kind == "array" and not isinstance(items, dict):
        raise _wrong(path, line, f"config.{key}.items", "an array needs the type of its items", items, "write `items: {type: …}`")
    if kind is not None and fill is not None and not _fits(str(kind), items, fill):
        raise _wrong(path, line, f"config.{key}.default", f"must be of type {_type_name(kind, items)}", fill, "correct it")
    return _Declared(
        full,
        str(kind) if kind is not None else None,
        items,
        raw.get("secret") is True,
        fill if fill is not None else raw.get("value"),
        line,
    )


class _StackFile:
    """One stack file on its way to a StackConfig."""

    def __init__(self, path: Path, document: Document, project: _Project) -> None:
        self._path = path
        self._document = document
        self._project = project
        self._values: dict[str, str] = {}
        self._objects: dict[str, object] = {}
        self._secret: set[str] = set()
        self._places: dict[str, Place] = {}

    def config(self, stack: str) -> StackConfig:
        top = self._document.value
        if top is None:
            top = {}
        if not isinstance(top, dict):
            raise _wrong(self._path, 1, "the file", "must be a mapping", top, "start with `config:`")
        for key in top:
            if key not in _STACK_KEYS:
                line = self._document.lines[(key,)]
                raise _wrong(self._path, line, key, f"a stack file holds {_listed(_STACK_KEYS)}", key, _meant(key, _STACK_KEYS))
        config = top.get("config")
        if config is not None and not isinstance(config, dict):
            line = self._document.lines[("config",)]
            raise _wrong(self._path, line, "config", "must be a mapping", config, "write one key a line below it")
        for key, value in (config or {}).items():
            self._take(key, value)
        esc = top.get("environment") is not None or top.get("mainEnvironment") is not None
        for declared in self._project.declared:
            self._fill(declared, esc)
        return StackConfig(
            project=self._project.name,
            stack=stack,
            path=self._path,
            values=MappingProxyType(self._values),
            secret_keys=frozenset(self._secret),
            objects=MappingProxyType(self._objects),
            positions=Lines((1, self._places)),
            environment=esc,
        )

    def _take(self, key: str, value: object) -> None:
        line = self._document.lines["config", key]
        full = _full_key(self._path, line, self._project.name, key)
        if full in self._values:
            first = self._line_of(full)
            raise _wrong(self._path, line, key, f"{full} stands on line {first} already", key, "remove one of them")
        self._set(full, value)
        self._places[full] = (line, self._document.lines.below("config", key))

    def _line_of(self, full: str) -> int | None:
        """The line of a key in the stack file; None where the file lacks it."""
        return Lines((1, self._places)).get((full,))

    def _set(self, full: str, value: object) -> None:
        known, secret = _hidden(value)
        text = json_text(known) if isinstance(known, dict | list) else _scalar_text(known)
        self._values[full] = text
        # Parsed back, for the program sees what JSON keeps: 1.0 arrives as 1.
        self._objects[full] = json.loads(text) if isinstance(known, dict | list) else text
        if secret:
            self._secret.add(full)

    def _fill(self, declared: _Declared, esc: bool) -> None:
        key = declared.key
        if key not in self._values:
            if declared.fill is not None:
                self._set(key, declared.fill)
            elif key.startswith(f"{self._project.name}:"):
                beside = "; values of ESC environments are not seen offline" if esc else ""
                raise InputError(
                    f"{self._path}: {key} must be set, for {self._project.path}:{declared.line} declares it without "
                    f"a default{beside}; add it under `config:` or give it a default"
                )
            else:
                return
        if declared.type is None:
            return
        line = self._line_of(key) or declared.line
        if declared.secret and key not in self._secret:
            raise _wrong(
                self._path,
                line,
                key,
                "is declared secret and must be encrypted",
                "plain text",
                f"run `pulumi config set --secret {key}`",
            )
        if key not in self._secret and not _fits(declared.type, declared.items, self._objects[key]):
            wanted = _type_name(declared.type, declared.items)
            raise _wrong(self._path, line, key, f"must be of type {wanted}", self._objects[key], "correct the value")


def _document(path: Path, rule: str, mend: str) -> Document:
    """The file's document; InputError with `rule` and `mend` where there is no file."""
    try:
        if path.is_file():
            return read_yaml(path)
        fault = "does not exist"
        if path.is_dir():
            fault = "is a folder" + (" (an empty name means the current one)" if path == Path() else "")
        elif path.is_symlink():
            fault = f"is a link to {path.readlink()}, which does not exist"
        elif path.exists():
            fault = "is no regular file"
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its permissions and size") from None
    raise InputError(f"{rule}; {path} {fault}; {mend}")


def _wrong(path: Path, line: int | None, field: str, rule: str, value: object, mend: str) -> InputError:
    field = field if field.isprintable() else repr(field)
    return InputError(f"{path}:{line}: {field}: {rule}; got {shown(value)}; {mend}")


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) or "(there are none)"


def _meant(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"write {close[0]}" if close else "remove it or move it below `config:`"


def _full_key(path: Path, line: int | None, project: str, key: str) -> str:
    """`name` belongs to the project; `<namespace>:config:<name>` is the old spelling of `<namespace>:<name>`."""
    parts = key.split(":")
    if len(parts) == 1:
        parts = [project, key]
    elif len(parts) == 3 and parts[1] == "config":
        parts = [parts[0], parts[2]]
    if len(parts) != 2 or not all(parts):
        raise _wrong(path, line, "config", "a key is <namespace>:<name>", key, "correct the key")
    return ":".join(parts)


def _hidden(value: object) -> tuple[object, bool]:
    """The value with each `{secure: ciphertext}` replaced by PLACEHOLDER, and whether there was one."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("secure"), str):
            return PLACEHOLDER, True
        parts = {key: _hidden(item) for key, item in value.items()}
        return {key: known for key, (known, _) in parts.items()}, any(secret for _, secret in parts.values())
    if isinstance(value, list):
        items = [_hidden(item) for item in value]
        return [known for known, _ in items], any(secret for _, secret in items)
    return value, False


def _scalar_text(value: object) -> str:
    if value is None:
        return ""  # the CLI warns and gives the empty string
    return value if isinstance(value, str) else json_text(value)


def _fits(kind: str, items: object, value: object) -> bool:
    """Whether a value is of a declared type; texts of integers and booleans count, as the CLI has it."""
    checks: dict[str, Callable[[], bool]] = {
        "string": lambda: isinstance(value, str),
        "integer": lambda: _is_integer(value),
        "boolean": lambda: isinstance(value, bool) or value in ("true", "false"),
        "object": lambda: isinstance(value, dict),
        "array": lambda: isinstance(value, list) and all(_fits(*_item_type(items), item) for item in value),
    }
    return checks[kind]()


def _is_integer(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"[-+]?[0-9]+", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and value == math.floor(value)


def _is_range(value: object) -> bool:
    terms = value.replace("||", " ").split() if isinstance(value, str) else []
    return bool(terms) and all(map(_VERSIONS.fullmatch, terms))


def _item_type(items: object) -> tuple[str, object]:
    kind = items.get("type") if isinstance(items, dict) else None
    if kind not in _TYPES:
        raise InputError(f"Pulumi.yaml: items.type must be one of {_listed(_TYPES)}; got {shown(kind)}; correct it")
    return kind, items.get("items") if isinstance(items, dict) else None


def _type_name(kind: object, items: object) -> str:
    return f"array<{_type_name(*_item_type(items))}>" if kind == "array" else str(kind)


_ESCAPES = str.maketrans(
    {
        **{chr(code): f"\\u{code:04x}" for code in (*range(0x20), 0x3C, 0x3E, 0x26, 0x2028, 0x2029)},
        '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    }
)  # fmt: skip


def json_text(value: object) -> str:
    """JSON as Go's encoding/json writes it: no spaces, sorted keys, <, > and & escaped, shortest floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value: float) -> str:
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        mantissa, _, exponent = repr(value).partition("e")
        power = int(exponent)
        return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")
