"""What a plan prints of verdicts: equal ones once, the config that they were judged by, the setting that fixes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.data import to_json
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.policyconfig import policy_values
from gpu_ci.offline.words import alike, listed

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


@pytest.fixture(scope="module")
def plan(untagged: Path) -> Plan:
    return make_plan(STACK, ROOT, untagged)


@pytest.fixture(scope="module")
def shown(untagged: Path) -> str:
    """What the command prints of it."""
    result = CliRunner().invoke(app, ["plan", STACK, "--file", str(untagged)])
    assert result.exit_code == 1, result.output
    return result.stdout


def test_missing_tags_are_one_line_that_names_the_setting(plan: Plan, shown: str) -> None:
    text = " ".join(shown.split())
    count = len([verdict for verdict in json.loads(to_json(plan))["verdicts"] if verdict["message"] == TAGS])
    assert count > 20, "JSON has every verdict"
    assert text.count("required-tags:") == 2, "above the plan and below it"
    assert f"mandatory required-tags: {count} resources (usw2-" in text
    assert f", and {count - 3} more): {TAGS} " in text, "the line ends with what to write"


def test_markdown_has_one_row_for_them(plan: Plan) -> None:
    page = markdown(plan)
    (row,) = [line for line in page.splitlines() if "required-tags" in line and "Missing" in line]
    assert "more" in row
    assert "Pulumi.acme.yaml" in row


def test_the_plan_names_the_config_that_judged_it(plan: Plan, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = "no entry for acme: the strictest levels and default limits; add [acme] to policies/stacks.toml (gpu-ci init)"
    assert f"policy values: {absent}\n" in shown
    assert f"Policy values: {absent}." in markdown(plan).replace("\\", "")
    assert json.loads(to_json(plan))["policyConfig"] == absent
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)
    assert make_plan("staging", ROOT).policy_config == (
        "policies/config/staging.json, from policies/stacks.toml [staging], kind staging; 6 policies differ from the kind's"
    )


def test_a_config_that_a_person_wrote_is_named_as_such(tmp_path: Path) -> None:
    config = tmp_path / "policies" / "config"
    config.mkdir(parents=True)
    (config / "acme.json").write_text("{}")
    assert policy_values("acme", tmp_path) == ("policies/config/acme.json, written by hand: policies/stacks.toml has no [acme]")


def of_pool(pool: str, cluster: str = "usw2", key: str = "nodes.min", zone: str = "") -> Verdict:
    said = f"scalingConfig.minSize is 1; write 0{zone}. Change Pulumi.s.yaml: gpu-ci:clusters.{cluster}.pools.{pool}.{key}"
    return Verdict("a", "mandatory", "violation", f"urn:pulumi:s::p::t::{cluster}-{pool}-nodes", said)


def test_one_cause_in_several_pools_is_one_line_with_a_star() -> None:
    ((first, names),) = alike([of_pool("t4"), of_pool("l4")])
    assert names == ["usw2-t4-nodes", "usw2-l4-nodes"]
    assert first.message.endswith("write 0. Change Pulumi.s.yaml: gpu-ci:clusters.usw2.pools.*.nodes.min")
    ((both, _),) = alike([of_pool("t4"), of_pool("t4", "use1")])
    assert both.message.endswith("gpu-ci:clusters.*.pools.t4.nodes.min")
    assert len(alike([of_pool("t4"), of_pool("l4", key="nodes.max")])) == 2, "another key is another cause"
    ((alone, _),) = alike([of_pool("t4")])
    assert alone == of_pool("t4")


def test_the_own_name_of_a_resource_is_no_difference() -> None:
    ((merged, names),) = alike(
        [of_pool(pool, zone=f" for usw2-{pool}-nodes, not for usw2-{pool}-nodes-b") for pool in ("t4", "t4")]
        + [replace(of_pool("l4"), message=of_pool("t4", zone=" for usw2-l4-nodes, not for usw2-t4-nodes-b").message)]
    )
    assert names == ["usw2-t4-nodes", "usw2-t4-nodes", "usw2-l4-nodes"]
    assert "write 0 for …, not for usw2-t4-nodes-b. " in merged.message


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
