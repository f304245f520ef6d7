"""launched-tags: tags of instances from the template and the Auto Scaling group, and fixed tags of volumes."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.kinds import AUTO_SCALING_GROUP, AUTO_SCALING_TAG
from policies.rules.launched_tags import RULE
from tests.policies.cases import Member, StackCase
from tests.policies.fixtures import LAUNCH_TEMPLATE
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack
from tests.policies.pool_fixtures import EKS, GROUP, SPOT
from tests.policies.suite import Suite

TAGS = {"owner": "ci-platform", "cost-center": "ci", "stack": "dev", "ttl": "permanent"}
FIXED = {"gpu-ci/stack": "dev", "gpu-ci/cluster": "usw2", "gpu-ci/pool": "t4"}
NAMES = ", ".join(TAGS)
OF_VOLUME = (
    f"Missing tags in tagSpecifications of volume: {NAMES}, or the fixed tags {', '.join(FIXED)}. Set "
    "Pulumi.staging.yaml: gpu-ci:tags."
)
OF_TEMPLATE = f"Missing required tags in tagSpecifications of instance: {NAMES}. Set Pulumi.staging.yaml: gpu-ci:tags."


def of_group(names: str = NAMES) -> str:
    return (
        f"Missing required tags of its instances: {names}. Neither the launch template nor a tag of the Auto Scaling group with "
        "propagateAtLaunch has them. Set Pulumi.staging.yaml: gpu-ci:tags."
    )


def template(instance: dict[str, str], volume: dict[str, str]) -> Member:
    given = [{"resourceType": "instance", "tags": instance}, {"resourceType": "volume", "tags": volume}]
    return Member(LAUNCH_TEMPLATE, "launch", {"tagSpecifications": given})


def group(name: str = "a") -> Member:
    return Member(EKS, name, SPOT, property_depends={"launchTemplate": ("launch",)})


def tags(of: str = "a", *, at_launch: Any = True, **changes: Any) -> list[Member]:
    held = (TAGS | changes).items()
    return [
        Member(
            AUTO_SCALING_TAG,
            f"{of}-{key}",
            {"tag": {"key": key, "value": value, "propagateAtLaunch": at_launch}},
            property_depends={"autoscalingGroupName": (of,)},
        )
        for key, value in held
    ]


OURS = template(FIXED, FIXED)
ALONE = Member(AUTO_SCALING_GROUP, "asg", GROUP, property_depends={"launchTemplate": ("launch",)})

SUITE = Suite(
    RULE,
    passing=(
        StackCase((OURS, group(), *tags())),
        StackCase((template(TAGS, TAGS), group())),
        StackCase((template(TAGS, TAGS),)),
        StackCase((OURS, ALONE)),
        StackCase((template({"owner": "ci"}, {"owner": "ci"}), group()), config={"tags": ["owner"], "volumeTags": []}),
    ),
    violating=(
        StackCase((template({}, FIXED),), {OF_TEMPLATE: "launch"}),
        StackCase((OURS, group(), *tags(at_launch=False)), {of_group(): "a"}),
        StackCase((template(TAGS, {"gpu-ci/stack": "dev"}),), {OF_VOLUME: "launch"}),
        StackCase((template(FIXED, {}), ALONE), {OF_VOLUME: "launch"}),
        StackCase(
            (OURS, group(), *tags()),
            {
                of_group("team"): "a",
                "Missing tags in tagSpecifications of volume: team. Set Pulumi.staging.yaml: gpu-ci:tags.": "launch",
            },
            {"tags": ["team"], "volumeTags": []},
        ),
    ),
)


def test_each_node_group_of_a_pool_needs_the_tags() -> None:
    found = judge_stack(RULE, [OURS, group("a"), *tags("a"), group("b")])
    assert found.messages == (of_group(),)
    assert found.urns[0].endswith("::b"), "the instances of zone b have no owner"


def test_tags_of_template_and_group_count_together() -> None:
    some = template(FIXED | {"owner": "ci", "ttl": "1d"}, FIXED)
    assert judge_stack(RULE, [some, group(), *tags()[1:3]]) == CLEAN
    assert judge_stack(RULE, [some, group(), *tags()[1:2]]).messages == (of_group("stack"),)


@pytest.mark.parametrize("at_launch", [True, UNKNOWN])
def test_a_tag_without_a_value_is_missing_and_an_unknown_one_may_be_there(at_launch: Any) -> None:
    found = judge_stack(RULE, [OURS, group(), *tags(at_launch=at_launch, owner="")])
    if at_launch is True:
        assert found.messages == (of_group("owner"),)
    else:
        assert (found.messages, found.unknown) == ((), "tag.propagateAtLaunch")
