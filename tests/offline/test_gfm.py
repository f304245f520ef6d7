"""Whatever a pull request names its things, GitHub shows the names and nothing else happens."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt

from gpu_ci.offline import gfm

GAP = "\u200b"
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "@team|<b>",
    "| a | b |",
    "`code`",
    "a\\|b",
    "\\",
    "a\\",
    "[x](https://example.com)",
    "![x](https://example.com/x.png)",
    "<img src=x onerror=alert(1)>",
    "<!-- hidden -->",
    "</details>",
    "&#64;team &lt;",
    "# heading",
    "- item",
    "1. item",
    "+ x",
    "> quote",
    "---",
    "===",
    "a\nb\r\nc\u2028d\x85e",
    "*bold* _it_ ~~gone~~ __b__",
    "[ref]: https://example.com",
    "$x$",
    "``",
    "   ",
    "",
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60), st.text("`|\\@<>[]()!&*_~#-+=.1a \n$:/", max_size=30))


def shown(value: str) -> str:
    """What a reader should see: one line, with invisible signs made visible."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(value.split()))


def inline(markdown: str) -> tuple[str, set[str]]:
    """What one block of Markdown shows, and the kinds of its inline parts."""
    children = [child for token in MARKDOWN.parse(markdown) for child in token.children or ()]
    return "".join(child.content for child in children).replace(GAP, ""), {child.type for child in children}


@given(texts)
@example("@team|<b>")
def test_prose_is_shown_as_it_is_and_is_nothing_but_text(value):
    seen, kinds = inline(f"x {gfm.text(value)}")
    assert seen == f"x {shown(value)}".rstrip()
    assert kinds <= {"text", "text_special"}


@given(texts)
def test_prose_at_the_start_of_an_item_starts_no_block(value):
    tokens = MARKDOWN.parse(f"- {gfm.text(value)}\n- next")
    blocks = {token.type for token in tokens if token.type.endswith("_open")}
    assert blocks <= {"bullet_list_open", "list_item_open", "paragraph_open"}
    assert sum(token.type == "list_item_open" for token in tokens) == 2


@given(texts)
@example("a\\|b")
def test_a_name_is_code_or_text(value):
    seen, kinds = inline(f"x {gfm.code(value)}")
    assert seen == f"x {shown(value)}".rstrip()
    assert kinds <= {"text", "text_special", "code_inline"}


@given(st.lists(st.tuples(texts, texts), max_size=3))
@example([("a\\", "|b"), ("a\\|", "`")])
def test_no_cell_leaves_its_place(rows):
    made = gfm.table(("one", ">two"), [(gfm.code(first), gfm.text(second)) for first, second in rows])
    tokens = MARKDOWN.parse(f"{made}\n\nafter")
    cells = [token.content for at, token in enumerate(tokens) if tokens[at - 1].type in ("td_open", "th_open")]
    assert len(cells) == 2 * (1 + len(rows))
    for (first, second), held in zip(rows, zip(cells[2::2], cells[3::2], strict=True), strict=True):
        assert [inline(f"x {cell}")[0] for cell in held] == [f"x {shown(first)}".rstrip(), f"x {shown(second)}".rstrip()]
    assert "html_block" not in {token.type for token in tokens}


def test_a_column_of_numbers_is_right_aligned():
    assert gfm.table(("a", ">b"), [("c", "1")]) == "| a | b |\n| --- | --: |\n| c | 1 |"


@pytest.mark.parametrize("value", ["@team", "x@y.z", "#12", "owner/repo#12", "GH-12", "gh-12", "https://x", "www.example.com"])
def test_what_github_would_ping_or_link_is_broken_by_a_sign_that_nobody_sees(value):
    made = gfm.text(value)
    assert GAP in made
    assert not re.search(r"@\w|#\d|gh-\d|://|www\.", made, re.IGNORECASE)


def test_what_links_nothing_is_left_alone():
    assert gfm.text("snake_case #name 0.348 at 9:00, a-b") == "snake_case #name 0.348 at 9:00, a-b"


def test_signs_that_turn_or_hide_text_are_seen():
    assert gfm.text("a\u202eb\x1bc\u200bd") == "a\ufffdb\ufffdc\ufffdd"


def test_a_long_text_is_cut():
    assert len(gfm.text("a" * 10_000)) == 400
    assert gfm.text("a" * 10_000).endswith("…")


def test_a_fold_has_its_body_as_markdown_and_its_summary_as_text():
    tokens = MARKDOWN.parse(gfm.fold("a <b> & c\nd", gfm.table(("x",), [("y",)])))
    assert tokens[0].content == "<details><summary>a &lt;b&gt; &amp; c d</summary>\n"
    assert "table_open" in {token.type for token in tokens}
    assert tokens[-1].content.strip() == "</details>"
