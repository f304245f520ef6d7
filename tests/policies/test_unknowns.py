"""Unknown values in every property of every fixture: sure findings first, then the unknown, never silence.

Closer than what `test_suites.py` asks of all rules: here each single message holds whatever the value turns out to be.
"""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules import gpu_limits_required, gpu_node_taint, imds_v2_hop_one, spot_required_nonprod
from policies.rules.record import Unknown
from policies.rules.rule import Rule
from tests.policies import fixtures
from tests.policies.harness import CLEAN, UNKNOWN, judge, paths, spelled, subject, veiled

RULES = (gpu_limits_required.RULE, gpu_node_taint.RULE, spot_required_nonprod.RULE, imds_v2_hop_one.RULE)
"""The rules that the fixtures are of."""
OTHERS: tuple[Any, ...] = (None, "other", 7.0, {}, [])
"""What an unknown value may turn out to be, as a rule reads it."""
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def certain(messages: tuple[str, ...]) -> list[str]:
    """Messages without the sign of a GPU: of several signs any may be named."""
    return sorted(message.partition(" (")[0] for message in messages)


def fixtures_of(rule: Rule) -> list[tuple[str, dict[str, Any]]]:
    return [(token, props) for token, props in (*fixtures.GOOD, *fixtures.BAD) if token in rule.types]


@EACH_RULE
def test_a_verdict_with_an_unknown_holds_whatever_the_value_turns_out_to_be(rule: Rule) -> None:
    met = set()
    for token, props in fixtures_of(rule):
        judged = subject(rule, token, props)
        as_it_is = judged.verdict()
        for path in paths(judged.resources[0].props):
            verdict = judged.altered((0, path, Unknown(path)))
            assert verdict.unknown in ("", spelled(path)), "the message must lead to the value that is unknown"
            if verdict.unknown:
                met.add(bool(as_it_is.messages))
            if verdict.messages or not verdict.unknown:
                outcomes = {repr(value): judged.altered((0, path, value)) for value in OTHERS}
                for value, outcome in {**outcomes, "its value": as_it_is}.items():
                    case = f"{token}, {path} unknown, {value} there: {outcome}"
                    assert not outcome.unknown, f"{case}: nothing is unknown here"
                    if verdict.unknown:
                        missing = set(certain(verdict.messages)) - set(certain(outcome.messages))
                        assert not missing, f"{case}: not what was reported as sure"
                    else:
                        assert certain(outcome.messages) == certain(verdict.messages), (
                            f"{case}: another verdict, and no word of it"
                        )
    assert met == {True, False}, "an unknown is met in passing and in broken fixtures, else this proves nothing"


@EACH_RULE
def test_a_secret_is_judged_as_its_value(rule: Rule) -> None:
    for token, props in fixtures_of(rule):
        assert judge(rule, token, veiled(props)) == judge(rule, token, props), (token, props)


@EACH_RULE
def test_a_resource_of_another_type_is_not_read(rule: Rule) -> None:
    for token, props in (*fixtures.GOOD, *fixtures.BAD):
        if token not in rule.types:
            assert judge(rule, token, dict.fromkeys(props, UNKNOWN)) == CLEAN, f"{token} is not this rule's"


def test_the_good_fixtures_pass_every_rule() -> None:
    for token, props in fixtures.GOOD:
        for rule in RULES:
            assert judge(rule, token, props) == CLEAN, (token, rule.id)


def test_every_bad_fixture_breaks_a_rule() -> None:
    for number, (token, props) in enumerate(fixtures.BAD):
        assert any(judge(rule, token, props).messages for rule in RULES), f"{number}, {token}: a bad fixture that passes is none"
