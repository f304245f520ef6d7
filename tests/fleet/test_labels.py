"""The remark on sets that jobs reach by labels, by GitHub server."""

from __future__ import annotations

import re

import pytest

from fleet.loading.config import load
from fleet.prove.remarks import PAGE, labels
from tests.builders import ROOT, cluster, config, pool, runner

GITHUB = {"appId": "1", "installationId": "2"}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://github.com/acme", "whether github.com gives a set every job that names several of its labels is disputed"),
        ("https://acme.ghe.com/acme", "users of GitHub Enterprise report that jobs with labels wait"),
        ("https://github.acme.example/acme", "GitHub Enterprise Server takes labels from 3.18 on"),
    ],
)
def test_sets_with_labels_have_one_remark_for_their_server(url: str, said: str) -> None:
    runners = {"a": runner(pool="t4", labels=["one"]), "b": runner(pool="t4"), "c": runner(pool="t4", labels=["two"])}
    held = config(clusters={"usw2": cluster(pools={"t4": pool()}, runners=runners)}, github=GITHUB | {"url": url})
    (line,) = labels(load(held))
    assert line.startswith(f"labels of usw2/a and usw2/c: {said}")
    assert "a job that names the set alone always reaches it" in line


def test_a_fleet_without_labels_has_no_remark() -> None:
    assert list(labels(load(config(clusters={"usw2": cluster(pools={"t4": pool()}, runners={"b": runner(pool="t4")})})))) == []


def test_the_page_has_the_part_that_the_remark_names() -> None:
    page, _, anchor = PAGE.partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
