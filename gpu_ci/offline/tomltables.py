"""Edits tables of TOML as text: comments, order and everything else stay as they are."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[\[?[^\[\],=]+\]\]?[ \t]*(?:#.*)?$", re.MULTILINE)


def table(path: Iterable[str], entry: Mapping[str, Any]) -> str:
    """A table as TOML."""
    return f"[{'.'.join(path)}]\n" + "".join(f"{key} = {_literal(value)}\n" for key, value in entry.items())


def edited(text: str, path: Sequence[str], values: Mapping[str, Any], before: str) -> str:
    """The text with these values in the table at a path. None removes a key. A new key is before the key `before`.

    A new table follows the last one of the table above it. A list may get entries at its start. Raises KeyError if there is no
    table above it, ValueError for a table that is not written with a header and its keys on lines of their own.
    """
    windows, text = "\r\n" in text, text.replace("\r\n", "\n")
    expected = tomllib.loads(text)
    *above, name = path
    if name in (holder := reduce(getitem, above, expected)):
        for key in (key for key, value in values.items() if holder[name].get(key) != value):
            text = _put(text, rf"{written(path)}\s*\]", key, values[key], before, holder[name].get(key))
    else:
        at = _end(text, rf"{written(above)}\s*[.\]]")
        text = text[:at].rstrip("\n") + f"\n\n{table(path, values)}" + text[at:]
    holder[name] = {key: value for key, value in {**holder.get(name, {}), **values}.items() if value is not None}
    if tomllib.loads(text) != expected:
        raise ValueError(f"{'.'.join(path)}: this form of a table cannot be edited")
    return text.replace("\n", "\r\n") if windows else text


def written(keys: Iterable[str]) -> str:
    """The pattern of keys in a header, with or without quotes."""
    return r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in keys)


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _span(text: str, header: str) -> tuple[int, int]:
    """Where the keys below the last header of this form begin and end."""
    heads = list(re.finditer(rf"^[ \t]*\[\[?\s*{header}.*$", text, re.MULTILINE))
    start = heads[-1].end() if heads else len(text)
    after = _HEADER.search(text, start)
    return start, after.start() if after else len(text)


def _end(text: str, header: str) -> int:
    """The end of the last table with such a header, before comments that belong to the next one."""
    start, end = _span(text, header)
    return start + len(re.sub(r"(?:\s*\n[ \t]*(?:#.*)?)+\Z", "\n", text[start:end]))


def _put(text: str, header: str, key: str, value: Any, before: str, old: Any) -> str:
    start, end = _span(text, header)
    keys = (re.compile(rf"^[ \t]*{written([name])}[ \t]*=[ \t]*", re.MULTILINE) for name in (key, before))
    found, follows = (pattern.search(text, start, end) for pattern in keys)
    if found is None:
        at = follows.start() if follows else start + 1
        return f"{text[:at]}{key} = {_literal(value)}\n{text[at:]}"
    stop = _value_end(text, found.end(), end)
    if value is None:
        return text[: found.start()] + text[stop:].partition("\n")[2]
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
