"""The incident museum: for each public incident of another fleet, `audit` names it before the fix, and nothing of it after.

`museum/incidents.toml` says what happened. The folder of an incident has the shape of the configuration before its fix, and after
it. Where no `after` is there, the fix is the diff of the findings, so the test proves the diff, too.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpu_ci.audit.finding import Finding, diff_of
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings
from tests.docs.markdown import ROOT, assert_file

MUSEUM = Path(__file__).parent / "museum"
INCIDENTS: dict[str, dict[str, Any]] = tomllib.loads((MUSEUM / "incidents.toml").read_text())
NAMED = {name: row for name, row in INCIDENTS.items() if "line" in row}
_PAGE = """\
# The incident museum

What stopped other fleets, and the line in which [`gpu-ci audit`](audit.md) names it. Each row is a public incident.
`tests/audit/museum` has the shape of its configuration before the fix, written for these tests. A test audits it as of the day of
the source and finds the line word for word. The fixed shape has no error, and nothing of that rule. For {derived} of them the fix
is the diff that the finding prints.

{counts}
"""


def audited(folder: Path, shape: str, day: date, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The findings of a shape, `before` or `after`: one file with that name, or a folder of files."""
    monkeypatch.chdir(folder)
    return findings(audit(Path(shape) if Path(shape).is_dir() else Path(f"{shape}.yaml")), day)


def patched(diff: str, folder: Path) -> None:
    """Apply a unified diff to the files of a folder, by its words alone."""
    for part in re.split(r"(?m)^--- a/.*\n", diff)[1:]:
        head, *hunks = re.split(r"(?m)^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@\n", part)
        path = folder / head.removeprefix("+++ b/").strip()
        lines = path.read_text().splitlines(keepends=True)
        for start, hunk in sorted(zip(map(int, hunks[::2]), hunks[1::2], strict=True), reverse=True):
            rows = hunk.splitlines(keepends=True)
            old = [row[1:] for row in rows if row[0] in " -"]
            # A hunk without old lines names the line after which it goes.
            at = start - 1 if old else start
            assert lines[at : at + len(old)] == old, "the diff is about another text"
            lines[at : at + len(old)] = [row[1:] for row in rows if row[0] in " +"]
        path.write_text("".join(lines))


@pytest.mark.parametrize("name", NAMED)
def test_an_incident_is_named_before_its_fix(name: str, monkeypatch: pytest.MonkeyPatch):
    row = NAMED[name]
    found = [
        f"{one.place}: {one.level} {one.rule}: {one.message}"
        for one in audited(MUSEUM / name, "before", row["date"], monkeypatch)
    ]
    assert row["line"] in found, "\n".join(found)
    place, level = row["line"].split()[:2]
    assert row["line"].removeprefix(f"{place} {level} ").startswith(f"{row['rule']}: ")
    assert level in ("error", "warning")


@pytest.mark.parametrize("name", NAMED)
def test_nothing_of_an_incident_is_left_after_its_fix(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    row, folder = NAMED[name], MUSEUM / name
    if not (folder / "after.yaml").exists() and not (folder / "after").exists():
        of_rule = [one for one in audited(folder, "before", row["date"], monkeypatch) if one.rule == row["rule"]]
        assert all(one.diff for one in of_rule), "without a file of the fixed shape each finding has its fix as a diff"
        shutil.copy(folder / "before.yaml", tmp_path)
        patched(diff_of([edit for one in of_rule for edit in one.edits]), tmp_path)
        (tmp_path / "before.yaml").rename(tmp_path / "after.yaml")
        folder = tmp_path
    left = audited(folder, "after", row["date"], monkeypatch)
    assert [one for one in left if one.level == "error" or one.rule == row["rule"]] == []


@pytest.mark.parametrize("name", INCIDENTS.keys() - NAMED.keys())
def test_what_no_configuration_shows_is_not_foreseen(name: str, monkeypatch: pytest.MonkeyPatch):
    row = INCIDENTS[name]
    assert row["foreseen"] == "no"
    assert "rule" not in row
    assert [one for one in audited(MUSEUM / name, "before", row["date"], monkeypatch) if one.level == "error"] == []


def test_every_incident_is_in_the_museum():
    assert Counter(row["foreseen"] for row in INCIDENTS.values()) == {"yes": 41, "partly": 11, "no": 1}
    assert {path.name for path in MUSEUM.iterdir() if path.is_dir()} == INCIDENTS.keys()
    assert {row["foreseen"] for row in NAMED.values()} == {"yes", "partly"}
    levels = {row["line"].split()[1] for row in NAMED.values() if row["foreseen"] == "partly"}
    assert levels == {"warning"}, "a risk is not an error"


def test_the_page_has_every_incident_with_its_line():
    derived = sum(not any((MUSEUM / name / shape).exists() for shape in ("after.yaml", "after")) for name in NAMED)
    foreseen = Counter((row["foreseen"], "line" in row) for row in INCIDENTS.values())
    rows = ["| foreseen | incidents | named |", "|---|---|---|"]
    for what in ("yes", "partly", "no"):
        named = foreseen[what, True]
        rows.append(f"| {what} | {named + foreseen[what, False]} | {named} |")
    table = ["| incident | what happened | what shows it | audit says |", "|---|---|---|---|"]
    for name, row in INCIDENTS.items():
        line = row["line"].partition(": ")[2].replace("|", "\\|") if "line" in row else f"not foreseen: {row['fact']}"
        fact = row["fact"] if "line" in row else ""
        table.append(f"| [{name}]({row['source']}), {row['date']} | {row['happened']} | {fact} | {line} |")
    page = _PAGE.format(derived=derived, counts="\n".join(rows))
    details = "\n".join(["<details><summary>The incidents</summary>", "", *table, "", "</details>", ""])
    assert_file(ROOT / "docs" / "museum.md", f"{page}\n{details}")
