"""Unknown values in every property of every fixture: sure findings first, then the unknown, never silence.

Closer than what `test_suites.py` asks of all rules: here each single message holds whatever the value turns out to be.
"""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules import gpu_limits_required, gpu_node_taint, imds_v2_hop_one, spot_required_nonprod
from policies.rules.rule import Rule
from tests.policies import fixtures
from tests.policies.harness import CLEAN, UNKNOWN, at, changed, judge, paths, secret, spelled

RULES = (gpu_limits_required.RULE, gpu_node_taint.RULE, spot_required_nonprod.RULE, imds_v2_hop_one.RULE)
"""The rules that the fixtures are of."""
JUDGED = [
    pytest.param(rule, token, props, id=f"{rule.id}-{kind}{number}-{token.rpartition(':')[2]}")
    for rule in RULES
    for kind, group in (("good", fixtures.GOOD), ("bad", fixtures.BAD))
    for number, (token, props) in enumerate(group)
    if token in rule.types
]


def certain(messages: tuple[str, ...]) -> list[str]:
    """Messages without the sign of a GPU: of several signs any may be named."""
    return sorted(message.partition(" (")[0] for message in messages)


@pytest.mark.parametrize(("rule", "token", "props"), JUDGED)
def test_a_verdict_with_an_unknown_holds_whatever_the_value_turns_out_to_be(
    rule: Rule, token: str, props: dict[str, Any]
) -> None:
    for path in paths(props):
        verdict = judge(rule, token, props, unknown=path)
        outcomes: tuple[Any, ...] = (at(props, path), None, "other", 7, {}, [])
        for outcome in outcomes:
            known = judge(rule, token, changed(props, *path, outcome))
            assert not known.unknown, "nothing is unknown here"
            if verdict.unknown:
                missing = [each for each in certain(verdict.messages) if each not in certain(known.messages)]
                assert not missing, f"{path} unknown: reported as sure, but {outcome!r} there is no violation"
            else:
                assert certain(known.messages) == certain(verdict.messages), (
                    f"{path} unknown: passed over in silence, but {outcome!r} there changes the verdict"
                )


@pytest.mark.parametrize(("rule", "token", "props"), JUDGED)
def test_an_unknown_is_named_by_its_path(rule: Rule, token: str, props: dict[str, Any]) -> None:
    for path in paths(props):
        unknown = judge(rule, token, props, unknown=path).unknown
        assert unknown in ("", spelled(path)), "the message must lead to the value that is unknown"


@pytest.mark.parametrize(("rule", "token", "props"), JUDGED)
def test_a_secret_is_judged_as_its_value(rule: Rule, token: str, props: dict[str, Any]) -> None:
    for path in paths(props):
        hidden = changed(props, *path, secret(at(props, path)))
        assert judge(rule, token, hidden) == judge(rule, token, props), path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_meets_an_unknown_in_some_fixture_of_each_of_its_outcomes(rule: Rule) -> None:
    met = {
        bool(judge(rule, token, props).messages)
        for token, props in (*fixtures.GOOD, *fixtures.BAD)
        if token in rule.types
        for path in paths(props)
        if judge(rule, token, props, unknown=path).unknown
    }
    assert met == {True, False}, "else the tests above would prove nothing"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_resource_of_another_type_is_not_read(rule: Rule) -> None:
    for token, props in (*fixtures.GOOD, *fixtures.BAD):
        if token not in rule.types:
            assert judge(rule, token, dict.fromkeys(props, UNKNOWN)) == CLEAN, f"{token} is not this rule's"


@pytest.mark.parametrize(("token", "props"), fixtures.GOOD)
def test_the_good_fixtures_pass_every_rule(token: str, props: dict[str, Any]) -> None:
    for rule in RULES:
        assert judge(rule, token, props) == CLEAN, rule.id


@pytest.mark.parametrize(("token", "props"), fixtures.BAD)
def test_every_bad_fixture_breaks_a_rule(token: str, props: dict[str, Any]) -> None:
    assert any(judge(rule, token, props).messages for rule in RULES), "a bad fixture that passes is none"
