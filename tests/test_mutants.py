"""Every change of `mutants.toml` can still be made, and its tests exist. `python -m tests.mutants` makes them."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT
from tests.docs.seeds_mutants import tried
from tests.mutants import Mutant, mutants


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_of_its_file_and_names_tests_that_exist(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    assert mutant.tests
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), test


def test_each_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(set(names)) == len(names)


def test_the_search_runs_with_the_packages_of_the_lock() -> None:
    passes = f"tests/test_mutants.py::{test_each_mutant_has_a_name_of_its_own.__name__}"
    assert tried([passes]) == {passes: "SURVIVED"}
