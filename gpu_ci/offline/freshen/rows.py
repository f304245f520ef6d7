"""Edits single rows of the data files. Comments, order and all other rows stay as they are."""

import csv
import io
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

from gpu_ci.doctor.sources.github import numbers
from gpu_ci.offline.tomltables import edited

VERSIONS = "versions.toml"


class Edit(NamedTuple):
    """New values of a row. `row` is its path in a TOML file, or the values of the first columns of a CSV file.

    A CSV row that does not exist is added. In a TOML row an empty text removes a key, and `released` and `ends` are written only
    where a row has days. `part` names what is new in a row of several versions: the row's `source` then keeps the sources of the
    other parts.
    """

    file: str
    row: tuple[str, ...]
    fields: Mapping[str, str]
    part: str = ""

    @property
    def name(self) -> str:
        """The row as patterns of `renewal.toml` spell it."""
        return f"{self.file}:{(' ' if self.file.endswith('.csv') else '.').join(self.row)}"


class Tables:
    """The texts of the data files in a folder, with the edits so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._old: dict[str, str] = {}
        self._new: dict[str, str] = {}

    def text(self, file: str) -> str:
        """The text of a file, with the edits."""
        if file not in self._old:
            self._old[file] = self._new[file] = (self.folder / file).read_text(encoding="utf-8")
        return self._new[file]

    def versions(self) -> dict[str, Any]:
        """The content of versions.toml, with the edits."""
        return _parsed(self.text(VERSIONS))

    def csv(self, file: str) -> list[dict[str, str]]:
        """The rows of a CSV file, with the edits."""
        return list(csv.DictReader(io.StringIO(self.text(file))))

    def apply(self, edits: list[Edit]) -> None:
        """Make all the edits, or none if one of them fails."""
        before = dict(self._new)
        try:
            for edit in edits:
                self._new[edit.file] = (_row if edit.file.endswith(".toml") else _cells)(self.text(edit.file), edit)
        except BaseException:
            self._new = {**self._old, **before}
            raise

    @property
    def changed(self) -> dict[str, str]:
        """The new texts of the files that differ."""
        return {file: text for file, text in self._new.items() if text != self._old[file]}

    def write(self) -> None:
        """Write every changed file."""
        for file, text in self.changed.items():
            (self.folder / file).write_text(text, encoding="utf-8", newline="")


# -- TOML --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _row(text: str, edit: Edit) -> str:
    """The text with new values of one row."""
    row = reduce(getitem, edit.row, _parsed(text))
    fields = {key: value for key, value in edit.fields.items() if "released" in row or not key.startswith(("released", "ends"))}
    if edit.part:
        replaced = (f"{edit.part}: ", f"{edit.part} as ")
        others = [part for part in row["source"].split("; ") if not part.startswith(replaced)]
        fields["source"] = "; ".join([f"{edit.part}: {fields['source']}", *others])
    return edited(text, edit.row, {key: value or None for key, value in fields.items()}, "source")


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _cells(text: str, edit: Edit) -> str:
    """The text with new values of a row, or with a new row at its place by version."""
    head, *lines = text.splitlines()
    columns = next(csv.reader([head]))
    rows = [next(csv.reader([line])) for line in lines]
    known = edit.row in (keys := [tuple(row[: len(edit.row)]) for row in rows])
    at = keys.index(edit.row) if known else sum(numbers(key[0]) < numbers(edit.row[0]) for key in keys)
    values = dict(zip(columns, rows[at] if known else edit.row, strict=known)) | dict(edit.fields)
    lines[at : at + known] = [_line(values[column] for column in columns)]
    return "\n".join([head, *lines]) + "\n"


def _line(cells: Iterator[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()
