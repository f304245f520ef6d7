"""no-silent-eviction: undeterminable in a pack; a plan with a base checks each change."""

from __future__ import annotations

from typing import Any

from policies.rules.no_silent_eviction import RULE, of_changes
from tests.day import AS_OF
from tests.policies.cases import Member, alone
from tests.policies.harness import config_of, judge_stack, urn
from tests.policies.suite import Suite

UNSEEN = "a pack sees no earlier state; `gpu-ci plan --base` says which running jobs a change ends, and decides"
WHAT = "usw2: removal of t4 deletes 1 node group: running jobs of gpu-t4 on t4 end"
GROUP = urn("aws:eks/nodeGroup:NodeGroup", "usw2-t4-nodes")
APPROVED = {"urn": "*aws:eks/nodeGroup:NodeGroup::usw2-t4-*", "reason": "no jobs run at night", "expires": "2027-01-01"}


def said(*exceptions: dict[str, str]) -> Any:
    return of_changes([(WHAT, GROUP)]).judge((), RULE.bounded({"exceptions": [*exceptions]}), AS_OF)


def test_a_pack_is_unsure_once_for_a_stack() -> None:
    members = [Member("aws:eks/nodeGroup:NodeGroup", f"usw2-{name}", {}) for name in ("a", "b")]
    verdict = judge_stack(RULE, members)
    assert (verdict.messages, verdict.undeterminable) == ((), UNSEEN)


def test_a_plan_with_a_base_breaks_it_for_each_change_unless_an_exception_approves_it() -> None:
    how = f"if you want that, approve it with a reason in {config_of(RULE.id, 'exceptions')}"
    assert said().violations == [(f"{WHAT}; {how}", GROUP)]
    approved = said(APPROVED)
    assert (approved.violations, approved.unknown) == ([], None)
    assert "exceptions[0], until 2027-01-01: no jobs run at night; it hides: usw2: removal of t4" in approved.excepted
    assert said({**APPROVED, "urn": "*aws:eks/nodeGroup:NodeGroup::sjc-*"}).violations, "the exception is of another pool"
    assert len(said({**APPROVED, "expires": "2020-01-01"}).violations) == 2, "the change and the expired exception"


SUITE = Suite(
    RULE,
    passing=(),
    violating=(),
    undeterminable=tuple(alone(token, {"name": "one"}, (UNSEEN,)) for token in sorted(RULE.types)),
    unshown=RULE.types,
)
