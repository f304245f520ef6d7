"""What a project needs that others use: a license, and owners of parts that are dangerous to change."""

from __future__ import annotations

import hashlib
import tomllib

from tests.builders import ROOT

APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""


def owners() -> dict[str, list[str]]:
    """Pattern of CODEOWNERS to its owners."""
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    return {words[0]: words[1:] for words in map(str.split, lines) if words and not words[0].startswith("#")}


def test_the_license_is_the_text_that_pyproject_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert [hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in project["license-files"]] == [APACHE_2]


def test_everything_but_pages_and_tests_has_an_owner():
    """tests/workflows/test_workflows.py reads which paths the workflows with rights run."""
    assert [path for path, names in owners().items() if not names] == ["/docs/", "/tests/"]
    assert owners()["*"]
    assert [path for path in owners() if path != "*" and not (ROOT / path.strip("/")).exists()] == []


def test_contributing_replaces_every_owner():
    """One placeholder, so that the page's one command leaves none behind."""
    (placeholder,) = {owner for held in owners().values() for owner in held}
    assert f"s|{placeholder}|@ORG/TEAM|" in (ROOT / "CONTRIBUTING.md").read_text()
