"""The policy config of a stack: `policies/config/<stack>.json`, written from `policies/stacks.toml`, and read strictly.

People edit stacks.toml; the Pulumi CLI and `make plan` read the JSON. A stack in stacks.toml has the levels of its kind and the
values that its tables set. A stack that is not there may have a JSON file that a person writes; that file stays as it is.
The CLI reads the JSON with Go's encoding/json, where the last of two equal keys wins. Here a repeated key is an error, because
the first one would be ignored silently.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

from fleet.facts.errors import InputError, instead, quoted, reachable
from fleet.facts.limits import read_bytes
from fleet.loading.stackfile import stacks
from fleet.providers.fleet import Fleet
from gpu_ci.offline.judge import Configured, Settings, configure
from gpu_ci.offline.tomltables import written
from policies.rules import RULES, AnyRule
from policies.rules.rule import STACK_KINDS
from policies.rules.sources_allowed import owner_of

STACKS = "policies/stacks.toml"
_KIND = "kind"
_LEVEL = "enforcementLevel"
_SAME_NAME = 0.8
"""Names of stacks are short, so only very similar ones are slips."""

Table = Mapping[str, Any]


def settings_of(table: Table) -> dict[str, dict[str, Any]]:
    """The policy config from the table of a stack, in the order of the pack."""
    settings = {}
    for rule in RULES:
        level = rule.levels[table[_KIND]]
        if entry := {**({_LEVEL: level} if level != rule.level else {}), **table.get(rule.id, {})}:
            settings[rule.id] = entry
    return settings


def policy_configs(root: Path) -> dict[str, str]:
    """The text of `policies/config/<stack>.json` by that path, for each stack in stacks.toml; empty if there is no stacks.toml.

    Raises InputError naming the file and the line of the stack or policy for an unknown kind or policy, and for a value that does
    not fit the policy's schema.
    """
    tables, text = _read(root)
    return {config_path(stack): _rendered(stack, table, text) for stack, table in tables.items()}


def write_policy_configs(root: Path) -> tuple[str, ...]:
    """Write these files and return their paths below `root`. Raises InputError as `policy_configs` does."""
    configs = policy_configs(root)
    for name, text in configs.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return tuple(configs)


def require_current(stack: str, root: Path) -> None:
    """Raise InputError if the policy config of a stack differs from stacks.toml. A stack that is not in stacks.toml passes."""
    tables, text = _read(root)
    if stack not in tables:
        return
    name = config_path(stack)
    expected = _rendered(stack, tables[stack], text)
    if (existing := (root / name).read_text(encoding="utf-8") if (root / name).is_file() else "") != expected:
        pairs = zip_longest(existing.splitlines(), expected.splitlines())
        line = next((number for number, (here, there) in enumerate(pairs, 1) if here != there), 1)
        why = f"{name}:{line}: must be the config that {STACKS} generates for stack {stack}"
        raise InputError(f"{why}; edit {STACKS}, then run `make docs`")


def policy_values(stack: str, root: Path) -> str:
    """Which policy values a stack has, and which file sets them, for people."""
    tables, _ = _read(root)
    name = config_path(stack)
    if (table := tables.get(stack)) is not None:
        count = sum(isinstance(entry, Mapping) for entry in table.values())
        differ = "1 policy differs" if count == 1 else f"{count} policies differ"
        return f"{name}, from {STACKS} [{stack}], kind {table[_KIND]}; {differ} from the kind's"
    if (root / name).is_file():
        return f"{name}, written by hand: {STACKS} has no [{stack}]"
    others = (table for table in tables if table not in stacks(root))
    similar = next((table for table in others if instead(stack, [table], "", _SAME_NAME)), "")
    note = f"; {STACKS} has [{similar}]: rename it to [{stack}] if it is for this stack" if similar else ""
    return f"no entry for {stack}: the strictest levels and default limits; add [{stack}] to {STACKS} (gpu-ci init){note}"


def kind_of(stack: str, root: Path) -> str:
    """The kind of a stack; that of the strictest levels if stacks.toml does not have it."""
    table = _read(root)[0].get(stack)
    return str(table[_KIND]) if table is not None else "prod"


def config_path(stack: str) -> str:
    """Where a project has the policy config of a stack."""
    return f"policies/config/{stack}.json"


def stacks_text(root: Path) -> str:
    """The text of stacks.toml; "" if there is no file. Raises InputError if it is not TOML."""
    return _read(root)[1]


def _read(root: Path) -> tuple[Table, str]:
    """The tables of stacks.toml and its text; both are empty if there is no file."""
    if not (path := root / STACKS).is_file():
        return {}, ""
    try:
        with reachable(f"{STACKS}: cannot be read", "check its permissions and size"):
            text = read_bytes(path).decode()
        return tomllib.loads(text, parse_float=_finite), text
    except (ValueError, RecursionError) as error:
        fix = "write the keys of both tables below one header" if "twice" in str(error) else "fix the file"
        raise InputError(f"{STACKS}: must be TOML in UTF-8, and cannot be read: {error}; {fix}") from None


def _rendered(stack: str, table: object, text: str) -> str:
    place = f"{STACKS}:{_line(text, stack)}: {stack}"
    if not isinstance(table, Mapping):
        raise InputError(f"{place}: must be a table; got {quoted(table)}; write [{stack}] with the stack's kind")
    if table.get(_KIND) not in STACK_KINDS:
        kind = table.get(_KIND)
        fix = instead(str(kind), STACK_KINDS, f"give one of: {', '.join(STACK_KINDS)}")
        raise InputError(f"{place}.{_KIND}: must be a kind of stack; got {quoted(kind)}; {fix}")
    for policy, entry in table.items():
        if policy != _KIND:
            _check(f"{STACKS}:{_line(text, stack, policy)}: {stack}", policy, entry)
    return json.dumps(settings_of(table), indent=2, ensure_ascii=False) + "\n"


def _check(place: str, policy: str, entry: object) -> None:
    if (rule := next((rule for rule in RULES if rule.id == policy), None)) is None:
        names = sorted(rule.id for rule in RULES)
        fix = instead(policy, names, f"give one of: {', '.join(names)}")
        raise InputError(f"{place}.{policy}: no policy has this name; got {quoted(entry)}; {fix}")
    if not isinstance(entry, Mapping):
        raise InputError(f"{place}.{policy}: must be a table; got {quoted(entry)}; write the level as {_LEVEL} in that table")
    try:
        configure([rule], {policy: entry}, date.max)
    except InputError as error:
        faults = (line.removeprefix("policy config: ") for line in str(error).splitlines())
        raise InputError("\n".join(f"{place}.{fault}" for fault in faults)) from None


def _line(text: str, *keys: str) -> int:
    """The line of the first table header that starts with these keys, or with the first of them; 1 if there is none."""
    if (header := re.search(rf"^\s*\[+\s*{written(keys)}\s*[.\]]", text, re.M)) is None:
        return _line(text, keys[0]) if len(keys) > 1 else 1
    return text.count("\n", 0, header.end()) + 1


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"the number {number}")
    return value


def configured_for(rules: Iterable[AnyRule], settings: Settings, stack: str, root: Path, as_of: date) -> tuple[Configured, ...]:
    """Each rule with its level and config, as `offline.judge.configure`. The errors have file and line of the policy config."""
    try:
        return configure(rules, settings, as_of)
    except InputError as error:
        text = _text(root / config_path(stack), "") or ""
        raise InputError("\n".join(_placed(line, stack, text) for line in str(error).splitlines())) from None


def _placed(line: str, stack: str, text: str) -> str:
    """A line of an error with file and line in place of the words "policy config". The line is that of the last key found."""
    message = line.removeprefix("policy config: ")
    at = 0
    for key in message.partition(":")[0].split("."):
        match = re.compile(rf'"{re.escape(key)}"\s*:').search(text, at)
        at = match.start() if match else at
    return f"{config_path(stack)}:{text.count(chr(10), 0, at) + 1}: {message}"


def policy_settings(stack: str, root: Path) -> Mapping[str, object]:
    """The stack's policy config in the project at `root`. If there is no file, it is empty: every policy has its defaults.

    `offline.judge.configure` checks the entries. Raises InputError with file and line for text that is not UTF-8, for invalid
    JSON, for a repeated key and for JSON that is not an object. For a file that cannot be read the error names only the file.
    """
    name = config_path(stack)
    if (text := _text(root / name, name)) is None:
        return {}
    try:
        settings = json.loads(text, parse_constant=_no_number, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}: must be JSON; got {error.msg} in column {error.colno}; fix the file") from None
    except (ValueError, RecursionError) as error:
        # These errors have no line: a repeated key, NaN, an integer with thousands of digits, thousands of brackets.
        raise InputError(f"{name}:1: must be JSON that the CLI can read; got {error}; fix the file") from None
    if not isinstance(settings, dict):
        line = text[: len(text) - len(text.lstrip())].count("\n") + 1
        why = f"{name}:{line}: a policy config is an object with policies as keys; got a {type(settings).__name__}"
        raise InputError(f"{why}; write {{}} around entries")
    return settings


def with_owners(settings: Settings, fleet: Fleet) -> Settings:
    """The policy config in which a policy that lists no owners has those of the fleet's scopes and Git repositories."""
    scopes = [scope.owner for scope in fleet.scopes.values()]
    trees = [owner_of(cluster.gitops.repository) for _, cluster in fleet.clusters_by_name() if cluster.gitops is not None]
    entries = {}
    for policy, owners in (("runner-group-scoped", scopes), ("sources-allowed", [*scopes, *trees])):
        entry = settings.get(policy, {})
        values = {_LEVEL: entry} if isinstance(entry, str) else entry
        if isinstance(values, Mapping) and not values.get("owners"):
            entries[policy] = {**values, "owners": [*dict.fromkeys(owners)]}
    return {**settings, **entries}


def _text(path: Path, name: str) -> str | None:
    """The text of the file; None if there is no file."""
    with reachable(f"{name}: cannot be read", "check its permissions and size"):
        if path.is_symlink() and not path.exists():
            raise InputError(f"{name}: is a link to {path.readlink()}, which does not exist; correct or remove the link")
        if not path.exists():
            return None
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise InputError(f"{name}: must be a file; got {kind}; remove it or write a policy config in its place")
        content = read_bytes(path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: must be UTF-8 text; got byte {content[error.start]:#04x}; save it as UTF-8") from None


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON. Raises ValueError for a repeated key."""
    counts = Counter(key for key, _ in pairs)
    if repeated := next((key for key, count in counts.items() if count > 1), None):
        raise ValueError(f"key {quoted(repeated)} {counts[repeated]} times in one object, where it may appear once")
    return dict(pairs)


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
