"""docs/conventions.md: the files that it names exist, and each row of "Adding" names the tests that find a missing file."""

from __future__ import annotations

import re

import pytest

from components import build, git
from fleet.providers.registry import PROVIDERS
from fleet.settings import reading
from fleet.settings.runner import KINDS
from tests.builders import ROOT
from tests.fleet.test_fifth_provider import PLACES
from tests.test_arrows import OPENINGS

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
PAGE = (ROOT / "docs" / "conventions.md").read_text()
ADDING = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("\n## Adding\n")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]


def test_every_path_of_the_page_exists():
    # Others are relative to a folder that the row names before, or contain a placeholder.
    paths = [path for path in re.findall(r"`([\w./-]+/[\w./-]*)`", PAGE) if (ROOT / path.split("/")[0]).is_dir()]
    assert len(paths) > 30, "the paths were found"
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("row", ADDING, ids=[row[0] for row in ADDING])
def test_a_row_is_backed_by_a_test(row):
    what, where, backed = row
    assert where, what
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", backed)
    assert tests, f"{what}: name the test that fails for a missing file"
    for path, name in tests:
        assert (ROOT / path).is_file(), path
        assert f"def {name}" in (ROOT / path).read_text(), f"{path}::{name}"


def test_a_provider_has_one_row_and_one_builder():
    outside = {name for name, row in PROVIDERS.items() if not row.deployable}
    assert set(build._BUILDERS) == set(PROVIDERS) - outside
    assert set(git._BUILDERS) == outside


def test_the_row_of_a_provider_counts_the_places_that_the_fifth_one_shows():
    (row,) = [row for row in ADDING if row[0] == "a provider"]
    assert f"{len(PLACES)} in all" in row[1]
    assert f"the {_NUMBERS[len(OPENINGS)]} openings" in PAGE


def test_a_kind_of_runner_is_a_model_of_some_provider():
    unions = [reading._choices(reading._below(reading._below(row.settings, "runners"), "")) for row in PROVIDERS.values()]
    assert {kind for union in unions for kind in union} == set(KINDS)
