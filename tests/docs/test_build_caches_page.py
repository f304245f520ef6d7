"""`docs/build-caches.md` has every key, settings that are a fleet, a workflow with inputs that exist, and the access matrix."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from fleet.loading.config import load
from fleet.settings.build_caches import BuildCache, BuildCaches
from tests.builders import cluster, config
from tests.docs.markdown import ROOT, assert_written, fences
from tests.fleet.cache_jobs import ACTIONS, documents, matrix

PAGE = ROOT / "docs" / "build-caches.md"
SETTINGS, WORKFLOW = (YAML(typ="safe", pure=True).load(fence.text) for fence in fences() if fence.page == PAGE)


def caches() -> BuildCaches:
    found: BuildCaches = load(config(clusters={"usw2": cluster(**SETTINGS)})).clusters["usw2"].build_caches
    return found


def test_the_matrix_on_the_page_is_that_of_its_settings() -> None:
    held = caches()
    ((bucket, cache),) = held.buckets.items()
    rows = [
        " | ".join([f"| {row.job.what}", *(("no", "yes")[can] for can in (row.job.inside, *row.can.values()))]) + " |"
        for row in matrix(cache, documents(held.account, bucket, cache, "vpc-0123456789abcdef0"))
    ]
    head = ["", f"| job | VPC | {' | '.join(ACTIONS)} |", "|---|---|" + "---|" * len(ACTIONS)]
    assert_written(PAGE, "matrix:build-cache", "\n".join([*head, *rows, "", ""]))


def test_the_page_has_every_key_and_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) ?\|", PAGE.read_text(), re.MULTILINE))
    fields = {field.alias: field for model in (BuildCaches, BuildCache) for field in model.model_fields.values()}
    assert set(rows) == set(fields)
    defaults = {name: text.strip("`") for name, text in rows.items() if text}
    assert defaults == {"owners": "[]", "writeRefs": "[refs/heads/main]", "days": "14"}
    assert {name for name, field in fields.items() if not field.is_required()} == set(defaults)


def test_the_workflow_gives_inputs_of_the_action_and_the_role_of_the_settings() -> None:
    action: Any = YAML(typ="safe", pure=True).load(ROOT / ".github" / "actions" / "ccache" / "action.yml")
    given = [step["with"] for step in WORKFLOW["steps"] if "with" in step]
    assert all(set(each) <= set(action["inputs"]) for each in given)
    (bucket,) = caches().buckets
    assert given[0]["bucket"] == bucket
    assert f"'arn:aws:iam::{caches().account}:role/{bucket}-write'" in given[0]["role"]
    read = {output for step in WORKFLOW["steps"] for output in re.findall(r"outputs\.(\w+)", str(step))}
    assert read <= set(action["outputs"])
