"""The page on existing clusters: its settings are those of the examples, its import file fits what the program declares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML

from policies.rules import RULES
from tests.components.recorded import ROOT, recorded
from tests.docs.markdown import Fence, fences

PAGE = ROOT / "docs" / "existing-clusters.md"
YAML_12 = YAML(typ="safe", pure=True)


def blocks(language: str) -> Iterator[Fence]:
    return (fence for fence in fences() if fence.page == PAGE and fence.language == language)


def clusters(name: str) -> Mapping[str, Any]:
    text = (ROOT / "examples" / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = YAML_12.load(text)["config"]["gpu-ci:clusters"]
    return found


def test_the_settings_of_the_page_are_those_of_the_examples():
    shown = [YAML_12.load(fence.text)["gpu-ci:clusters"] for fence in blocks("yaml")]
    assert [set(each) for each in shown] == [{"usw2"}, {"sjc"}, {"lab"}]
    for each, example in zip(shown, ("existing-eks", "existing-oke", "existing-context"), strict=True):
        for name, settings in each.items():
            assert {key: clusters(example)[name][key] for key in settings} == settings


def test_every_entry_of_the_import_file_is_a_resource_of_the_example():
    """Type, name and parent give the URN: with a wrong one the program would create a second node group."""
    (file,) = (json.loads(fence.text) for fence in blocks("json"))
    plan = recorded("existing-eks")
    by_name = {(each.type, each.name): each for each in plan.resources}
    for entry in file["resources"]:
        resource = by_name[entry["type"], entry["name"]]
        assert resource.custom is not entry.get("component", False)
        if resource.custom:
            assert plan.by_urn[resource.parent].name == entry["parent"]
            assert resource.provider_resource is not None
            assert resource.provider_resource.name == entry["provider"]
    components = {entry["name"] for entry in file["resources"] if entry.get("component")}
    assert {entry["parent"] for entry in file["resources"] if "parent" in entry} <= components, "a child needs its component"


def test_the_program_gives_an_adopted_node_group_no_name_of_its_own():
    for each in recorded("existing-eks").resources:
        if each.type in ("aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"):
            assert not {"name", "nodeGroupName", "nodeGroupNamePrefix", "namePrefix"} & set(each.inputs), each.name


def test_the_page_names_every_policy_that_is_undeterminable_for_an_existing_cluster():
    section = PAGE.read_text(encoding="utf-8").partition("## What the plan cannot know")[2].partition("\n## ")[0]
    named = set(re.findall(r"\| `([a-z0-9-]+)` \|", section))
    assert {rule.id for rule in RULES if rule.of_existing} <= named
    assert named <= {rule.id for rule in RULES}
