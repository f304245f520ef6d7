"""Every rule's suite held to the same demands: both verdicts for each kind, unknowns, secrets, junk, exceptions, remedies."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from itertools import filterfalse, product
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from policies.rules import RULES, AnyRule, Rule, StackRule
from policies.rules.kinds import HELM, RELEASE
from policies.rules.record import SECRET, SIGNATURE, UNKNOWNS as SENTINELS, Unknown, UnknownError, plain
from tests.cases import naming
from tests.day import AS_OF
from tests.examples import examples
from tests.policies import fixtures
from tests.policies.cases import Case, Member, StackCase
from tests.policies.harness import (
    NAME,
    UNKNOWN,
    Subject,
    Verdict,
    at,
    by_protobuf,
    changed,
    judge,
    judge_stack,
    paths,
    remedied,
    secret,
    stack_subject,
    subject,
    urn,
    veiled,
    wire,
)
from tests.policies.suite import counts, decided, few, suite_of, table, tokens_of

RESOURCE_RULES = [rule for rule in RULES if isinstance(rule, Rule)]
STACK_RULES = [rule for rule in RULES if isinstance(rule, StackRule)]
ARGO = HELM - {RELEASE}
MENDING = [rule for rule in RESOURCE_RULES if rule.remedy is not None]

Props = Mapping[str, Any]
Place = tuple[int, tuple[Any, ...]]
"""The number of a resource of a case, and a path in its properties as a rule reads them."""
WHATEVER: tuple[Props, ...] = ({}, {"size": 0.0}, {"name": UNKNOWN})
"""What a resource may say that no rule can judge."""


def verdict(rule: AnyRule, case: Case | StackCase, config: Mapping[str, Any] | None = None, as_of: date = AS_OF) -> Verdict:
    return subject_of(rule, case, config).verdict(as_of)


def subject_of(rule: AnyRule, case: Case | StackCase, config: Mapping[str, Any] | None = None) -> Subject:
    both = {**case.config, **(config or {})}
    if isinstance(case, StackCase):
        assert isinstance(rule, StackRule)
        return stack_subject(rule, case.members, both)
    assert isinstance(rule, Rule)
    return subject(rule, case.token, case.props, both, parent=case.parent, protect=case.protect, provider=case.provider)


def places(judged: Subject) -> list[Place]:
    """Each property of what a rule judges."""
    twin = any(resource.type in ARGO for resource in judged.resources)
    # The other members are tried in the case of which this one is the twin.
    return [
        (number, path)
        for number, resource in enumerate(judged.resources)
        if resource.type in ARGO or not twin
        for path in paths(resource.props)
    ]


def few_of(rule: AnyRule) -> list[Case | StackCase]:
    return few(suite_of(rule).passing) + few(suite_of(rule).violating)


# -- what each suite says ----------------------------------------------------------------------------------------------


def test_every_kind_that_a_rule_names_is_seen_to_pass_and_to_break_it() -> None:
    lacking = {}
    for rule in RULES:
        suite = suite_of(rule)
        assert not suite.forbidden & suite.unshown, f"{rule.id}: what breaks a rule is judged"
        for token, numbers in counts(rule).items():
            passing, violating, undeterminable = map(bool, numbers)
            judged = (
                not passing and undeterminable if token in suite.unshown else violating and passing != (token in suite.forbidden)
            )
            if not judged:
                lacking[rule.id, token] = numbers
    assert not lacking, "kinds with their passing, violating and undeterminable cases"


def test_the_cases_are_printed() -> None:
    """`pytest -s` shows them."""
    rows = list(table())
    sys.stdout.write("\n".join(("", *rows, "")))
    assert all(any(row.startswith(f"{rule.id} ") for row in rows) for rule in RULES)


def test_what_passes_is_passed_in_silence() -> None:
    for rule in RULES:
        with naming(rule.id):
            for case in suite_of(rule).passing:
                assert verdict(rule, case) == Verdict(), case


def test_what_breaks_it_is_told_word_for_word_in_whatever_order_resources_come() -> None:
    for rule in RULES:
        with naming(rule.id):
            for case in suite_of(rule).violating:
                said = verdict(rule, case)
                assert case.messages, "a violation has a message"
                assert said.messages == tuple(case.messages), case
                assert not said.unknown
                for message in said.messages:
                    assert message.isprintable(), "a message is one line"
                if isinstance(case, StackCase):
                    tokens = {member.name: member.token for member in case.members}
                    assert said.urns == tuple(urn(tokens[name], name) if name else "" for name in case.messages.values()), case
                    reverse = replace(case, members=case.members[::-1])
                    assert verdict(rule, reverse) == said, "an engine has no order of its own"


def test_what_leaves_it_undeterminable_is_told_word_for_word_and_whatever_a_resource_of_it_says() -> None:
    for rule in STACK_RULES:
        suite = suite_of(rule)
        with naming(rule.id):
            for case in suite.undeterminable:
                (reason,) = case.messages
                assert verdict(rule, case) == Verdict(undeterminable=reason), case
            for token, props in product(suite.unshown, WHATEVER):
                said = judge_stack(rule, [Member(token, "any", props)])
                assert said == Verdict(undeterminable=said.undeterminable), token
                assert said.undeterminable, f"{token} passed in silence"


def test_each_config_property_is_overridden_in_some_case() -> None:
    for rule in RULES:
        suite = suite_of(rule)
        used = {name for case in (*suite.passing, *suite.violating) for name in case.config}
        assert used == set(rule.config), rule.id


# -- unknown, secret, junk ---------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Any, ...]]:
    """The paths of the unknown values that a rule has read."""
    read: set[tuple[Any, ...]] = set()
    refuse = UnknownError.__init__

    def noted(error: UnknownError, value: Any) -> None:
        read.add(value.path)
        refuse(error, value)

    monkeypatch.setattr(UnknownError, "__init__", noted)
    return read


READING_NO_PROPERTY = {"known-types"}
"""Rules that judge a resource by its type alone."""
OTHERS: tuple[Any, ...] = (None, "other", 7.0, {}, [])
"""What an unknown value may turn out to be, as a rule reads it."""


@pytest.mark.parametrize("rule", decided(), ids=lambda rule: rule.id)
def test_a_verdict_with_an_unknown_holds_whatever_the_value_turns_out_to_be(rule: AnyRule, asked: set[tuple[Any, ...]]) -> None:
    met = False
    for case in few_of(rule):
        judged = subject_of(rule, case)
        as_it_is = judged.verdict()
        assert not as_it_is.unknown, "nothing is unknown here"
        unread: set[Place] = set()
        for number, path in places(judged):
            if (number, path[:-1]) in unread:
                unread.add((number, path))
                continue
            asked.clear()
            said = judged.altered((number, path, Unknown(path)))
            met = met or bool(said.unknown)
            if path not in asked:
                assert said == as_it_is, path
                unread.add((number, path))
            elif said.messages or not said.unknown:
                for outcome in (as_it_is, *(judged.altered((number, path, value)) for value in OTHERS)):
                    assert not outcome.unknown, "nothing is unknown here"
                    assert bool(outcome.messages) == bool(said.messages), (
                        f"{path} unknown: {said}, but one value of it: {outcome}"
                    )
        asked.clear()
        for depth in {len(path) for _, path in unread}:
            # The rule reads none of these values, so no other values change its verdict.
            layer = [(number, path) for number, path in unread if len(path) == depth]
            for values in ([Unknown(path) for _, path in layer], ["other"] * len(layer)):
                changes = [(*place, value) for place, value in zip(layer, values, strict=True)]
                assert judged.altered(*changes) == as_it_is, layer
        assert not asked, "a value was read from what the rule never asked for"
    assert met == (rule.id not in READING_NO_PROPERTY), "an unknown is met somewhere, else this proves nothing"


def test_a_secret_is_judged_as_its_value() -> None:
    for rule in RULES:
        for case in few_of(rule):
            if isinstance(case, StackCase):
                members = (replace(member, props=veiled(member.props)) for member in case.members)
                other: Case | StackCase = replace(case, members=tuple(members))
            else:
                other = replace(case, props=veiled(case.props))
            assert verdict(rule, other) == verdict(rule, case), (rule.id, case)


def test_a_resource_of_another_type_is_not_read() -> None:
    strangers = {**dict(fixtures.BAD), "gpu-ci:index:GpuNodeGroup": {"taints": []}, "pulumi:pulumi:Stack": {"name": ""}}
    for rule in decided():
        base = suite_of(rule).passing[0]
        for token in filterfalse(rule.judges, strangers):
            unseen = dict.fromkeys(strangers[token], UNKNOWN)
            if isinstance(base, StackCase):
                assert isinstance(rule, StackRule)
                said = judge_stack(rule, [*base.members, Member(token, "stranger", unseen)], base.config)
            else:
                assert isinstance(rule, Rule)
                said = judge(rule, token, unseen)
            assert said == Verdict(), f"{token} is not this rule's: {rule.id}"


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
    # Each example judges all rules, and the message names the rule and its input: smaller input would take minutes.
    return settings(max_examples=examples(enough), phases=set(Phase) - {Phase.shrink})


@times(60)
@given(st.dictionaries(KEYS, JUNK, max_size=4))
def test_the_short_way_over_the_wire_ends_where_protobufs_does(props: dict[str, Any]) -> None:
    short, long = (json.dumps(way(props), sort_keys=True) for way in (wire, by_protobuf))
    assert short == long, "else the tests of this folder would judge inputs that no engine sends"


SEEDS = st.integers(0, 2**32)
"""Of what chooses each rule's case and place: to draw each by itself takes longer than to judge it."""


@cache
def filled(rule: AnyRule) -> list[tuple[Subject, list[Place]]]:
    subjects = [subject_of(rule, case) for case in few_of(rule)]
    return [(judged, inner) for judged in subjects if (inner := places(judged))]


@times(160)
@given(value=JUNK, seed=SEEDS)
def test_junk_anywhere_in_a_resource_is_judged(value: Any, seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    nothing_unknown = not any(sentinel in str(value) for sentinel in SENTINELS)
    for rule in filter(filled, RULES):
        judged, inner = chance.choice(filled(rule))
        number, path = chance.choice(inner)
        with naming(f"{rule.id}: {judged.resources[number].type} {path}"):
            said = judged.altered((number, path, plain(wire({"": value})[""], path)))
            assert not (said.unknown and nothing_unknown)
            for message in said.messages:
                assert message.isprintable(), "a message is one line"


@times(80)
@given(props=st.dictionaries(KEYS, JUNK, max_size=4), seed=SEEDS)
def test_junk_in_the_place_of_a_resource_is_judged(props: dict[str, Any], seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    for rule in RULES:
        token = chance.choice(sorted(rule.types or tokens_of(suite_of(rule).violating[0])))
        with naming(f"{rule.id}: {token}"):
            if isinstance(rule, StackRule):
                judge_stack(rule, [Member(token, "junk", props)])
            else:
                assert isinstance(rule, Rule)
                judge(rule, token, props)
                remedied(rule, token, props)


@times(80)
@given(values=st.lists(KNOWN_JUNK, min_size=1, max_size=6), seed=SEEDS)
def test_junk_in_the_config_is_survived(values: list[Any], seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    for rule in decided():
        case = chance.choice(few(suite_of(rule).violating))
        config = {name: chance.choice(values) for name in rule.schemas}
        with naming(f"{rule.id}: {config}"):
            verdict(rule, case, config)


# -- exceptions --------------------------------------------------------------------------------------------------------


def exceptions(case: Case | StackCase, expires: str, *more: str) -> dict[str, Any]:
    """Exceptions of each resource of a case, and of more patterns."""
    own = (f"*{token}::{name}" for token, name in named_in(case))
    return {"exceptions": [{"urn": pattern, "reason": "a test of exceptions", "expires": expires} for pattern in (*own, *more)]}


def named_in(case: Case | StackCase) -> list[tuple[str, str]]:
    """Type and name of each resource of a case."""
    return [(case.token, NAME)] if isinstance(case, Case) else [(member.token, member.name) for member in case.members]


def test_an_exception_hides_what_it_names_until_its_day_and_is_a_violation_after_it() -> None:
    last = AS_OF.isoformat()
    nobody = {"exceptions": exceptions(Case("aws:ec2/vpc:Vpc", {}), last)["exceptions"][:1]}
    nobody["exceptions"][0]["urn"] += "-of-nobody"
    for rule in decided():
        case = suite_of(rule).violating[0]
        everything = exceptions(case, last, "stack")
        plainly, excused = verdict(rule, case), verdict(rule, case, everything)
        after = verdict(rule, case, everything, AS_OF + timedelta(days=1))
        with naming(rule.id):
            assert not excused.messages
            assert f"until {last}: a test of exceptions; it hides: " in excused.excepted
            assert after.messages[-len(plainly.messages) :] == plainly.messages
            assert f"expired on {last}" in after.messages[0]
            assert verdict(rule, case, nobody) == plainly, "an exception of another resource"


def test_an_exception_of_a_resource_that_needs_none_says_nothing() -> None:
    for rule in decided():
        case = suite_of(rule).passing[0]
        assert verdict(rule, case, exceptions(case, AS_OF.isoformat())) == Verdict(), rule.id


# -- remedies ----------------------------------------------------------------------------------------------------------


def mended(rule: Rule, case: Case | StackCase, props: Props | None = None) -> dict[str, Any] | None:
    """The properties of a case, perhaps other ones, after the rule's remedy; None if it changes nothing."""
    assert isinstance(case, Case)
    return remedied(rule, case.token, case.props if props is None else props, case.config, provider=case.provider)


def test_a_remedy_leaves_what_passes_alone() -> None:
    for rule in MENDING:
        for case in suite_of(rule).passing:
            assert mended(rule, case) is None, (rule.id, case)


def test_what_a_remedy_mends_passes_and_is_not_mended_again() -> None:
    for rule in MENDING:
        whole = []
        for case in suite_of(rule).violating:
            assert isinstance(case, Case)
            after = mended(rule, case)
            with naming(f"{rule.id}: {case}"):
                if case.unremedied:
                    assert after is None or verdict(rule, replace(case, props=after)).messages, "it is remedied after all"
                    continue
                assert after is not None, "nothing mended"
                assert verdict(rule, replace(case, props=after)) == Verdict()
                assert mended(rule, case, after) is None, "a remedy is idempotent"
                whole.append(case)
        assert whole, rule.id


def test_a_remedy_leaves_the_unknown_as_it_is_and_what_is_secret_secret() -> None:
    for rule in MENDING:
        for case in few(suite_of(rule).violating):
            assert isinstance(case, Case)
            for path in paths(case.props):
                for value in (UNKNOWN, secret(at(case.props, path))):
                    after = mended(rule, case, changed(case.props, *path, value))
                    if after is None:
                        continue
                    kept = at(after, path)
                    assert kept == UNKNOWN if value == UNKNOWN else kept[SIGNATURE] == SECRET, (rule.id, path)
