"""The policy config of a stack: `policies/config/<stack>.json`, read strictly.

The CLI reads the same file with Go's encoding/json, which lets the last of two equal keys win; here that is an error,
for the first would be switched off in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from fleet.facts.limits import read_bytes
from offline.errors import InputError, shown

_FOLDER = "policies/config"
_MEND = "fix the file"
_TOKEN = re.compile(r'[{}]|(?P<text>"(?:[^"\\]|\\.)*")(?P<key>\s*:)?')
"""What tells keys from values in valid JSON: braces, and texts with or without a colon behind."""


def policy_config(stack: str, root: Path) -> str:
    """The policy config that applies, as text: its file, or that there is none."""
    name = f"{_FOLDER}/{stack}.json"
    return name if (root / name).is_file() else f"{name} does not exist: strictest levels and default limits"


def policy_settings(stack: str, root: Path) -> Mapping[str, object]:
    """The stack's policy config in the project at `root`; empty without a file: then every policy has its defaults.

    What the entries mean is not judged here (`offline.judge.configure` does). Raises InputError naming file and line for
    what is no UTF-8 text, no JSON, no object, or holds a key twice, and the file for what cannot be read at all.
    """
    name = f"{_FOLDER}/{stack}.json"
    text = _text(root / _FOLDER / f"{stack}.json", name)
    if text is None:
        return {}
    try:
        settings = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}: must be JSON; got {error.msg} in column {error.colno}; {_MEND}") from None
    except (ValueError, RecursionError) as error:
        # No line is known: NaN, an integer of thousands of digits, thousands of brackets.
        raise InputError(f"{name}:1: must be JSON that the CLI can read; got {error}; {_MEND}") from None
    if not isinstance(settings, dict):
        line = _line(text, len(text) - len(text.lstrip()))
        kind = type(settings).__name__
        raise InputError(f"{name}:{line}: a policy config is an object keyed by policy; got a {kind}; write {{}} around entries")
    _refuse_repeats(text, name)
    return settings


def _text(path: Path, name: str) -> str | None:
    """The file's text; None where there is no file."""
    try:
        if path.is_symlink() and not path.exists():
            raise InputError(f"{name}: is a link to {path.readlink()}, which does not exist; correct or remove the link")
        if not path.exists():
            return None
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise InputError(f"{name}: must be a file; got {kind}; remove it or write a policy config in its place")
        held = read_bytes(path)
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror}); check its permissions and size") from None
    try:
        return held.decode()
    except UnicodeDecodeError as error:
        line = held.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}:{line}: must be UTF-8 text; got byte {held[error.start]:#04x}; save it as UTF-8") from None


def _refuse_repeats(text: str, name: str) -> None:
    objects: list[dict[str, int]] = []
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        # Counted on from the last token: counted anew each time, a large file would take minutes.
        line, counted = line + text.count("\n", counted, token.start()), token.start()
        if token[0] == "{":
            objects.append({})
        elif token[0] == "}":
            objects.pop()
        elif token["key"]:
            key = json.loads(token["text"])
            if key in objects[-1]:
                first = objects[-1][key]
                raise InputError(
                    f"{name}:{line}: a key may stand once; got {shown(key)}, on line {first} too; remove one of them"
                )
            objects[-1][key] = line


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
