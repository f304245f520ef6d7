"""Every rule's suite held to the same demands: both verdicts for each kind, unknowns, secrets, junk, exceptions, remedies."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.rules import RULES, AnyRule, Rule, StackRule
from policies.rules.kinds import HELM, RELEASE
from policies.rules.record import SECRET, SIGNATURE, UnknownError
from policies.rules.record import UNKNOWNS as SENTINELS
from tests.day import AS_OF
from tests.examples import examples
from tests.policies import fixtures
from tests.policies.cases import Case, Member, StackCase
from tests.policies.harness import (
    UNKNOWN,
    Verdict,
    at,
    by_protobuf,
    changed,
    judge,
    judge_stack,
    paths,
    remedied,
    secret,
    urn,
    wire,
)
from tests.policies.suite import counts, few, suite_of, table, tokens_of

EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
RESOURCE_RULES = [rule for rule in RULES if isinstance(rule, Rule)]
ARGO = HELM - {RELEASE}
MENDING = [rule for rule in RESOURCE_RULES if rule.remedy is not None]

Props = Mapping[str, Any]


def verdict(rule: AnyRule, case: Case | StackCase, config: Mapping[str, Any] | None = None, as_of: date = AS_OF) -> Verdict:
    given_config = {**case.config, **(config or {})}
    if isinstance(case, StackCase):
        assert isinstance(rule, StackRule)
        return judge_stack(rule, case.members, given_config, as_of=as_of)
    assert isinstance(rule, Rule)
    return judge(
        rule,
        case.token,
        case.props,
        given_config,
        parent=case.parent,
        protect=case.protect,
        provider=case.provider,
        as_of=as_of,
    )


def places(case: Case | StackCase) -> Iterator[tuple[Props, tuple[Any, ...], Callable[[Any], Case | StackCase]]]:
    """Each property of a case: the properties that hold it, its path there, and the case with another value in its place."""
    if isinstance(case, Case):
        for path in paths(case.props):

            def other(value: Any, path: tuple[Any, ...] = path) -> Case:
                return replace(case, props=changed(case.props, *path, value))

            yield case.props, path, other
        return
    twin = not ARGO.isdisjoint(tokens_of(case))
    for index, member in enumerate(case.members):
        # The other members are tried in the case of which this one is the twin.
        for path in paths(member.props) if member.token in ARGO or not twin else ():

            def altered(value: Any, index: int = index, path: tuple[Any, ...] = path) -> StackCase:
                member = replace(case.members[index], props=changed(case.members[index].props, *path, value))
                return replace(case, members=(*case.members[:index], member, *case.members[index + 1 :]))

            yield member.props, path, altered


# -- what each suite says ----------------------------------------------------------------------------------------------


@EACH_RULE
def test_every_kind_that_a_rule_names_is_seen_to_pass_and_to_break_it(rule: AnyRule) -> None:
    suite = suite_of(rule)
    assert not suite.forbidden & suite.unshown, "what breaks a rule is judged"
    lacking = {}
    for token, found in counts(rule).items():
        passing, violating, undeterminable = map(bool, found)
        judged = not passing and undeterminable if token in suite.unshown else violating and passing != (token in suite.forbidden)
        if not judged:
            lacking[token] = found
    assert not lacking, "kinds with their passing, violating and undeterminable cases"


def test_the_cases_are_printed() -> None:
    """`pytest -s` shows them."""
    rows = list(table())
    sys.stdout.write("\n".join(("", *rows, "")))
    assert all(any(row.startswith(f"{rule.id} ") for row in rows) for rule in RULES)


@EACH_RULE
def test_what_passes_is_passed_in_silence(rule: AnyRule) -> None:
    for case in suite_of(rule).passing:
        assert verdict(rule, case) == Verdict(), case


@EACH_RULE
def test_what_breaks_it_is_told_word_for_word(rule: AnyRule) -> None:
    for case in suite_of(rule).violating:
        found = verdict(rule, case)
        assert case.messages, "a violation has a message"
        assert found.messages == tuple(case.messages), case
        assert not found.unknown
        if isinstance(case, StackCase):
            named = tuple(
                urn(next(m.token for m in case.members if m.name == of), of) if of else "" for of in case.messages.values()
            )
            assert found.urns == named, case
        for message in found.messages:
            assert message.isprintable(), "a message is one line"


@pytest.mark.parametrize("rule", [rule for rule in RULES if isinstance(rule, StackRule)], ids=lambda rule: rule.id)
def test_what_leaves_it_undeterminable_is_told_word_for_word_and_whatever_a_resource_of_it_says(rule: StackRule) -> None:
    suite = suite_of(rule)
    for case in suite.undeterminable:
        (reason,) = case.messages
        assert verdict(rule, case) == Verdict(undeterminable=reason), case
    for token in suite.unshown:
        for props in ({}, {"size": 0.0}, {"name": UNKNOWN}):
            found = judge_stack(rule, [Member(token, "any", props)])
            assert found == Verdict(undeterminable=found.undeterminable), token
            assert found.undeterminable, f"{token} passed in silence"


@pytest.mark.parametrize("rule", [rule for rule in RULES if isinstance(rule, StackRule)], ids=lambda rule: rule.id)
def test_the_order_of_resources_changes_no_word(rule: StackRule) -> None:
    for case in suite_of(rule).violating:
        assert isinstance(case, StackCase)
        assert verdict(rule, replace(case, members=case.members[::-1])) == verdict(rule, case), (
            "an engine has no order of its own"
        )


@EACH_RULE
def test_each_config_property_is_overridden_in_some_case(rule: AnyRule) -> None:
    suite = suite_of(rule)
    used = {name for case in (*suite.passing, *suite.violating) for name in case.config}
    assert used == set(rule.config)


# -- unknown, secret, junk ---------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, ...]]:
    """The paths of the unknown values that a rule has read."""
    found: set[tuple[str, ...]] = set()
    refuse = UnknownError.__init__

    def noted(error: UnknownError, value: Any) -> None:
        found.add(tuple(map(str, value.path)))
        refuse(error, value)

    monkeypatch.setattr(UnknownError, "__init__", noted)
    return found


@EACH_RULE
def test_a_verdict_with_an_unknown_holds_whatever_the_value_turns_out_to_be(rule: AnyRule, asked: set[tuple[str, ...]]) -> None:
    met = False
    for case in (*few(suite_of(rule).passing), *few(suite_of(rule).violating)):
        as_it_is = verdict(rule, case)
        for props, path, altered in places(case):
            asked.clear()
            found = verdict(rule, altered(UNKNOWN))
            met = met or bool(found.unknown)
            own = at(props, path)
            others: list[Any] = [None, "other", 7, {}, []]
            if tuple(map(str, path)) not in asked:
                # The rule never asks for the value, so one other is as good as all.
                assert found == as_it_is, path
                others = others[1:2]
            for outcome, known in [(own, as_it_is), *((each, verdict(rule, altered(each))) for each in others)]:
                assert not known.unknown, "nothing is unknown here"
                if found.messages:
                    assert known.messages, (
                        f"{path} unknown: reported as sure, but with {outcome!r} there is no violation: {found}"
                    )
                elif not found.unknown:
                    assert not known.messages, f"{path} unknown: passed in silence, but with {outcome!r} there: {known.messages}"
    assert met, "an unknown is met somewhere, else this proves nothing"


@EACH_RULE
def test_a_secret_is_judged_as_its_value(rule: AnyRule) -> None:
    for case in (*few(suite_of(rule).passing), *few(suite_of(rule).violating)):
        plain = verdict(rule, case)
        for props, path, altered in places(case):
            assert verdict(rule, altered(secret(at(props, path)))) == plain, path


@EACH_RULE
def test_a_resource_of_another_type_is_not_read(rule: AnyRule) -> None:
    base = suite_of(rule).passing[0]
    strangers = {**dict(fixtures.BAD), "gpu-ci:index:GpuNodeGroup": {"taints": []}, "pulumi:pulumi:Stack": {"name": ""}}
    for token in strangers.keys() - rule.types:
        hidden = dict.fromkeys(strangers[token], UNKNOWN)
        if isinstance(base, StackCase):
            assert isinstance(rule, StackRule)
            found = judge_stack(rule, [*base.members, Member(token, "stranger", hidden)], base.config)
        else:
            assert isinstance(rule, Rule)
            found = judge(rule, token, hidden)
        assert found == Verdict(), f"{token} is not this rule's"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "1", "NO_SCHEDULE", "In", "nvidia.com/gpu", "__target", "g5.xlarge", "1e99", "{", "IyE=", "repo:*"])
    | st.text(st.characters(codec="utf-8"), max_size=4)
)
UNKNOWNS = st.sampled_from(sorted(SENTINELS))
KEYS = st.sampled_from(
    ["key", "name", "spec", "nvidia.com/gpu", "nvidia", "__target", "effect", "value", "", "image", "metadata"]
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)


JUNK = st.recursive(SCALARS | UNKNOWNS, lambda inner: nested(inner) | inner.map(secret), max_leaves=6)
KNOWN_JUNK = st.recursive(SCALARS, nested, max_leaves=6)
"""A config has no unknown and no secret values."""


def times(enough: int) -> settings:
    return settings(max_examples=examples(enough))


@times(60)
@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_the_short_way_over_the_wire_ends_where_protobufs_does(props: dict[str, Any]) -> None:
    short, long = (json.dumps(way(props), sort_keys=True) for way in (wire, by_protobuf))
    assert short == long, "else the tests of this folder would judge inputs that no engine sends"


@cache
def filled(rule: AnyRule) -> list[Case | StackCase]:
    cases = few(suite_of(rule).passing) + few(suite_of(rule).violating)
    return [case for case in cases if next(places(case), None) is not None]


@EACH_RULE
@times(60)
@given(data=st.data())
def test_junk_anywhere_in_a_resource_is_judged(rule: AnyRule, data: st.DataObject) -> None:
    if not filled(rule):
        return
    case = data.draw(st.sampled_from(filled(rule)))
    _, _, altered = data.draw(st.sampled_from([*places(case)]))
    for message in verdict(rule, altered(data.draw(JUNK))).messages:
        assert message.isprintable(), "a message is one line"


@EACH_RULE
@times(30)
@given(data=st.data())
def test_junk_in_the_place_of_a_resource_is_judged(rule: AnyRule, data: st.DataObject) -> None:
    token, props = data.draw(st.sampled_from(sorted(rule.types))), data.draw(st.dictionaries(KEYS, JUNK, max_size=4))
    if isinstance(rule, Rule):
        judge(rule, token, props)
        if rule.remedy is not None:
            remedied(rule, token, props)
    else:
        judge_stack(rule, [Member(token, "junk", props)])


@EACH_RULE
@times(20)
@given(data=st.data())
def test_junk_in_the_config_is_survived(rule: AnyRule, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(few(suite_of(rule).violating)))
    verdict(rule, case, {name: data.draw(KNOWN_JUNK) for name in rule.schemas})


# -- exceptions --------------------------------------------------------------------------------------------------------


def exception(pattern: str, expires: str) -> dict[str, Any]:
    return {"exceptions": [{"urn": pattern, "reason": "a test of exceptions", "expires": expires}]}


@EACH_RULE
def test_an_exception_hides_what_it_names_until_its_day_and_is_a_violation_after_it(rule: AnyRule) -> None:
    case = suite_of(rule).violating[0]
    last = AS_OF.isoformat()
    everything = {"exceptions": [*exception("urn:*", last)["exceptions"], *exception("stack", last)["exceptions"]]}
    plain, excused = verdict(rule, case), verdict(rule, case, everything)
    assert not excused.messages
    assert f"until {last}: a test of exceptions; it hides: " in excused.excepted
    after = verdict(rule, case, everything, AS_OF + timedelta(days=1))
    assert after.messages[-len(plain.messages) :] == plain.messages
    assert f"expired on {last}" in after.messages[0]
    assert verdict(rule, case, exception("urn:*::nobody", "2099-01-01")) == plain, "an exception of another resource"


@EACH_RULE
def test_an_exception_of_a_resource_that_needs_none_says_nothing(rule: AnyRule) -> None:
    case = suite_of(rule).passing[0]
    assert verdict(rule, case, exception("urn:*", "2099-01-01")) == Verdict()


# -- remedies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", MENDING, ids=lambda rule: rule.id)
def test_a_remedy_leaves_what_passes_alone(rule: Rule) -> None:
    for case in suite_of(rule).passing:
        assert isinstance(case, Case)
        assert remedied(rule, case.token, case.props, case.config, provider=case.provider) is None, case


@pytest.mark.parametrize("rule", MENDING, ids=lambda rule: rule.id)
def test_what_a_remedy_mends_passes_and_is_not_mended_again(rule: Rule) -> None:
    mended = 0
    for case in suite_of(rule).violating:
        assert isinstance(case, Case)
        after = remedied(rule, case.token, case.props, case.config, provider=case.provider)
        if case.unremedied:
            assert after is None or verdict(rule, replace(case, props=after)).messages, "it is remedied after all"
            continue
        assert after is not None, f"nothing mended: {case}"
        mended += 1
        assert verdict(rule, replace(case, props=after)) == Verdict(), case
        assert remedied(rule, case.token, after, case.config, provider=case.provider) is None, "a remedy is idempotent"
    assert mended


@pytest.mark.parametrize("rule", MENDING, ids=lambda rule: rule.id)
def test_a_remedy_leaves_the_unknown_as_it_is_and_what_is_secret_secret(rule: Rule) -> None:
    for case in few(suite_of(rule).violating):
        for props, path, altered in places(case):
            for value in (UNKNOWN, secret(at(props, path))):
                other = altered(value)
                assert isinstance(other, Case)
                after = remedied(rule, other.token, other.props, other.config, provider=other.provider)
                if after is None:
                    continue
                held = at(after, path)
                assert held == UNKNOWN if value == UNKNOWN else held[SIGNATURE] == SECRET, path
