"""Reads the data files in `data/`. Each row has its source and date. The published policy pack has this module too."""

import csv
import tomllib
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_DATA = Path(__file__).parent / "data"
_Entry = TypeVar("_Entry")
_FROM_TEXT: dict[object, Callable[[str], object]] = {
    int: lambda text: int(text or 0),
    float: lambda text: float(text or 0),
    int | None: lambda text: int(text) if text else None,
    str | None: lambda text: None if text == "unknown" else text,
    bool: lambda text: text == "true",
    date: date.fromisoformat,
}
"""How the text of a cell becomes the value of a field, by the field's annotation. Fields of other types take the text."""


@cache
def rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file by column, read once: do not change them."""
    with (_DATA / name).open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


@cache
def toml(name: str) -> dict[str, Any]:
    """The content of a TOML file, read once: do not change it."""
    with (_DATA / name).open("rb") as file:
        return tomllib.load(file)


def beside(module: str, name: str) -> dict[str, Any]:
    """The content of a TOML file in the folder of a module: `beside(__file__, "remarks.toml")`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def text(name: str) -> str:
    """The text of a file that another program reads as it is."""
    return (_DATA / name).read_text(encoding="utf-8")


def entry(kind: type[_Entry], row: Mapping[str, Any], **more: object) -> _Entry:
    """A dataclass from a row: each field has the value of the column with its name (TOML: with hyphens), or the one in `more`.

    Columns without a field of that name are left out, such as the source. A list becomes a tuple.
    """
    columns = {key.replace("-", "_"): value for key, value in row.items()}
    values = {name: _value(how, columns[name]) for name, how in kind.__annotations__.items() if name in columns}
    return kind(**values | more)


def entries(kind: type[_Entry], table: Mapping[str, Mapping[str, Any]], key: str = "") -> dict[str, _Entry]:
    """A dataclass for each named row of a TOML file; its field `key` has the name."""
    return {name: entry(kind, row, **({key: name} if key else {})) for name, row in table.items()}


def _value(annotation: object, value: object) -> object:
    if isinstance(value, str):
        return _FROM_TEXT.get(annotation, str)(value)
    return tuple(value) if isinstance(value, list) else value
