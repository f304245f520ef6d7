"""pods-fit-level: a pod that breaks `restricted` in a namespace of the same stack that enforces it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import POD_SECURITY_LABEL
from policies.rules.kinds import NAMESPACE
from policies.rules.pods_fit_level import RULE
from tests.policies.cases import Member, StackCase
from tests.policies.fixtures import JOB, POD
from tests.policies.harness import CLEAN, UNKNOWN, changed, judge_stack
from tests.policies.pods_of_levels import SPEC
from tests.policies.suite import Suite

TEAM = "team-a"
SECURITY = ("containers", 0, "securityContext")
ROOT = changed(SPEC, *SECURITY, "runAsNonRoot", False)
BUT = f'namespace "{TEAM}" enforces level restricted, so the API server refuses the pod'
TOLD = f"spec.containers[0].securityContext.runAsNonRoot is false; write true there or for the pod; {BUT}"
RIGHTS = "spec.containers[0].securityContext.capabilities does not drop ALL, or adds more than NET_BIND_SERVICE; drop ALL"


def space(level: Any = "restricted", name: Any = TEAM) -> Member:
    labels = {POD_SECURITY_LABEL: level} if level else {}
    return Member(NAMESPACE, "space", {"metadata": {"name": name, "labels": labels}})


def pod(spec: Any = ROOT, namespace: str = TEAM, token: str = POD) -> Member:
    body = {"template": {"spec": spec}} if token == JOB else spec
    return Member(token, "pod", {"metadata": {"name": "a", "namespace": namespace}, "spec": body})


SUITE = Suite(
    RULE,
    passing=(
        StackCase((space(), pod(SPEC))),
        StackCase((space("baseline"), pod())),
        StackCase((space(""), pod())),
        StackCase((space(name="team-b"), pod())),
        StackCase((pod(),)),
    ),
    violating=(
        StackCase((space(), pod()), {TOLD: "pod"}),
        StackCase((space(), pod(token=JOB)), {TOLD.replace("spec.containers", "spec.template.spec.containers"): "pod"}),
        StackCase(
            (space(), pod(changed(SPEC, *SECURITY, "capabilities", {"drop": ["KILL"]}))),
            {f"{RIGHTS}; {BUT}": "pod"},
        ),
    ),
)


@pytest.mark.parametrize("other", [space(UNKNOWN), space(name=UNKNOWN)], ids=["level", "name"])
def test_an_unknown_namespace_is_judged_later(other: Member) -> None:
    verdict = judge_stack(RULE, [other, pod()])
    assert verdict.messages == ()
    assert verdict.unknown


def test_a_namespace_of_another_cluster_does_not_count() -> None:
    elsewhere = Member(NAMESPACE, "space", space().props, provider={"clusterIdentifier": "other"})
    assert judge_stack(RULE, [elsewhere, pod()]) == CLEAN
