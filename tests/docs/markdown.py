"""Reads the project's Markdown pages: fences, inline code, links, anchors."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
_MADE = {"build"}
"""Folders that the project's commands write."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: its page, the line that it starts at, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> tuple[Path, ...]:
    """Every Markdown page of the project."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".") and path.name not in _MADE]
    return tuple(sorted([*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]))


def fences() -> tuple[Fence, ...]:
    """Every fenced block of every page."""
    return tuple(
        Fence(page, token.map[0] + 1, token.info.strip(), token.content)
        for page in pages()
        for token in _tokens(page)
        if token.type == "fence" and token.map
    )


def inline_code() -> tuple[tuple[Path, str], ...]:
    """(page, text) of every piece of code within a line."""
    return tuple((page, child.content) for page in pages() for child in _children(page) if child.type == "code_inline")


def links(page: Path) -> tuple[str, ...]:
    """Targets of a page's links and images."""
    found = (child.attrGet("href") or child.attrGet("src") for child in _children(page))
    return tuple(str(target) for target in found if target)


def anchors(page: Path) -> frozenset[str]:
    """Anchors that GitHub gives the page's headings."""
    return frozenset(anchor for anchor, *_ in _headings(page))


def section(page: Path, anchor: str) -> str:
    """The text below the heading with this anchor, up to the next heading of its level or above."""
    found = iter(_headings(page))
    _, level, start = next(heading for heading in found if heading[0] == anchor)
    end = next((line - 1 for _, other, line in found if other <= level), None)
    return "".join(page.read_text().splitlines(keepends=True)[start:end])


def assert_written(page: Path, name: str, block: str) -> None:
    """Fail if a page has another text than `block` between `<!-- kind:of-what -->` and `<!-- /kind -->`; `name` is kind:of-what.

    With the variable GPU_CI_RENEW it writes the block instead.
    """
    text = page.read_text()
    found = re.search(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name.partition(':')[0]} -->)", text, re.DOTALL)
    assert found, f"{page.name} has no block {name}"
    if os.environ.get("GPU_CI_RENEW"):
        page.write_text(text[: found.start(2)] + block + text[found.end(2) :])
        return
    assert found[2] == block, f"{page.name} is out of date; renew it: GPU_CI_RENEW=1 .venv/bin/python -m pytest tests/docs"


def assert_file(path: Path, text: str) -> None:
    """Fail if a generated file has another text; with the variable GPU_CI_RENEW it writes the file instead."""
    if os.environ.get("GPU_CI_RENEW"):
        path.write_text(text)
        return
    assert path.read_text() == text, f"{path.name} is out of date; renew it: GPU_CI_RENEW=1 .venv/bin/python -m pytest tests/docs"


def _headings(page: Path) -> list[tuple[str, str, int]]:
    """Anchor, level (h1 to h6) and line of each heading."""
    return [
        (re.sub(r"[^\w\- ]", "", title.content.lower()).replace(" ", "-"), token.tag, token.map[0] + 1)
        for token, title in itertools.pairwise(_tokens(page))
        if token.type == "heading_open" and token.map
    ]


@cache
def _tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark").enable("table").parse(page.read_text()))


def _children(page: Path) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or ()
