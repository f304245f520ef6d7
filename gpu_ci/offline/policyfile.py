"""The policy config of a stack: `policies/config/<stack>.json`, read strictly.

The CLI reads the same file with Go's encoding/json, where the last of two equal keys wins. Here a repeated key is an error,
because the first one would be ignored silently.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NoReturn

from fleet.facts.errors import InputError, quoted
from fleet.facts.limits import read_bytes
from gpu_ci.offline.judge import Configured, Settings, configure
from policies.rules import AnyRule

_FOLDER = "policies/config"
_FIX = "fix the file"


def configured_for(rules: Iterable[AnyRule], settings: Settings, stack: str, root: Path, as_of: date) -> tuple[Configured, ...]:
    """Each rule with its level and config, as `offline.judge.configure`. The errors have file and line of the policy config."""
    try:
        return configure(rules, settings, as_of)
    except InputError as error:
        text = _text(root / _FOLDER / f"{stack}.json", "") or ""
        raise InputError("\n".join(_placed(line, stack, text) for line in str(error).splitlines())) from None


def _placed(line: str, stack: str, text: str) -> str:
    """A line of an error with file and line in place of the words "policy config". The line is that of the last key found."""
    message = line.removeprefix("policy config: ")
    at = 0
    for key in message.partition(":")[0].split("."):
        match = re.compile(rf'"{re.escape(key)}"\s*:').search(text, at)
        at = match.start() if match else at
    return f"{_FOLDER}/{stack}.json:{text.count(chr(10), 0, at) + 1}: {message}"


def policy_settings(stack: str, root: Path) -> Mapping[str, object]:
    """The stack's policy config in the project at `root`. If there is no file, it is empty: every policy has its defaults.

    `offline.judge.configure` checks the entries. Raises InputError with file and line for text that is not UTF-8, for invalid
    JSON, for a repeated key and for JSON that is not an object. For a file that cannot be read the error names only the file.
    """
    name = f"{_FOLDER}/{stack}.json"
    text = _text(root / _FOLDER / f"{stack}.json", name)
    if text is None:
        return {}
    try:
        settings = json.loads(text, parse_constant=_no_number, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}: must be JSON; got {error.msg} in column {error.colno}; {_FIX}") from None
    except (ValueError, RecursionError) as error:
        # These errors have no line: a repeated key, NaN, an integer with thousands of digits, thousands of brackets.
        raise InputError(f"{name}:1: must be JSON that the CLI can read; got {error}; {_FIX}") from None
    if not isinstance(settings, dict):
        line = text[: len(text) - len(text.lstrip())].count("\n") + 1
        kind = type(settings).__name__
        raise InputError(
            f"{name}:{line}: a policy config is an object with policies as keys; got a {kind}; write {{}} around entries"
        )
    return settings


def _text(path: Path, name: str) -> str | None:
    """The text of the file; None if there is no file."""
    try:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{name}: is a link to {path.readlink()}, which does not exist; correct or remove the link")
        if not path.exists():
            return None
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise InputError(f"{name}: must be a file; got {kind}; remove it or write a policy config in its place")
        content = read_bytes(path)
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror}); check its permissions and size") from None
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
