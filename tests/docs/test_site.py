"""The documentation site: each kind of broken link fails its build, and no page loads anything from another host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.docs.markdown import pages

PAGES = {
    "README.md": "# Home\n\n[Part](docs/deep/page.md#one-part) ![Picture](docs/images/fleet.svg)\n\n"
    "[Code](fleet/facts.py) [Folder](fleet) [Pages](docs/deep)\n",
    "docs/deep/page.md": "# Page\n\n## One `part`\n\n[Home](../../README.md#home)\n\n```md\n[no link](../../gone.md)\n```\n",
    "docs/images/fleet.svg": "<svg/>",
    "fleet/facts.py": "",
}
NAV = 'nav = [ { "Start" = [ { "Home" = "index.md" }, { "Page" = "deep/page.md" } ] } ]'


def build(folder: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    """Build a small site. `changed` replaces a text of a file: page of docs, or "nav"."""
    config = (ROOT / "zensical.toml").read_text()
    nav = re.search(r"^nav = \[\n.*?^\]$", config, re.MULTILINE | re.DOTALL)
    assert nav is not None
    (folder / "zensical.toml").write_text(config.replace(nav[0], changed.pop("nav", NAV)))
    for name, text in PAGES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(name, text))
    shutil.copytree(ROOT / ".ci", folder / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, ".ci/pages.py", "https://github.com/acme/fleet"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_links_out_of_docs_lead_to_the_repository(tmp_path: Path):
    done = build(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    home = (tmp_path / "build" / "site" / "index.html").read_text()
    assert 'href="https://github.com/acme/fleet/blob/main/fleet/facts.py"' in home
    assert 'href="https://github.com/acme/fleet/tree/main/fleet"' in home
    assert 'href="https://github.com/acme/fleet/tree/main/docs/deep"' in home, "the site has no page of a folder"
    page = (tmp_path / "build" / "site" / "deep" / "page" / "index.html").read_text()
    assert 'id="one-part"' in page
    assert 'href="../../#home"' in page, "the README is the site's first page"
    assert 'src="images/fleet.svg"' in home
    loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)|<link[^>]* href="(https?:[^"]*)', home)
    assert loaded == [], "a reader's browser asks no other host"


@pytest.mark.parametrize(
    ("page", "old", "new", "said"),
    [
        ("README.md", "deep/page.md", "deep/gone.md", "gone.md"),
        ("README.md", "#one-part", "#another-part", "anchor does not exist"),
        ("README.md", "images/fleet.svg", "images/gone.svg", "docs/images/gone.svg does not exist"),
        ("README.md", "fleet/facts.py", "fleet/gone.py", "fleet/gone.py does not exist"),
        ("nav", '{ "Page" = "deep/page.md" }', "", "nav has no docs/deep/page.md; add it"),
        ("nav", "deep/page.md", "deep/gone.md", "nav has deep/gone.md, which is not in docs; correct it"),
    ],
)
def test_a_broken_link_fails_the_build(page: str, old: str, new: str, said: str, tmp_path: Path):
    before = NAV if page == "nav" else PAGES[page]
    assert old in before
    done = build(tmp_path, **{page: before.replace(old, new)})
    assert done.returncode == 1
    assert said in re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)


def test_evidence_of_the_project_is_behind_reference():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    tabs = {name: str(content) for tab in nav for name, content in tab.items()}
    assert list(tabs) == ["Start", "Run", "Change", "Prove", "Extend", "Reference"], "a phone shows about six tabs"
    for page in ("evidence.md", "seeds.md", "example-plans.md", "inventory-staging.md"):
        assert [name for name, content in tabs.items() if f"'{page}'" in content] == ["Reference"]


LONG = {"troubleshooting.md"}
"""A page that a reader searches: each symptom has its heading."""


def test_other_pages_are_short_until_a_reader_opens_a_fold():
    shown = {
        page.name: re.sub(r"<details>.*?</details>", "", page.read_text(), flags=re.DOTALL)
        for page in (ROOT / "docs").glob("**/*.md")
    }
    assert {name for name, text in shown.items() if text.count("\n") > 650} <= LONG
    assert shown["troubleshooting.md"].count("\n") <= 800


def test_a_fold_shows_markdown(tmp_path: Path):
    fold = "# Page\n\n## One `part`\n\n<details><summary>Rows</summary>\n\n| a |\n|---|\n| `b\\|c` |\n\n</details>\n"
    assert build(tmp_path, **{"docs/deep/page.md": fold}).returncode == 0
    page = (tmp_path / "build" / "site" / "deep" / "page" / "index.html").read_text()
    assert re.search(r"<summary>Rows</summary>\s*<table>", page)
    assert "<code>b|c</code>" in page


def test_the_site_has_its_own_style_sheet_and_follows_the_system():
    config = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    for sheet in config["extra_css"]:
        text = (ROOT / "docs" / sheet).read_text()
        assert re.findall(r"@import|url\(|https?:", text) == [], "a reader's browser asks no other host"
    # The first palette counts until a reader picks one. Pictures have the colors of the same media feature.
    assert config["theme"]["palette"][0]["media"] == "(prefers-color-scheme)"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in pages()
        if page == ROOT / "README.md" or page.is_relative_to(ROOT / "docs")
    ],
)
def test_what_belongs_to_an_item_of_a_list_is_four_spaces_in(page: Path):
    # With fewer GitHub shows one list, but Zensical a new one after each block of code. A marker needs an empty line before it.
    text = page.read_text()
    assert re.findall(r"^ {1,3}```.*", text, re.MULTILINE) == []
    assert (
        re.findall(r"^ {4}\S.*\n(?:\d+\.|-) .*", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
        == []
    )
