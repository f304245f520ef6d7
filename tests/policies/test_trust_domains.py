"""trust-domains: which runner sets may meet on a GPU, and which of them belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules.trust_domains import RULE
from tests.policies.cases import Member
from tests.policies.container_fixtures import HOOKED, INSIDE, JOB, hooks
from tests.policies.harness import CLEAN, judge_stack
from tests.policies.machine_fixtures import case
from tests.policies.pool_fixtures import RELEASE, RUNNER_SET, RUNNER_SET_PATCH, runner_set, scale_set
from tests.policies.suite import Suite

SHARES, OURS = "nvidia.com/gpu.shared", "https://github.com/acme"
EITHER = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "gpu-ci/pool", "operator": "In", "values": [pool]}]} for pool in ("l4", "t4")
        ]
    }
}


def pod(pool: str = "t4", resource: str = SHARES) -> dict[str, Any]:
    selector = {"nodeSelector": {"gpu-ci/pool": pool}} if pool else {}
    return selector | {"containers": [{"name": "runner", "resources": {"limits": {resource: 1}}}]}


def runners(name: str, group: str = "ci", *, url: str = OURS, spec: Any = None, token: str = RELEASE) -> Member:
    fields: dict[str, Any] = {"githubConfigUrl": url, "runnerGroup": group}
    home = {"namespace": f"runners-{name}"}
    if token == RELEASE:
        props = scale_set(pod() if spec is None else spec, **fields) | home | {"name": name}
    else:
        props = runner_set(pod() if spec is None else spec, **fields) | {"metadata": home | {"name": name}}
    return Member(token, name, props, provider=INSIDE)


def fault(second: str = "gpu-b (group prs of github.com/acme)", first: str = "gpu-a (group ci of github.com/acme)") -> str:
    return (
        f"{second} and {first} take shares of the same GPUs, and shares separate neither memory nor crashes; give each a pool of "
        "its own, or share by MIG"
    )


FIRST, SECOND = runners("gpu-a"), runners("gpu-b", "prs")


@pytest.mark.parametrize(
    ("second", "meets"),
    [
        (SECOND, True),
        (runners("gpu-b"), False),
        (runners("gpu-b", url=f"{OURS}/"), False),
        (runners("gpu-b", url=f"{OURS}/app"), True),
        (runners("gpu-b", "prs", spec=pod("l4")), False),
        (runners("gpu-b", "prs", spec=pod("")), True),
        (runners("gpu-b", "prs", spec=pod("") | {"affinity": {"nodeAffinity": EITHER}}), True),
        (runners("gpu-b", "prs", spec=pod(resource="nvidia.com/gpu")), False),
        (runners("gpu-b", "prs", spec=pod(resource="nvidia.com/mig-1g.5gb")), False),
        (replace(SECOND, provider={"clusterIdentifier": "use1"}), False),
    ],
)
def test_two_sets_of_one_pool_are_of_one_group(second: Member, meets: bool) -> None:
    assert len(judge_stack(RULE, [FIRST, second]).messages) == meets


HOOKS = runners("gpu-t4", "prs", spec=HOOKED)
SHARED_JOB = JOB | {"containers": [{"name": "$job", "resources": {"limits": {SHARES: 1}}}]}
BY_HOOKS = fault("gpu-t4 (group prs of github.com/acme)")


def test_the_pods_of_jobs_count_not_the_runners() -> None:
    assert judge_stack(RULE, [FIRST, HOOKS, hooks()]) == CLEAN
    assert judge_stack(RULE, [FIRST, HOOKS, hooks(SHARED_JOB)]).messages == (BY_HOOKS,)


SETS = (RELEASE, RUNNER_SET, RUNNER_SET_PATCH)
SUITE = Suite(
    RULE,
    passing=(
        case(FIRST, runners("gpu-b")),
        *(case(FIRST, runners("gpu-b", "prs", spec=pod("l4"), token=token)) for token in SETS),
        case(FIRST, HOOKS, hooks()),
    ),
    violating=(
        *(case(FIRST, runners("gpu-b", "prs", token=token), messages={fault(): "gpu-b"}) for token in SETS),
        case(FIRST, HOOKS, hooks(SHARED_JOB), messages={BY_HOOKS: "gpu-t4"}),
    ),
)
