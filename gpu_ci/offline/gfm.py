"""GitHub Markdown with untrusted text in it: names, labels and messages of a pull request.

The text cannot mention a person, create a link, break its table cell, add HTML or show a credential. Facts: the GitHub Flavored
Markdown spec (tables, backslash escapes, autolinks). GitHub looks for mentions and references in the rendered text, so a
backslash or an entity does not prevent them, but a zero-width space does.
"""

import html
import re
from collections.abc import Iterable, Sequence

from fleet.facts.credentials import mask
from gpu_ci.offline.layout import one_line

_GAP = "\u200b"
_REFERENCE = re.compile(r"@|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)
"""Text that GitHub would turn into a link or a mention."""
_MARKUP = re.compile(r"[\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"\A(\d{1,9}(?=[.)](?:\s|\Z))|(?=[-+=#]))")
"""The start of a line that would make it a list, a heading or a rule."""
_MOST = 400
"""The most characters of one text."""
_FOLD = "<details><summary>"


def text(value: str) -> str:
    """One line of prose, with all Markdown markup escaped."""
    return _BLOCK.sub(r"\1\\", _MARKUP.sub(r"\\\g<0>", _REFERENCE.sub(rf"\g<0>{_GAP}", _line(value))))


def code(value: str) -> str:
    """A name in code. A name with characters that code cannot show becomes prose."""
    line = _line(value)
    return text(line) if not line or re.search(r"[`\\|]", line) else f"`{line}`"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already. A heading that starts with > aligns its column to the right."""
    headings = [column.removeprefix(">") for column in columns]
    rule = ["--:" if column.startswith(">") else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def fold(summary: str, body: str) -> str:
    """A folded body. The summary is plain text."""
    return f"{_FOLD}{html.escape(_line(summary), quote=False)}</summary>\n\n{body}\n\n</details>"


def fenced(value: str, language: str) -> str:
    """Lines of code. The fence is longer than any row of backticks in them, so they cannot end it."""
    lines = "\n".join("".join(sign if sign.isprintable() else "\ufffd" for sign in line) for line in mask(value).splitlines())
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", lines)), default=0))
    return f"{fence}{language}\n{lines}\n{fence}"


def is_folded(markdown: str) -> bool:
    """Whether the text was made by `fold`."""
    return markdown.startswith(_FOLD)


def _line(value: str) -> str:
    masked = mask(one_line(value))
    return masked if len(masked) <= _MOST else masked[: _MOST - 1] + "…"
