"""Each level of docs/evidence.toml is that of the tests and records that the row names. GPU_CI_RENEW=1 writes the tables anew."""

from __future__ import annotations

import json

import pytest

from tests.docs.evidence import LEVELS, MARKERS, RECORDS, Feature, features, level_of, short_table, table
from tests.docs.markdown import ROOT, assert_written

ROWS = [pytest.param(each, id=each.name) for each in features()]
ENGINE = "tests/engine/test_engine_import.py::test_an_adopted_node_group_stays_as_it_is"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_the_highest_level_of_its_evidence(row: Feature):
    assert row.evidence, "each row names what shows it"
    assert row.level == max(map(level_of, row.evidence), key=list(LEVELS).index)
    assert (ROOT / "docs" / row.page).is_file()
    assert row.what
    on_a_cloud = row.level == "cloud"
    assert bool(row.simulated) != on_a_cloud, "what no account answered, something else did"
    assert bool(row.missing) != on_a_cloud


def test_names_are_told_apart():
    names = [each.name for each in features()]
    assert len(names) == len(set(names)) >= 15


def test_a_record_is_json():
    for path in (ROOT / RECORDS).glob("*.json"):
        json.loads(path.read_text())


@pytest.mark.parametrize(
    ("evidence", "level"),
    [
        (ENGINE, "engine"),
        (
            "tests/fleet/talos/test_schemas.py::test_every_patch_is_what_talos_takes_and_every_talconfig_what_talhelper_takes",
            "charts",
        ),
        ("tests/fleet/test_charts.py::test_every_value_is_one_that_the_chart_knows", "charts"),
        ("tests/engine/test_provider.py::test_update_read_and_delete", "offline"),
    ],
)
def test_a_marker_of_the_test_or_of_its_module_gives_the_level(evidence: str, level: str):
    assert level_of(evidence) == level


@pytest.mark.parametrize("evidence", [ENGINE + "s", "tests/test_gone.py::test_a", "docs/acceptance/none.json", "README.md"])
def test_evidence_that_does_not_exist_is_found(evidence: str):
    with pytest.raises(ValueError, match="neither a test nor a record"):
        level_of(evidence)


def test_the_markers_are_those_of_the_project():
    declared = (ROOT / "pyproject.toml").read_text()
    assert all(f'  "{marker}: ' in declared for marker in MARKERS)


def test_the_page_has_the_table():
    assert_written(ROOT / "docs" / "evidence.md", "evidence:all", table())


def test_the_readme_has_the_short_table():
    assert_written(ROOT / "README.md", "evidence:short", short_table())
