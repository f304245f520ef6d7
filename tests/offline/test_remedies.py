"""Remediations as the SDK's servicer runs them, on resources as they are registered."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime import proto
from pulumi_policy import EnforcementLevel
from pulumi_policy.policy import _PolicyAnalyzerServicer

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.judge import Configured, Remedies, judge
from gpu_ci.offline.record import record
from policies.pack import policy
from policies.rules.draft import Draft
from policies.rules.read import Later
from policies.rules.rule import STACK_KINDS, Args, Level, Rule
from tests.analyzed import analyze_request
from tests.day import AS_OF

THING = "test:index:Thing"
CONFIG = StackConfig("gpu-ci", "dev", Path("Pulumi.dev.yaml"), {}, frozenset(), {})


class Thing(pulumi.CustomResource):
    """Echoes `size`; every other property is an input only."""

    size: pulumi.Output[int]

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(THING, name, {"size": None, **properties})


def mend(name: str, change: Callable[[Draft], None], level: Level = Level.REMEDIATE) -> Configured:
    """A rule that changes things and then demands that `size` is no more than 4."""

    def check(args: Args, _: Later) -> Iterator[str]:
        if args.props["size"] > 4:
            yield f"size is {args.props['size']}"

    rule = Rule(
        id=name,
        section="Spot, cost and scale",
        order=1,
        title=f"Title of {name}",
        severity="low",
        types=frozenset({THING}),
        levels=dict.fromkeys(STACK_KINDS, level.value),
        rationale=f"About {name}.",
        source="https://example.com",
        fix="Fix it.",
        check=check,
        remedy=lambda _, draft: change(draft),
    )
    return Configured(rule, level, {}, AS_OF)


def shrink(draft: Draft) -> None:
    if draft.reading["size"] > 4:
        draft.put(4, "size")


def label(draft: Draft) -> None:
    draft.put("ci", "tags", "owner")
    draft.append("new", "list")


def program() -> None:
    first = Thing("first", size=9, tags={"stack": "dev"}, key=pulumi.Output.secret("word"), list=["old"])
    # The second takes what the first one gave: after the remediation, as with an engine.
    Thing("second", size=1, told=first.size.apply(lambda size: f"{size:g}"), late=first.id, tags=pulumi.Output.secret({"a": "b"}))


POLICIES = [mend("shrink", shrink), mend("label", label), mend("idle", shrink, Level.ADVISORY)]


def test_what_is_remedied_is_what_is_recorded_answered_and_judged() -> None:
    remedies = Remedies(POLICIES)
    recording = record(program, CONFIG, remedy=remedies)
    first, second = recording.resources[1:]
    assert first.inputs["size"] == 4
    assert first.inputs["list"] == ["old", "new"]
    assert second.inputs["told"] == "4", "an output is what the remedied input is"
    assert str(first.inputs["key"]) == "[secret]"
    assert judge(recording, POLICIES) == ()
    assert [(each.rule, each.urn.rpartition("::")[2], each.changes) for each in remedies.done] == [
        ("shrink", "first", ("size: 9 → 4",)),
        ("label", "first", ('list[1]: not set → "new"', 'tags.owner: not set → "ci"')),
        ("label", "second", ('list: not set → ["new"]', "tags: [secret] → [secret]")),
    ]


def test_without_a_level_that_remediates_nothing_is_changed() -> None:
    remedies = Remedies([mend("shrink", shrink, Level.MANDATORY)])
    recording = record(program, CONFIG, remedy=remedies)
    assert recording.resources[1].inputs["size"] == 9
    assert remedies.done == []


def test_the_sdks_servicer_changes_the_same() -> None:
    servicer = _PolicyAnalyzerServicer(
        "gpu-ci", "0.0.1", [policy(each.policy, AS_OF) for each in POLICIES], EnforcementLevel.ADVISORY
    )
    plain = record(program, CONFIG)
    mended = record(program, CONFIG, remedy=Remedies(POLICIES))
    for before, after in zip(plain.resources[1:2], mended.resources[1:2], strict=True):
        answer = servicer.Remediate(proto.AnalyzeRequest.FromString(analyze_request(before).SerializeToString()), None)
        assert [each.policyName for each in answer.remediations] == ["shrink", "label"]
        assert json_format.MessageToDict(answer.remediations[-1].properties) == json_format.MessageToDict(after.wire)


def test_a_recording_without_remedies_is_not_touched() -> None:
    assert record(program, CONFIG, remedy=Remedies([])).resources[1].wire == record(program, CONFIG).resources[1].wire


def test_what_the_engine_keeps_for_itself_outlives_a_remedy() -> None:
    def internal() -> None:
        Thing("it", size=9, __provider="code")

    assert record(internal, CONFIG, remedy=Remedies(POLICIES)).resources[1].inputs["__provider"] == "code"


# -- the draft ---------------------------------------------------------------------------------------------------------

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.mark.parametrize(
    ("path", "made", "wanted"),
    [
        (("a", "b"), True, {"a": {"b": 1}, "l": [{"x": 0}], "u": UNKNOWN, "t": "text"}),
        (("l", 0, "x"), True, {"l": [{"x": 1}], "u": UNKNOWN, "t": "text"}),
        (("l", 5, "x"), False, None),
        (("u", "x"), False, None),
        (("t", "x"), False, None),
        (("l", "x"), False, None),
    ],
)
def test_a_draft_makes_absent_objects_and_goes_through_nothing_else(path: Any, made: bool, wanted: Any) -> None:
    draft = Draft({"l": [{"x": 0}], "u": UNKNOWN, "t": "text"})
    draft.put(1, *path)
    assert (draft.changed is not None) is made
    assert draft.changed == wanted


@pytest.mark.parametrize(("path", "made"), [(("l",), True), (("n",), True), (("o", "n"), True), (("t",), False), (("u",), False)])
def test_a_draft_appends_to_lists_alone(path: Any, made: bool) -> None:
    draft = Draft({"l": [1], "t": "text", "u": UNKNOWN, "o": {}})
    draft.append(2, *path)
    assert (draft.changed is not None) is made


def test_a_draft_leaves_what_it_was_given_alone() -> None:
    given: dict[str, Any] = {"a": {"b": [1]}}
    kept = copy.deepcopy(given)
    Draft(given).append(2, "a", "b")
    assert given == kept


def test_a_struct_is_not_shared_with_the_program() -> None:
    struct = struct_pb2.Struct()
    struct.update({"size": 9.0})
    assert Draft(json_format.MessageToDict(struct)).reading["size"] == 9.0
