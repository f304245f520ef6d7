"""No properties whatever make a rule raise anything but UnknownValueError: any other exception ends the whole update."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pulumi_policy.proxy import UNKNOWN_ARRAY_VALUE, UNKNOWN_BOOLEAN_VALUE, UNKNOWN_STRING_VALUE

from policies.rules import RULES, Rule
from tests.policies import fixtures
from tests.policies.harness import changed, judge, paths, secret

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "1", "NO_SCHEDULE", "In", "nvidia.com/gpu", "__target", "g5.xlarge", "1e99"])
    | st.sampled_from([UNKNOWN_STRING_VALUE, UNKNOWN_ARRAY_VALUE, UNKNOWN_BOOLEAN_VALUE])
    | st.text(st.characters(codec="utf-8"), max_size=4)
)
KEYS = st.sampled_from(["key", "name", "spec", "nvidia.com/gpu", "nvidia", "__target", "effect", "value", ""])
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | inner.map(secret),
    max_leaves=6,
)
RESOURCES = {rule.id: [each for each in (*fixtures.GOOD, *fixtures.BAD) if each[0] in rule.types and each[1]] for rule in RULES}
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def few(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EACH_RULE
@few(250)
@given(data=st.data())
def test_junk_anywhere_in_a_resource_is_judged(rule: Rule, data: st.DataObject) -> None:
    token, props = data.draw(st.sampled_from(RESOURCES[rule.id]))
    props = changed(props, *data.draw(st.sampled_from([*paths(props)])), data.draw(JUNK))
    for message in judge(rule, token, props).messages:
        assert message.isprintable(), "a message is one line"


@EACH_RULE
@few(50)
@given(data=st.data())
def test_junk_in_the_place_of_a_resource_is_judged(rule: Rule, data: st.DataObject) -> None:
    token = data.draw(st.sampled_from(sorted(rule.types)))
    judge(rule, token, data.draw(st.dictionaries(KEYS, JUNK, max_size=4)))


@EACH_RULE
@few(50)
@given(data=st.data())
def test_junk_in_the_config_is_survived(rule: Rule, data: st.DataObject) -> None:
    token, props = data.draw(st.sampled_from(RESOURCES[rule.id]))
    known = JUNK.filter(lambda value: "04da6b54" not in str(value))
    judge(rule, token, props, {name: data.draw(known) for name in rule.config})
