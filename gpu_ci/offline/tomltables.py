"""Edits tables of TOML as text: comments, order and everything else stay as they are."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from fleet.facts.errors import InputError

_HEADER = re.compile(r"^[ \t]*\[\[?[^\[\],=]+\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)


def table(stack: str, policy: str, entry: Mapping[str, Any]) -> str:
    """The table of a policy as TOML."""
    return f"[{stack}.{policy}]\n" + "".join(f"{key} = {_literal(value)}\n" for key, value in entry.items())


def edited(text: str, stack: str, entries: Mapping[str, Mapping[str, Any]], file: str) -> str:
    """The text with these values in the tables [stack.policy]. A new table follows the last one of the stack.

    A list may get entries at its start. Raises InputError for a table that is not written with a header.
    """
    expected, windows, text = tomllib.loads(text), "\r\n" in text, text.replace("\r\n", "\n")
    for policy, entry in entries.items():
        old = expected[stack].get(policy)
        if old is None:
            at = _end(text, rf"{written(stack)}\s*[.\]]")
            text = text[:at].rstrip("\n") + f"\n\n{table(stack, policy, entry)}" + text[at:]
        else:
            for key, value in entry.items():
                if key not in old or old[key] != value:
                    text = _put(text, rf"{written(stack)}\s*\.\s*{written(policy)}\s*\]", key, value, old.get(key))
        expected[stack][policy] = {**(old or {}), **entry}
    try:
        if tomllib.loads(text) == expected:
            return text.replace("\n", "\r\n") if windows else text
    except tomllib.TOMLDecodeError:
        pass
    headers = ", ".join(f"[{stack}.{policy}]" for policy in entries)
    raise InputError(f"{file}: {stack}: cannot be edited in the form that it has; write {headers} with a key on each line")


def written(key: str) -> str:
    """The pattern of a key in a header, with or without quotes."""
    return rf"[\"']?{re.escape(key)}[\"']?"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def span(text: str, header: str) -> tuple[int, int]:
    """Where the keys below the last header of this form begin and end."""
    heads = list(re.finditer(rf"^[ \t]*\[\[?\s*{header}.*$", text, re.MULTILINE))
    start = heads[-1].end() if heads else len(text)
    after = _HEADER.search(text, start)
    return start, after.start() if after else len(text)


def _end(text: str, header: str) -> int:
    """The end of the last table with such a header, before comments that belong to the next one."""
    start, end = span(text, header)
    return start + len(re.sub(r"(?:\s*\n[ \t]*(?:#.*)?)+\Z", "\n", text[start:end]))


def _put(text: str, header: str, key: str, value: Any, old: Any) -> str:
    start, end = span(text, header)
    found = re.compile(rf"^[ \t]*{written(key)}[ \t]*=[ \t]*", re.MULTILINE).search(text, start, end)
    if found is None:
        why = re.compile(r"^[ \t]*why[ \t]*=", re.MULTILINE).search(text, start, end)
        at = why.start() if why else start + 1
        return f"{text[:at]}{key} = {_literal(value)}\n{text[at:]}"
    stop = _value_end(text, found.end(), end)
    new = _literal(value)
    if isinstance(value, list) and isinstance(old, list) and old and value[len(value) - len(old) :] == old:
        added = ", ".join(map(_literal, value[: len(value) - len(old)]))
        new = re.sub(r"^\[(\s*)", lambda match: f"[{match[1]}{added},{match[1] or ' '}", text[found.end() : stop])
    return text[: found.end()] + new + text[stop:]


def _value_end(text: str, start: int, end: int) -> int:
    """The end of the value: before the first comment or line end at which it is whole."""
    for stop in re.compile(r"#|\n|\Z").finditer(text, start, end):
        try:
            tomllib.loads(f"key = {text[start : stop.start()]}")
        except tomllib.TOMLDecodeError:
            continue
        return start + len(text[start : stop.start()].rstrip())
    return end
