"""ecr-lifecycle: a repository with its policy, by dependency or by name, and one without."""

from __future__ import annotations

from policies.rules.ecr_hardened import ECR_REPOSITORY
from policies.rules.ecr_lifecycle import LIFECYCLE_POLICY, RULE
from tests.policies.suite import Member, StackCase, Suite

RUNNER = Member(ECR_REPOSITORY, "runner", {"name": "runner-image"})
OTHER = Member(ECR_REPOSITORY, "other", {"name": "other-image"})
MADE = Member(LIFECYCLE_POLICY, "kept", {"policy": "{}"}, property_depends={"repository": ("runner",)})
NAMED = Member(LIFECYCLE_POLICY, "kept", {"policy": "{}", "repository": "runner-image"})
MESSAGE = (
    "no lifecycle policy is for this repository: images of gigabytes stay and are paid for; "
    "add an aws.ecr.LifecyclePolicy that expires untagged and old ones"
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
