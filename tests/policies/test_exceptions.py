"""Exceptions are bounded: by a whole type and a name, by a near day, and by a reason in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleet.facts.errors import InputError
from gpu_ci.offline.judge import configure
from policies.rules.exceptions import MOST_DAYS
from policies.rules.no_node_ssh import RULE
from tests.day import AS_OF, TIMELESS
from tests.policies.harness import judge, urn
from tests.policies.test_no_node_ssh import DEFAULT_GROUP

OPEN = {"ingress": [{"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["0.0.0.0/0"]}]}
LAST = AS_OF + timedelta(MOST_DAYS)


def excepting(**fields: str) -> dict[str, Any]:
    entry = {"urn": urn(DEFAULT_GROUP), "reason": "a test of bounds", "expires": LAST.isoformat()}
    return {"exceptions": [entry | fields]}


def fault(**fields: str) -> str:
    """What is wrong with an exception with these fields, as a plan says it; "" if nothing is."""
    try:
        configure([RULE], {RULE.id: excepting(**fields)}, AS_OF)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "pattern",
    [
        "stack",
        urn(DEFAULT_GROUP),
        f"*{DEFAULT_GROUP}::fixture",
        f"*::{DEFAULT_GROUP}::fix*",
        f"*${DEFAULT_GROUP}::x",
        "*:GpuWorkload$kubernetes:apps/v1:Deployment::home-coral-deployment",
        "*::check::kubernetes:apps/v1:Deployment::*#coral/coral",
        "*::check::kubernetes:apps/v1:Deployment::apps/web.yaml#coral/*",
        "*kubernetes:helm.sh/v3:Release::use1-*-chart",
    ],
)
def test_a_pattern_of_a_type_and_a_name_is_taken(pattern: str) -> None:
    assert fault(urn=pattern) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        "*:*",
        "*::*",
        "urn:*",
        "urn:pulumi:*::*",
        "urn:pulumi:staging::gpu-ci::*",
        "*pulumi:staging::gpu-ci*",
        "*rn:pulumi:staging::gpu-ci*",
        "*::fixture",
        "*-fixture",
        f"*{DEFAULT_GROUP}::*",
        f"*{DEFAULT_GROUP}::f*",
        f"*{DEFAULT_GROUP}::*fixture",
        "*aws:ec2/*:DefaultSecurityGroup::fixture",
        "*aws:*::fixture",
        f"*{DEFAULT_GROUP}*",
        "*::check::*::web.yaml#apps/web",
        "*::check::kubernetes:apps/v1:Deployment::*#*",
        "stack*",
    ],
)
def test_a_wider_pattern_ends_a_plan_and_hides_nothing_in_the_pack(pattern: str) -> None:
    said = fault(urn=pattern)
    assert said.startswith(f"policy config: {RULE.id}.exceptions[0].urn: must name a whole type and then a name")
    assert f'got "{pattern}"; write it as *aws:eks/nodeGroup:NodeGroup::usw2-t4*' in said
    found = judge(RULE, DEFAULT_GROUP, OPEN, excepting(urn=pattern))
    assert not found.excepted
    assert any("port 22" in message for message in found.messages)


def test_a_day_is_near() -> None:
    assert fault(expires=LAST.isoformat()) == ""
    late = (LAST + timedelta(1)).isoformat()
    for day in (late, "2999-12-31", "9999-12-31"):
        rule = f"must be at most {MOST_DAYS} days after {AS_OF}"
        said = f'exceptions[0].expires: {rule}; got "{day}"; write {LAST} or an earlier day'
        assert fault(expires=day) == f"policy config: {RULE.id}.{said}"
        found = judge(RULE, DEFAULT_GROUP, OPEN, excepting(expires=day))
        assert found.messages[0] == said
        assert len(found.messages) == 2, "and what it would hide"
    assert judge(RULE, DEFAULT_GROUP, OPEN, excepting(expires=late), as_of=AS_OF + timedelta(1)).excepted
    assert judge(RULE, DEFAULT_GROUP, OPEN, excepting(expires=late), as_of=TIMELESS).excepted, "what only a day breaks"


@pytest.mark.parametrize(
    "reason", ["." * 20, "aaaaaaaaaaaa", "few or few or few", "1234 5678 9012", "ok then....", "a b c d e f"]
)
def test_a_reason_has_words(reason: str) -> None:
    assert f'exceptions[0].reason: must have 3 different words or more; got "{reason}"' in fault(reason=reason)
    assert judge(RULE, DEFAULT_GROUP, OPEN, excepting(reason=reason)).messages


@pytest.mark.parametrize("reason", ["The pool is tried out until May", "läuft nur bis März", "см. заявку 4711 отдела"])
def test_words_of_any_language_are_words(reason: str) -> None:
    assert fault(reason=reason) == ""


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(fault(urn="*:*", expires="2999-12-31", reason="." * 10).splitlines()) == 3
