"""required-tags: tags of the resource, of its provider, of what it launches; labels of namespaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import AUTO_SCALING_GROUP, EKS_COMPONENT, NAMESPACE
from policies.rules.required_tags import RULE, TAGGED
from tests.policies.cases import Case
from tests.policies.fixtures import LAUNCH_TEMPLATE, NODE_GROUP, OCI_INSTANCE
from tests.policies.harness import CLEAN, UNKNOWN, config_of, judge, remedied
from tests.policies.suite import Suite

TAGS = {"owner": "ci-platform", "cost-center": "ci", "stack": "dev", "ttl": "permanent"}
NAMES = ", ".join(TAGS)
PROVIDER = {"region": "us-west-2", "defaultTags": json.dumps({"tags": TAGS})}
VALUES = {"values": TAGS}
LABELS = {"labels": ["owner"], "values": {"owner": "ci"}}
OCI = {token for token in TAGGED if token.startswith("oci:")}
PLAIN = sorted(TAGGED - OCI)


def lacks(path: str, names: str = NAMES) -> str:
    where = "" if path in ("tags", "freeformTags") else f" in {path}"
    return f"Missing required tags{where}: {names}. Set Pulumi.staging.yaml: gpu-ci:tags."


def propagated(at_launch: bool) -> dict[str, Any]:
    return {"tags": [{"key": key, "value": value, "propagateAtLaunch": at_launch} for key, value in TAGS.items()]}


SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, {"tags": TAGS}) for token in PLAIN),
        Case(NODE_GROUP, {"clusterName": "usw2"}, provider=PROVIDER),
        Case(NODE_GROUP, {"tags": {"team": "ci"}}, config={"tags": ["team"]}),
        Case(LAUNCH_TEMPLATE, {"imageId": "ami"}, provider=PROVIDER),
        Case(AUTO_SCALING_GROUP, propagated(True)),
        Case(EKS_COMPONENT, {}),
        *(Case(token, {"freeformTags": TAGS}) for token in sorted(OCI)),
        Case(OCI_INSTANCE, {"freeformTags": {"ttl": "1d"}, "definedTags": {f"ci.{name}": "x" for name in TAGS if name != "ttl"}}),
        Case(NAMESPACE, {"metadata": {"name": "runners"}}),
        Case(NAMESPACE, {"metadata": {"labels": {"owner": "ci"}}}, config=LABELS),
    ),
    violating=(
        *(Case(token, {"name": "x"}, (lacks("tags"),), config=VALUES) for token in PLAIN),
        Case(NODE_GROUP, {"tags": {**TAGS, "owner": ""}}, (lacks("tags", "owner"),), config=VALUES),
        Case(NODE_GROUP, {"tags": {"owner": "ci"}}, (lacks("tags", "cost-center, stack, ttl"),), unremedied=True),
        Case(AUTO_SCALING_GROUP, propagated(False), (lacks("tags (with propagateAtLaunch)"),), unremedied=True),
        *(
            Case(token, {"freeformTags": {"owner": "ci"}}, (lacks("freeformTags", "cost-center, stack, ttl"),), config=VALUES)
            for token in sorted(OCI)
        ),
        Case(
            NAMESPACE,
            {"metadata": {"name": "runners"}},
            (f"Missing required labels: owner. Add them to metadata.labels, or change {config_of(RULE.id, 'labels')}.",),
            config=LABELS,
        ),
    ),
)


def test_default_tags_that_are_unknown_may_be_the_missing_ones() -> None:
    found = judge(RULE, NODE_GROUP, {"clusterName": "usw2"}, provider={"defaultTags": UNKNOWN})
    assert (found.messages, found.unknown) == ((), "defaultTags")
    assert judge(RULE, NODE_GROUP, {"tags": TAGS}, provider={"defaultTags": UNKNOWN}) == CLEAN


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"tags": 3}', "[" * 99999])
def test_default_tags_that_are_none_are_survived(text: str) -> None:
    assert judge(RULE, NODE_GROUP, {"tags": TAGS}, provider={"defaultTags": text}) == CLEAN


def test_the_remedy_adds_what_it_has_values_for_and_keeps_the_rest() -> None:
    after = remedied(RULE, NODE_GROUP, {"tags": {"team": "ml"}}, {"values": {"owner": "ci"}})
    assert after == {"tags": {"team": "ml", "owner": "ci"}}
