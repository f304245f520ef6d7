"""Reads the tables of an inventory page, by their headings and columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the headings above it, the nearest last, its columns, and its rows by column."""

    headings: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[dict[str, str], ...]

    def row(self, first: str) -> dict[str, str]:
        """The one row whose first cell is this name."""
        (found,) = [row for row in self.rows if row[self.columns[0]] == f"`{first}`"]
        return found

    @property
    def names(self) -> list[str]:
        """First cells, as they are written."""
        return [row[self.columns[0]] for row in self.rows]


def tables(page: str) -> tuple[Table, ...]:
    """Every table of a page, as GitHub reads it."""
    return tuple(_tables(page))


def _tables(page: str) -> Iterator[Table]:
    headings: dict[str, str] = {}
    cells: list[list[str]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            headings = {level: text for level, text in headings.items() if level < token.tag} | {
                token.tag: tokens[at + 1].content
            }
        elif token.type == "tr_open":
            cells.append([])
        elif token.type in ("th_open", "td_open"):
            cells[-1].append(tokens[at + 1].content)
        elif token.type == "table_close":
            columns, *rows = cells
            yield Table(tuple(headings.values()), tuple(columns), tuple(dict(zip(columns, row, strict=True)) for row in rows))
            cells = []


def table(page: str, heading: str, column: str) -> Table:
    """The one table below a heading that has a column of this name."""
    (found,) = [each for each in tables(page) if each.headings[-1] == heading and column in each.columns]
    return found
