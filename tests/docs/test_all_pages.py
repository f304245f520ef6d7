"""docs/all-pages.md links every page of docs/, so that a reader finds each of them by task."""

from __future__ import annotations

from tests.docs.markdown import ROOT, links

INDEX = ROOT / "docs" / "all-pages.md"


def test_every_page_is_in_the_index():
    linked = {(INDEX.parent / target.partition("#")[0]).resolve() for target in links(INDEX) if ":" not in target}
    assert sorted(page.name for page in {*INDEX.parent.glob("*.md")} - linked - {INDEX}) == []
