"""GitHub's Markdown around text that nobody vouches for: names, labels and messages of a pull request.

Whatever the text holds, it pings nobody, links nowhere, leaves its table cell alone, is no HTML and shows no credential.
Facts: the GitHub Flavored Markdown spec (tables, backslash escapes, autolinks); mentions and references are found in what is
rendered, so neither a backslash nor an entity stops one, and a zero-width space does.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from fleet.facts.credentials import mask
from offline.words import one_line

_GAP = "\u200b"
_REFERENCE = re.compile(r"@|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)
"""What GitHub would make a link or a ping of."""
_MARKUP = re.compile(r"[\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"\A(\d{1,9}(?=[.)](?:\s|\Z))|(?=[-+=#]))")
"""What at the start of a line would make it a list, a heading or a rule."""
_MOST = 400
"""Characters of one text."""
_FOLD = "<details><summary>"


def text(value: str) -> str:
    """One line of prose: what Markdown would read as markup stands there as it is."""
    return _BLOCK.sub(r"\1\\", _MARKUP.sub(r"\\\g<0>", _REFERENCE.sub(rf"\g<0>{_GAP}", _line(value))))


def code(value: str) -> str:
    """A name in code; one that holds what code cannot show is prose."""
    line = _line(value)
    return text(line) if not line or re.search(r"[`\\|]", line) else f"`{line}`"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; a column whose heading starts with > is right-aligned."""
    headings = [column.removeprefix(">") for column in columns]
    rule = ["--:" if column.startswith(">") else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def fold(summary: str, body: str) -> str:
    """A body that the reader opens; the summary is plain text."""
    return f"{_FOLD}{html.escape(_line(summary), quote=False)}</summary>\n\n{body}\n\n</details>"


def is_folded(markdown: str) -> bool:
    """Whether a piece was made by `fold`."""
    return markdown.startswith(_FOLD)


def _line(value: str) -> str:
    seen = mask(one_line(value))
    return seen if len(seen) <= _MOST else seen[: _MOST - 1] + "…"
