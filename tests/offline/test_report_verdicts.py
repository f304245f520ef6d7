"""What a plan prints of verdicts: equal ones once, the config that they were judged by, the setting that fixes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offline.cli import ROOT, app
from offline.judge import Verdict
from offline.markdown import markdown
from offline.plan import make_plan
from offline.words import alike, listed

STACK = "acme"
TAGS = "Missing required tags: owner, cost-center, stack, ttl. Set Pulumi.acme.yaml: gpu-ci:tags."


@pytest.fixture(scope="module")
def untagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack of a name without a policy config, and without gpu-ci:tags."""
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    start, end = text.index("  gpu-ci:tags:"), text.index("  gpu-ci:clusters:")
    path = tmp_path_factory.mktemp("own") / f"Pulumi.{STACK}.yaml"
    path.write_text(text[:start] + text[end:])
    return path


def run(untagged: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", STACK, "--file", str(untagged), *arguments])
    assert result.exit_code == 1, result.output
    return result.stdout


def test_missing_tags_are_one_line_that_names_the_setting(untagged: Path) -> None:
    text = " ".join(run(untagged).split())
    count = len([verdict for verdict in json.loads(run(untagged, "--json"))["verdicts"] if verdict["message"] == TAGS])
    assert count > 20, "JSON has every verdict"
    assert text.count("required-tags:") == 1
    assert f"mandatory required-tags: {count} resources: {TAGS} (usw2-" in text
    assert f", and {count - 3} more)" in text


def test_markdown_has_one_row_for_them(untagged: Path) -> None:
    page = markdown(make_plan(STACK, ROOT, untagged))
    (row,) = [line for line in page.splitlines() if "required-tags" in line and "Missing" in line]
    assert "more" in row
    assert "Pulumi.acme.yaml" in row


def test_the_plan_names_the_config_that_judged_it(untagged: Path) -> None:
    absent = "policies/config/acme.json does not exist: strictest levels and default limits"
    assert f"Policies\nconfig: {absent}\n" in run(untagged)
    found = make_plan(STACK, ROOT, untagged)
    assert f"Config: {absent}." in markdown(found).replace("\\", "")
    assert json.loads(run(untagged, "--json"))["policyConfig"] == absent
    assert make_plan("staging", ROOT).policy_config == "policies/config/staging.json"


def test_what_differs_in_level_kind_or_message_is_not_alike() -> None:
    one = Verdict("a", "mandatory", "violation", "urn:pulumi:s::p::t::one", "words")
    others = [
        Verdict("a", "mandatory", "violation", "urn:pulumi:s::p::t::two", "words"),
        Verdict("a", "advisory", "violation", "urn:pulumi:s::p::t::three", "words"),
        Verdict("a", "mandatory", "excepted", "urn:pulumi:s::p::t::four", "words"),
        Verdict("b", "mandatory", "violation", "urn:pulumi:s::p::t::five", "words"),
        Verdict("a", "mandatory", "violation", "", "other words"),
    ]
    assert [names for _, names in alike([one, *others])] == [["one", "two"], ["three"], ["four"], ["five"], ["the stack"]]


def test_a_list_of_names_is_cut_with_their_number() -> None:
    assert listed("abc", 3) == "a, b, c"
    assert listed("abcd", 3) == "a, b, c, and 1 more"
