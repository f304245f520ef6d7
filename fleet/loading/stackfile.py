"""`Pulumi.yaml` and `Pulumi.<stack>.yaml` as the configuration that the Pulumi CLI gives to the program. The only reader of them.

Facts: pulumi/pulumi, sdk/go/common/workspace (`project.go`, `config.go`, `loaders.go`), pkg/resource/plugin/plugin.go and
sdk/go/common/resource/config (`key.go`, `object.go`, `plaintext.go`). Unlike the CLI, this reader rejects unknown top-level keys,
the same key with and without namespace, and a missing stack file.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

from fleet.facts.credentials import HIDDEN, holds_credential, mask
from fleet.facts.errors import MOST_PROBLEMS, Fault, FleetError, InputError, Problem, instead, quoted
from fleet.facts.places import Keys, Lines, Place
from fleet.facts.record import Record
from fleet.facts.remark import said
from fleet.loading import home
from fleet.loading.files import ConfigFile, from_here, listed, meant
from fleet.loading.project import Declared, Project, fits, type_name

STAND_IN = "[secret]"
"""The value of every secret. This module decrypts no secret."""

_STACK_KEYS = ("config", "encryptedkey", "encryptionsalt", "environment", "mainEnvironment", "secretsprovider")
_ENCRYPTED = ("encryptedkey", "encryptionsalt")
_OF_SECRET = re.compile("secret|token|key|password", re.IGNORECASE)
"""Names of a provider's settings whose texts are credentials."""
_REVOKE = "remove and revoke it, because Git keeps what was committed; `pulumi config set --secret` encrypts a value"
_STACK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_SAME_NAMESPACE = 0.8
"""A namespace that is at least so similar to the project's name is a slip. Other packages have namespaces of their own."""
_ESCAPES = str.maketrans({code: f"\\u{code:04x}" for code in (0x3C, 0x3E, 0x26, 0x2028, 0x2029)})
_FILE_NAME = re.compile(r"Pulumi\.(?P<stack>[^/]+)\.ya?ml")


class StackConfig(Record):
    """One stack's configuration.

    `values`: text by full key ("gpu-ci:clusters"). A scalar has its own text, objects and lists are JSON.
    `objects`: the value that the program gets from that text, by the same keys (parsed JSON; scalars stay text).
    `secret_keys`: keys with a secret. Its value is STAND_IN; in an object, each of its secret values is.
    `positions`: 1-based line in `path` by path, such as ("gpu-ci:clusters", "usw2", "pools").
    `placed`: missing keys that `with_stand_ins` added.
    """

    project: str
    stack: str
    path: Path
    values: Mapping[str, str]
    secret_keys: frozenset[str]
    objects: Mapping[str, object]
    positions: Mapping[Keys, int] = field(default_factory=dict, repr=False)
    placed: tuple[str, ...] = ()

    def line_of(self, *path: str | int) -> int | None:
        """The line of a path, or of its nearest ancestor with a line. None if the file has none of them."""
        return next((self.positions[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.positions), None)

    def of(self, namespace: str) -> tuple[dict[str, object], list[str]]:
        """The objects of one namespace by key without the namespace, and the secret keys."""
        prefix = f"{namespace}:"
        objects = {key.removeprefix(prefix): value for key, value in self.objects.items() if key.startswith(prefix)}
        return objects, [key.removeprefix(prefix) for key in self.secret_keys]


def stacks(root: Path) -> tuple[str, ...]:
    """The names of the stacks that have a file in `root`."""
    names = (path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in root.glob("Pulumi.*.yaml"))
    return tuple(sorted(name for name in names if name))


def name_of_file(stack: str | None) -> str | None:
    """The stack's name where the name of its file is given: staging for Pulumi.staging.yaml."""
    return file["stack"] if (file := _FILE_NAME.fullmatch(stack or "")) is not None else stack


def load(stack: str, root: Path, stack_file: Path | None = None) -> StackConfig:
    """Read one stack of the project in `root`. `stack_file` replaces the usual file.

    Raises InputError if the configuration cannot be used.
    """
    if not _STACK_NAME.fullmatch(stack):
        why = f"stack: a stack name is 1 to 100 letters, digits, hyphens, underscores and periods; got {quoted(stack)}"
        raise InputError(f"{why}; {_named(stack, stacks(root))}")
    project = Project.read(home.project_file(root))
    folder = root / project.stack_folder
    path = stack_file or folder / f"Pulumi.{stack}.yaml"
    fix = _named(stack, stacks(folder), "create it or ") if stack_file is None else "create it or correct its path"
    return _StackFile(ConfigFile.read(path, "stack: there must be a file for the stack", fix), project).config(stack)


def _named(stack: str, known: Collection[str], otherwise: str = "") -> str:
    """Which name of a stack to give instead. A path of a stack file needs the option for files."""
    if (file := _FILE_NAME.fullmatch(Path(stack).name)) is not None:
        return f"give the stack's name and its file: {file['stack']} --file {stack}"
    return instead(stack, known, f"{otherwise}give one of: {listed(known)}")


def with_stand_ins(config: StackConfig, keys: Iterable[str]) -> StackConfig:
    """The same configuration with a stand-in for each missing secret; `placed` lists these keys.

    A key without namespace belongs to the project.
    """
    full_keys = [key if ":" in key else f"{config.project}:{key}" for key in keys]
    missing = tuple(dict.fromkeys(key for key in full_keys if key not in config.values))
    return replace(with_secrets(config, dict.fromkeys(missing, STAND_IN)), placed=config.placed + missing)


def with_secrets(config: StackConfig, secrets: Mapping[str, str]) -> StackConfig:
    """The same configuration with these secrets by their full keys."""
    values, objects = MappingProxyType({**config.values, **secrets}), MappingProxyType({**config.objects, **secrets})
    return replace(config, values=values, objects=objects, secret_keys=config.secret_keys | secrets.keys())


def wrong(config: StackConfig, error: FleetError) -> InputError:
    """An error with a line for each problem of the settings, in the order of the file: file, line number, problem."""
    faults = [_at(config, problem) for problem in error.problems]
    # The last line of a long error counts the problems that it does not show.
    ordered = sorted(faults[:MOST_PROBLEMS], key=lambda fault: fault.line or 1) + faults[MOST_PROBLEMS:]
    return InputError("\n".join(map(str, ordered)), ordered)


def _at(config: StackConfig, problem: Problem) -> Fault:
    keys = tuple(int(part) if part.isdigit() else part for part in problem.path)
    line = config.line_of(*keys) or config.line_of(*problem.path) or 1
    return Fault(problem.message, str(from_here(config.path)), line, problem.where, problem.rule, problem.value)


class _StackFile:
    """Builds a StackConfig from a stack file."""

    def __init__(self, file: ConfigFile, project: Project) -> None:
        self._file = file
        self._project = project
        self._values: dict[str, str] = {}
        self._objects: dict[str, object] = {}
        self._secret: set[str] = set()
        self._places: dict[str, Place] = {}
        self._written: list[tuple[Keys, str]] = []

    def config(self, stack: str) -> StackConfig:
        top = self._file.mapping((), self._file.document.value, "the file", "start with `config:`")
        for at, text in _texts((), {key: value for key, value in top.items() if key not in _ENCRYPTED}):
            if holds_credential(text):
                field, rule = mask(".".join(map(str, at)).removeprefix("config.")), "must not hold a credential in clear"
                raise self._file.wrong(at, field, rule, HIDDEN, _REVOKE)
        for key in top:
            if key not in _STACK_KEYS:
                raise self._file.wrong((key,), key, f"a stack file has only {listed(_STACK_KEYS)}", key, meant(key, _STACK_KEYS))
        for key, value in self._file.mapping(("config",), top.get("config"), "config", "write one key per line below it").items():
            self._take(key, value)
        esc = top.get("environment") is not None or top.get("mainEnvironment") is not None
        for declared in self._project.declared:
            self._fill(declared, esc)
        values, objects, places = MappingProxyType(self._values), MappingProxyType(self._objects), Lines((1, self._places))
        return StackConfig(self._project.name, stack, self._file.path, values, frozenset(self._secret), objects, places)

    def _take(self, key: str, value: object) -> None:
        at, lines = ("config", key), self._file.document.lines
        if (full := self._file.full_key(at, self._project.name, key)) in self._values:
            first = Lines((1, self._places))[full,]
            raise self._file.wrong(at, key, f"{full} is already on line {first}", key, "remove one of them")
        namespace, _, name = full.partition(":")
        if namespace != self._project.name and instead(namespace, [self._project.name], "", _SAME_NAMESPACE):
            fix = f"did you mean {self._project.name}:{name}?"
            raise self._file.wrong(at, full, "unknown namespace", key, fix)
        if namespace != self._project.name and _OF_SECRET.search(name) and any(text for _, text in _texts((), value)):
            fix = f"log in without it (docs/deployments.md), or run `pulumi config set --secret {full}`"
            raise self._file.wrong(at, full, "must be encrypted", HIDDEN, fix)
        self._set(full, value)
        self._written.append((at, full))
        self._places[full] = (lines[at], lines.below(*at))

    def _set(self, full: str, value: object) -> None:
        visible = _hidden(value)
        # For an empty value the CLI prints a warning and uses the empty string.
        text = visible if isinstance(visible, str) else "" if visible is None else json_text(visible)
        self._values[full] = text
        # Parsed again, because the program gets the value that JSON keeps: 1.0 becomes 1.
        self._objects[full] = json.loads(text) if isinstance(visible, dict | list) else text
        if visible != value:
            self._secret.add(full)

    def _require_no_slip(self, missing: str) -> None:
        """Raise InputError for an undeclared key of the project that is similar to a missing key."""
        declared = {declared_key.key for declared_key in self._project.declared}
        for at, key in self._written:
            (namespace, _, name), (project, _, needed) = key.partition(":"), missing.partition(":")
            if key not in declared and namespace == project and (fix := instead(name, [needed], "")):
                raise self._file.wrong(at, key, "unknown key", key, fix)

    def _fill(self, declared: Declared, esc: bool) -> None:
        key, kind = declared.key, declared.type
        if key not in self._values:
            if declared.fill is not None:
                self._set(key, declared.fill)
            elif key.startswith(f"{self._project.name}:"):
                beside = "; values of ESC environments are not seen offline" if esc else ""
                self._require_no_slip(key)
                file, project = from_here(self._file.path), from_here(self._project.path)
                raise InputError(said("key_not_set", file=file, key=key, project=project, declared=declared, beside=beside))
            else:
                return
        if kind is None or key in self._secret:
            return
        where = f"{from_here(self._file.path)}:{Lines((1, self._places)).get((key,)) or declared.line}: {key}"
        if declared.secret:
            raise InputError(said("key_in_clear", where=where, key=key))
        if not fits(kind, declared.items, self._objects[key]):
            wanted, got = type_name(kind, declared.items), quoted(self._objects[key])
            raise InputError(f"{where}: must be of type {wanted}; got {got}; correct the value")


def _hidden(value: object) -> object:
    """The value with each `{secure: ciphertext}` replaced by STAND_IN."""
    if isinstance(value, dict):
        return STAND_IN if _is_encrypted(value) else {key: _hidden(item) for key, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list) else value


def _is_encrypted(value: dict[str, object]) -> bool:
    return len(value) == 1 and isinstance(value.get("secure"), str)


def _texts(at: Keys, value: object) -> Iterator[tuple[Keys, str]]:
    """Path and text of each key and scalar that is not encrypted."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts((*at, index), item)
    elif isinstance(value, dict) and not _is_encrypted(value):
        for key, item in value.items():
            yield (*at, key), str(key)
            yield from _texts((*at, key), item)


def json_text(value: object) -> str:
    """JSON as Go's encoding/json writes it: no spaces, sorted keys, <, > and & escaped, shortest floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return _float_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).translate(_ESCAPES)


def _float_text(value: float) -> str:
    if (size := abs(value)) and (size < 1e-6 or size >= 1e21):
        mantissa, _, exponent = repr(value).partition("e")
        power = int(exponent)
        return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")
