"""Lays out lines and tables for the width of a terminal. No word is broken, so every name can be read, copied and searched.

The console prints data without markup and masks credentials.
"""

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fleet.facts.credentials import mask

_GAP, _NARROW_GAP = 3, 2
"""Spaces between columns. The smaller one is for tables whose cells need several lines."""

Row = Sequence[str]
_wrapped = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def is_plain(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether output has no escape sequence, not even for bold: NO_COLOR (no-color.org) is not empty, or TERM is dumb."""
    return bool(environment.get("NO_COLOR")) or environment.get("TERM") in ("dumb", "unknown")


def without_commands(line: str) -> str:
    """A line in which GitHub's runner reads no command.

    It reads "::" at the start of a line and "##[" anywhere in it (actions/runner, ActionCommand.cs, TryParseV2 and TryParse).
    """
    shown = line.replace("##[", "# #[")
    return f": {shown.lstrip()[1:]}" if shown.lstrip().startswith("::") else shown


def one_line(value: str) -> str:
    """A text on one line, with � for invisible characters, such as control characters and changes of the text direction."""
    return shown_text(" ".join(value.split()))


def shown_text(value: str) -> str:
    """A text with � for invisible characters."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in value)


def log_line(value: str) -> str:
    """A text on one line of a log, without a command for GitHub's runner."""
    return without_commands(one_line(value))


class MaskingConsole(Console):
    """Masks credentials in every text, also in tables, before rich folds a text and splits a credential."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        # No markup: names and labels are data, so [red] in a name is not a color.
        super().__init__(
            stderr=stderr, width=width, color_system=None if is_plain() else "auto", highlight=False, markup=False, emoji=False
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable. A masked text keeps its own style and loses the styles of its parts."""
        if isinstance(renderable, str):
            renderable = mask(renderable)
        elif isinstance(renderable, Text) and (masked := mask(renderable.plain)) != renderable.plain:
            renderable = Text(masked, style=renderable.style, justify=renderable.justify, overflow=renderable.overflow)
        return super().render(renderable, options)


def show_line(
    console: Console, text: str, style: str = "", indent: str = "", hanging: str | None = None, whole: bool = False
) -> None:
    """Print a text, wrapped at spaces: `indent` before its first line, `hanging` before the others (default: two more spaces).

    `whole` keeps it on one line for programs that read it, unless the console is a terminal.
    """
    if whole and not console.is_terminal:
        console.print(Text(f"{indent}{text}"), soft_wrap=True)
        return
    after = f"{indent}  " if hanging is None else hanging
    # Masked before it is wrapped, because half a credential may match no pattern.
    for line in _wrapped(mask(text), console.width, initial_indent=indent, subsequent_indent=after):
        console.print(Text(line, style=style), soft_wrap=True)


def show_table(console: Console, columns: Row, rows: Sequence[Row], total: Row = ()) -> None:
    """Print a table, or a list with a paragraph for each row if the columns do not fit without breaking a word.

    A heading that starts with = is a name, which stays on one line and starts the paragraph of a list. One that starts with >
    aligns its column to the right. `total` is a last row below a blank line.
    """
    marks = [column[0] if column[0] in "=>" else "" for column in columns]
    headings = [column.removeprefix(mark) for column, mark in zip(columns, marks, strict=True)]
    cells = [headings, *rows, *([total] if total else [])]
    widest = [max(_width(row[at]) for row in cells) for at in range(len(columns))]
    least = [_least(mark, widest[at], [row[at] for row in cells]) for at, mark in enumerate(marks)]
    gap = _GAP if sum(widest) + _GAP * (len(columns) - 1) <= console.width else _NARROW_GAP
    if sum(least) > (room := console.width - gap * (len(columns) - 1)):
        _show_list(console, marks, headings, cells[1:])
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1) if gap == _GAP else (0, 1, 0, 0))
    for heading, mark, width in zip(headings, marks, _narrowed(widest, least, marks, room), strict=True):
        table.add_column(heading, justify="right" if mark == ">" else "left", width=width, no_wrap=mark == "=")
    for row in rows:
        table.add_row(*row)
    if total:
        table.add_section()
        table.add_row(*total, style="bold")
    console.print(table)


def _least(mark: str, widest: int, cells: Sequence[str]) -> int:
    """The smallest width of a column: a name whole, else the longest word and a third of the longest cell, to stay readable."""
    longest = max((cell_len(word) for cell in cells for word in cell.split()), default=0)
    return widest if mark == "=" else max(longest, -(-widest // 3))


def _width(cell: str) -> int:
    return max(map(cell_len, cell.splitlines()), default=0)


def _narrowed(widest: Sequence[int], least: Sequence[int], marks: Sequence[str], room: int) -> list[int]:
    """The widths of columns that fit into the room. Numbers become narrower only after texts."""
    widths = list(widest)
    while sum(widths) > room:
        at = max(range(len(widths)), key=lambda at: (widths[at] > least[at], marks[at] != ">", widths[at]))
        widths[at] -= 1
    return widths


def _show_list(console: Console, marks: Sequence[str], headings: Row, rows: Sequence[Row]) -> None:
    for row in rows:
        pairs = list(zip(marks, headings, row, strict=True))
        show_line(console, " ".join(cell for mark, _, cell in pairs if mark == "=" and cell) or row[0], "bold")
        fields = (f"{heading}: {'; '.join(cell.splitlines())}" for mark, heading, cell in pairs if mark != "=" and cell)
        for line in _packed(fields, console.width - 2, " | "):
            show_line(console, line, indent="  ", hanging="    ")


def show_packed(console: Console, fields: Iterable[str], style: str = "") -> None:
    """Print fields with a dot between them, on as few lines as possible, the lines after the first one indented."""
    for number, line in enumerate(_packed(fields, console.width - 2, " · ")):
        show_line(console, line, style, indent="  " if number else "")


def _packed(fields: Iterable[str], width: int, between: str) -> Iterator[str]:
    """Fields on as few lines as possible, without breaking a field that fits on a line."""
    line = ""
    for field in fields:
        if line and cell_len(line) + len(between) + cell_len(field) > width:
            yield line
            line = field
        else:
            line = f"{line}{between}{field}" if line else field
    if line:
        yield line
