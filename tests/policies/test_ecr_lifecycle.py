"""ecr-lifecycle: a repository with its policy, by dependency or by name, and one without."""

from __future__ import annotations

from policies.rules.ecr_hardened import ECR_REPOSITORY
from policies.rules.ecr_lifecycle import LIFECYCLE_POLICY, RULE
from tests.policies.cases import Member, StackCase
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack, urn
from tests.policies.suite import Suite

RUNNER = Member(ECR_REPOSITORY, "runner", {"name": "runner-image"})
OTHER = Member(ECR_REPOSITORY, "other", {"name": "other-image"})
MADE = Member(LIFECYCLE_POLICY, "kept", {"policy": "{}"}, property_depends={"repository": ("runner",)})
NAMED = Member(LIFECYCLE_POLICY, "kept", {"policy": "{}", "repository": "runner-image"})
MESSAGE = (
    "this repository has no lifecycle policy, so you pay for every old image; "
    "add an aws.ecr.LifecyclePolicy that expires untagged and old images"
)

SUITE = Suite(
    RULE,
    passing=(StackCase((RUNNER, MADE)), StackCase((RUNNER, NAMED)), StackCase((NAMED,))),
    violating=(
        StackCase((RUNNER,), {MESSAGE: "runner"}),
        StackCase((RUNNER, OTHER, MADE), {MESSAGE: "other"}),
        StackCase((RUNNER, OTHER, NAMED), {MESSAGE: "other"}),
    ),
)


def test_a_policy_of_who_knows_what_matters_where_a_repository_lacks_one() -> None:
    late = Member(LIFECYCLE_POLICY, "late", {"policy": "{}", "repository": UNKNOWN})
    assert judge_stack(RULE, (RUNNER, MADE, late)) == CLEAN
    assert judge_stack(RULE, (RUNNER, OTHER, MADE, late)).unknown == "repository"


def test_an_unknown_name_hides_no_other_repository() -> None:
    late = Member(ECR_REPOSITORY, "late", {"name": UNKNOWN})
    for stack in ((late, OTHER, NAMED), (OTHER, late, NAMED)):
        found = judge_stack(RULE, stack)
        assert found.messages == (MESSAGE,)
        assert found.unknown == "name"


def excepted(*patterns: str) -> dict[str, object]:
    reason = {"reason": "a test of exceptions", "expires": "2027-01-01"}
    return {"exceptions": [{"urn": pattern, **reason} for pattern in patterns]}


def test_an_exception_of_one_resource_hides_no_unknown_of_the_others() -> None:
    named_late = Member(ECR_REPOSITORY, "late", {"name": UNKNOWN})
    stack = (named_late, OTHER, NAMED)
    one = urn(ECR_REPOSITORY, "other")
    assert judge_stack(RULE, stack, excepted(one)).unknown == "name"
    whole = judge_stack(RULE, stack, excepted(one, "stack"))
    assert not whole.unknown
    assert "it hides: this repository has no lifecycle policy" in whole.excepted
