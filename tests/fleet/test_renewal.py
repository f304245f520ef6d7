"""Every row with a date is renewed by freshen, by Renovate or by a person, and exactly one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from fleet.facts.tables import rows as csv_rows, text, toml
from tests.builders import ROOT
from tests.cases import cases

DATA = ROOT / "fleet" / "facts" / "data"
RENEWAL = toml("renewal.toml")
FRESHEN, BY_HAND = tuple(RENEWAL["freshen"]["rows"]), RENEWAL["by-hand"]
RENOVATE: dict[str, Any] = json.loads((ROOT / ".github" / "renovate.json").read_text())
VERSIONS = text("versions.toml")
KEYS = {"prices.csv": 3, "spot.csv": 2}
"""The number of columns that name a row; one in other tables."""


def tables(found: dict[str, Any], at: str) -> Iterator[str]:
    """The rows with a date in a TOML file, as patterns spell them."""
    for name, row in found.items():
        if isinstance(row, dict):
            if "date" in row:
                yield f"{at}{name}"
            yield from tables(row, f"{at}{name}.")


def dated() -> Iterator[str]:
    """Every row with a date of every table."""
    for path in sorted(DATA.glob("*.toml")):
        yield from tables(toml(path.name), f"{path.name}:")
    for path in sorted(DATA.glob("*.csv")):
        found = csv_rows(path.name)
        if "date" in found[0]:
            yield from (f"{path.name}:{' '.join([*row.values()][: KEYS.get(path.name, 1)])}" for row in found)


def ours(row: str) -> str:
    """freshen or by hand, by the longest pattern; empty if none matches."""
    matching = [pattern for pattern in (*FRESHEN, *BY_HAND) if fnmatchcase(row, pattern)]
    longest = max(matching, key=len, default="")
    assert len([pattern for pattern in matching if len(pattern) == len(longest)]) <= 1, f"{row}: two patterns are as long"
    return "" if not longest else "freshen" if longest in FRESHEN else "by hand"


def extracted(content: str = VERSIONS) -> Iterator[tuple[str, str, str]]:
    """(type, name, version) of what Renovate's managers find in a text, also twice."""
    for manager in RENOVATE["customManagers"]:
        patterns = [re.compile(each.replace("(?<", "(?P<")) for each in manager["matchStrings"]]
        for match in patterns[0].finditer(content):
            inner = patterns[-1].search(match[0])
            assert inner is not None
            yield manager["depTypeTemplate"], match["depName"], inner["currentValue"]


def enabled(kind: str, name: str) -> bool:
    """Whether Renovate's rules let it renew a dependency of versions.toml. The last rule that matches counts."""
    state = True
    for rule in RENOVATE["packageRules"]:
        names = rule.get("matchDepNames", ())
        matches = any(re.search(each[1:-1], name) if each.startswith("/") else each == name for each in names)
        if matches and kind in rule["matchDepTypes"]:
            state = rule["enabled"]
    return state


@cache
def of_renovate() -> list[str]:
    """The rows that Renovate renews, also twice."""
    return [f"versions.toml:{kind}s.{name}" for kind, name, _ in extracted() if enabled(kind, name)]


ROWS = sorted(set(dated()))


def test_every_dated_row_has_exactly_one_who_renews_it():
    renewers = {row: [name for name in (ours(row), *["Renovate"] * of_renovate().count(row)) if name] for row in ROWS}
    assert {row: names for row, names in renewers.items() if len(names) != 1} == {}
    assert {name for names in renewers.values() for name in names} == {"freshen", "by hand", "Renovate"}


@cases(
    ("row", "renewer"),
    [
        ("versions.toml:images.actions-runner", "freshen"),
        ("versions.toml:charts.gha-runner-scale-set", "freshen"),
        ("versions.toml:chart-images.gha-runner-scale-set-controller.image", "freshen"),
        ("versions.toml:kubernetes.1.36", "freshen"),
        ("prices.csv:g4dn.xlarge us-west-2 on-demand", "freshen"),
        ("prices.csv:VM.GPU.A10.1 * on-demand", "by hand"),
        ("versions.toml:charts.kueue", "Renovate"),
        ("versions.toml:charts.dcgm-exporter", "Renovate"),
        ("versions.toml:images.dcgm-exporter", "by hand"),
        ("versions.toml:images.python", "Renovate"),
        ("versions.toml:oke.1.36", "by hand"),
    ],
)
def test_a_row_is_renewed_by(row: str, renewer: str):
    assert (ours(row) or ("Renovate" if row in of_renovate() else "nobody")) == renewer


def test_every_pattern_matches_a_row():
    idle = [each for each in (*FRESHEN, *BY_HAND) if not any(fnmatchcase(row, each) for row in ROWS)]
    assert idle == []


def test_renovate_reads_the_version_that_a_row_has():
    data = toml("versions.toml")
    versions = {("chart", name): row["version"] for name, row in data["charts"].items()}
    tagged = {name: row["reference"].partition("@")[0].rpartition("/")[2] for name, row in data["images"].items()}
    versions |= {("image", name): tag.partition(":")[2] for name, tag in tagged.items() if ":" in tag and "." not in name}
    assert {(kind, name): version for kind, name, version in extracted()} == versions


def test_no_end_of_an_old_chart_stays_beside_a_new_version():
    for manager in RENOVATE["customManagers"][:2]:
        pattern = re.compile(manager["matchStrings"][0].replace("(?<", "(?P<"))
        for match in pattern.finditer(VERSIONS):
            assert VERSIONS[match.end() : match.end() + 2] in ("\n\n", "\n#", "\n["), f"{match['depName']}: the row has more keys"


def test_what_renovate_writes_is_a_row_that_lacks_its_digest():
    """So that a test fails until freshen has added the digest, with source and day."""
    for manager in RENOVATE["customManagers"]:
        template = re.sub(r"\{\{\{newValue\}\}\}", "9.9.9", manager["autoReplaceStringTemplate"])
        template = re.sub(r"\{\{\{\w+\}\}\}", "name", template)
        if manager["depTypeTemplate"] == "chart":
            own = re.fullmatch(manager["matchStrings"][1].replace("(?<", "(?P<"), template)
            assert own is not None, "Renovate finds its own row again, whole"
            assert own["currentValue"] == "9.9.9"
            assert 'sha256 = ""\n' in template
            assert 'date = "1970-01-01"' in template
        else:
            assert "sha256:" not in template


@cases("row", ["versions.toml", "eks_images.csv", "runner_releases.csv", "eks_support.csv"])
def test_no_date_is_the_one_that_renovate_leaves_behind(row: str):
    assert "1970-01-01" not in text(row)


def test_renovate_waits_three_days_and_renews_actions_and_locks():
    assert RENOVATE["minimumReleaseAge"] == "3 days"
    assert {"custom.regex", "github-actions", "pep621", "pip_requirements"} == set(RENOVATE["enabledManagers"])
