"""A policy that somebody empties, with a `return` at the start of its check, is found: the tests of its suite fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules import RULES, AnyRule
from tests.policies import test_suites
from tests.policies.suite import decided, suite_of


def emptied(rule: AnyRule) -> AnyRule:
    """The rule as it is after somebody wrote `return` at the start of its check."""
    nothing: Any = lambda *_: ()  # noqa: E731 - mypy knows no type of both kinds of check
    in_manifests = None if rule.in_manifests is None else (rule.in_manifests[0], nothing)
    return replace(rule, check=nothing, in_manifests=in_manifests)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_policy_that_is_emptied_is_found(rule: AnyRule, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suite_of(rule)
    monkeypatch.setattr(test_suites, "suite_of", lambda _: suite)
    told = (
        test_suites.test_what_breaks_it_is_told_word_for_word_in_whatever_order_resources_come
        if rule in decided()
        else test_suites.test_what_leaves_it_undeterminable_is_told_word_for_word_and_whatever_a_resource_of_it_says
    )
    for name in ("RULES", "STACK_RULES"):
        monkeypatch.setattr(test_suites, name, [rule])
    told()
    for name in ("RULES", "STACK_RULES"):
        monkeypatch.setattr(test_suites, name, [emptied(rule)])
    with pytest.raises(AssertionError):
        told()
