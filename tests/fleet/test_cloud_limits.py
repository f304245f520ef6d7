"""cloud_limits.csv: the models of this environment say what its rows say, and the longest names fit."""

from __future__ import annotations

import csv
import io

from fleet.facts.cloud_limits import SUFFIX, limit
from fleet.facts.tables import rows
from tests import cloud_limits

SAMPLES: dict[str, object] = {"whole": 1, "text": "", "words": "", "count": []}
BOUNDS = ("type", "path", "kind", "least", "most", "values", "says")


def test_the_rows_of_models_are_those_of_the_packages_here() -> None:
    table = rows("cloud_limits.csv")
    # The script finds the inputs in the recordings of all stacks. Here the table names them.
    inputs: dict[str, dict[tuple[str, ...], object]] = {}
    for row in table:
        inputs.setdefault(row["type"], {})
        if row["kind"] in SAMPLES:
            inputs[row["type"]][*row["path"].split(".")] = SAMPLES[row["kind"]]
    made = list(csv.DictReader(io.StringIO(cloud_limits.table(table, inputs))))
    fix = "run .venv/bin/python -m tests.cloud_limits"
    assert [[row[name] for name in BOUNDS] for row in made] == [[row[name] for name in BOUNDS] for row in table], fix


def test_the_longest_names_of_clusters_pools_and_images_fit_with_the_suffix_of_pulumi() -> None:
    role, group = limit("aws:iam/role:Role", "name").most, limit("aws:eks/nodeGroup:NodeGroup", "nodeGroupName").most
    assert role == len("x" * 28 + "-control-plane-eksRole-role") + SUFFIX + 1, "fleet.prove.rules: the longest cluster"
    assert group == len("x" * 49 + "-nodes") + SUFFIX, "fleet.prove.rules: cluster, pool and zone"
