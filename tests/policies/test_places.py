"""Messages name the file and the key that their reader has to change."""

from __future__ import annotations

import re

import pytest

from policies.rules import RULES, AnyRule
from policies.rules.places import filled, setting, stack_file
from policies.rules.stack_gpu_ceiling import RULE as CEILING
from tests.policies.cases import Member
from tests.policies.harness import config_of, judge_stack
from tests.policies.pool_fixtures import SPOT
from tests.policies.suite import suite_of

NAMED = re.compile(r"staging\.([a-z0-9-]+)\.(\w+) in policies/stacks\.toml")


@pytest.mark.parametrize(
    "urn",
    [
        "urn:pulumi:acme::gpu-ci::aws:eks/nodeGroup:NodeGroup::usw2-t4-spot-nodes",
        "urn:pulumi:acme::check::kubernetes:core/v1:Pod::jobs/train.yaml#ml/train",
    ],
    ids=["of a program", "of a manifest"],
)
def test_a_stack_with_a_json_file_alone_is_sent_to_that(urn: str) -> None:
    message = f"raise {setting('maxGpus')}, or change {stack_file()}"
    assert filled(message, "stack-gpu-ceiling", urn) == (
        "raise stack-gpu-ceiling.maxGpus in policies/config/acme.json, or change Pulumi.acme.yaml"
    )


def test_a_stack_in_the_toml_file_is_sent_to_its_key_there() -> None:
    urn = "urn:pulumi:prod::gpu-ci::aws:eks/nodeGroup:NodeGroup::use1-t4-spot-nodes"
    assert filled(f"raise {setting('maxGpus')}, or change {stack_file()}", "stack-gpu-ceiling", urn) == (
        "raise prod.stack-gpu-ceiling.maxGpus in policies/stacks.toml, or change Pulumi.prod.yaml"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_message_names_properties_that_the_policy_has(rule: AnyRule) -> None:
    messages = [message for case in suite_of(rule).violating for message in case.messages]
    for message in messages:
        assert "\x00" not in message
        for policy, name in NAMED.findall(message):
            assert policy == rule.id, message
            assert name in rule.schemas, message


def test_what_an_exception_hides_names_the_file_too() -> None:
    excepted = {"maxGpus": 0, "exceptions": [{"urn": "stack", "reason": "a test of messages", "expires": "2099-01-01"}]}
    verdict = judge_stack(CEILING, [Member("aws:eks/nodeGroup:NodeGroup", "t4", SPOT)], excepted)
    assert verdict.excepted.endswith(f"raise {config_of(CEILING.id, 'maxGpus')}")
