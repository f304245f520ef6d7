"""spot-with-fallback: which pool is a fallback, in which cluster, for which runners, how large, and when a pool is its own."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.errors import InputError
from fleet.facts.scheduling import FALLBACK, POOL_LABEL, ROLE_LABEL, node_choice
from gpu_ci.offline.judge import configure
from policies.rules.spot_with_fallback import RULE
from tests.day import AS_OF
from tests.policies.cases import Member, StackCase
from tests.policies.container_fixtures import JOB, hooked, hooks
from tests.policies.harness import CLEAN, UNKNOWN, changed, config_of, judge_stack, urn
from tests.policies.pool_fixtures import (
    EKS,
    GPU,
    KARPENTER,
    LEAVING,
    MOST,
    NODE_POOL,
    RELEASE,
    RELEASES,
    REQUIREMENTS,
    RESERVED,
    RUNNER,
    RUNNER_SET,
    RUNNER_SET_PATCH,
    SPOT,
    SYSTEM,
    TAINT,
    V100,
    V100_RELEASES,
    karpenter,
    oke,
    oke_cluster,
    runner_set,
    scale_set,
    with_values,
)
from tests.policies.suite import Suite

BURST = Member(EKS, "burst", SPOT)
TWIN = Member(EKS, "release", RELEASES)
SETS = (RELEASE, RUNNER_SET, RUNNER_SET_PATCH)
MAX = ("scalingConfig", "maxSize")
OLD = Member(EKS, "old", SPOT | {"taints": [TAINT, LEAVING]})
ONLY_SPOT = with_values(0, "spot")
ON_DEMAND = with_values(0, "on-demand")


def agreed(name: str) -> str:
    pool = SPOT["labels"][POOL_LABEL] if name == "burst" else name
    return f", or accept that they wait: write pool {pool} and why in {config_of(RULE.id, 'spotOnly')}"


def missing(name: str, gpus: str = "T4", cluster: str = "cluster usw2") -> str:
    return (
        f"spot pool {name} ({gpus}) has no fallback in {cluster}: its jobs wait if spot runs out; add an on-demand pool "
        f"with that GPU, with a minimum of 0, and let its runner sets run there too{agreed(name)}"
    )


LONELY = (
    "its runners can run in spot pool burst (T4), and in no other pool with that GPU: their jobs wait if spot runs out; name an "
    f"on-demand pool after the spot pool{agreed('burst')}"
)


def not_behind(who: str) -> str:
    return (
        f"gpu-ci/role is fallback, and {who}: such a pool is only for jobs that find no spot capacity; let the set run in a spot "
        "pool with that GPU too, or give the pool another role"
    )


def great(path: str, value: str, spot: str = "burst", limit: int = 1) -> str:
    nodes = "1 node" if limit == 1 else f"{limit} nodes"
    raised = config_of(RULE.id, "maxFallback")
    return f"{path} is {value}: as the fallback of spot pool {spot} it has at most {nodes}; write {limit}, or raise {raised}"


def keeps(path: str, value: str, spot: str = "burst") -> str:
    return f"{path} is {value}: as the fallback of spot pool {spot} it keeps no node until one is needed; write 0"


def naming(*pools: str, token: str = RELEASE, cluster: str = "usw2", **spec: Any) -> Member:
    """A runner set of GPU runners that names these pools in order."""
    pod = RUNNER | {"nodeSelector": {}} | node_choice([{POOL_LABEL: pool} for pool in pools]) | spec
    return Member(token, "gpu-t4", scale_set(pod) if token == RELEASE else runner_set(pod), {"clusterIdentifier": cluster})


BEHIND = Member(EKS, "ondemand", changed(changed(RELEASES, "labels", POOL_LABEL, "t4-ondemand"), "labels", ROLE_LABEL, FALLBACK))


def messages(*members: Member, **config: Any) -> tuple[str, ...]:
    return judge_stack(RULE, members, config).messages


def twin(**props: Any) -> Member:
    return Member(EKS, "release", RELEASES | props)


def test_a_spot_pool_alone_has_no_fallback() -> None:
    assert messages(BURST, Member(EKS, "system", SYSTEM)) == (missing("burst"),)
    assert judge_stack(RULE, [BURST, TWIN]) == CLEAN


@pytest.mark.parametrize(
    ("types", "passes"), [(["g4dn.4xlarge"], True), (["g5.xlarge"], False), (["g5.xlarge", "g4dn.xlarge"], True), (None, True)]
)
def test_the_fallback_has_the_same_gpu(types: Any, passes: bool) -> None:
    assert (messages(BURST, twin(instanceTypes=types)) == ()) is passes, "types that a template chooses may be the same"


def test_another_spot_pool_is_no_fallback() -> None:
    other = Member(EKS, "other", changed(SPOT, "labels", POOL_LABEL, "other"))
    assert messages(BURST, other) == (missing("burst"), missing("other"))


def test_a_person_may_accept_that_the_jobs_of_a_spot_pool_wait() -> None:
    other = Member(EKS, "other", changed(SPOT, "labels", POOL_LABEL, "other"))
    accepted = [{"pool": "t4", "why": "Nightly jobs may wait for a day."}]
    assert messages(BURST, spotOnly=accepted) == messages(BURST, naming("t4"), spotOnly=accepted) == ()
    assert messages(BURST, other, spotOnly=accepted) == (missing("other"),), "for the pools that are named alone"


def test_consent_needs_a_reason() -> None:
    with pytest.raises(InputError, match=r"spot-with-fallback.spotOnly\[0\].why: is required"):
        configure([RULE], {RULE.id: {"spotOnly": [{"pool": "t4"}]}}, AS_OF)


def test_a_pool_of_another_cluster_is_no_fallback() -> None:
    assert messages(BURST, twin(clusterName="use1")) == (missing("burst"),)


def test_a_fallback_is_small_and_keeps_nothing() -> None:
    big = twin(scalingConfig={"minSize": 1, "maxSize": 10})
    assert messages(BURST, big) == (great("scalingConfig.maxSize", "10"), keeps("scalingConfig.minSize", "1"))
    assert messages(BURST, big, maxFallback=10) == (keeps("scalingConfig.minSize", "1"),)


def test_a_fallback_that_is_greater_than_its_spot_pool_is_bounded_all_the_same() -> None:
    small = Member(EKS, "burst", changed(SPOT, *MAX, 2))
    assert messages(small, twin(scalingConfig={"minSize": 0, "maxSize": 3}), maxFallback=2) == (
        great("scalingConfig.maxSize", "3", limit=2),
    )


def test_a_fallback_without_a_maximum_is_too_great() -> None:
    assert messages(BURST, twin(scalingConfig={})) == (great("scalingConfig.maxSize", "not set"),)


def test_no_fallback_at_all_may_be_allowed_to_have_nodes() -> None:
    none = twin(scalingConfig={"minSize": 0, "maxSize": 0})
    assert messages(BURST, none, maxFallback=0) == ()
    assert messages(BURST, TWIN, maxFallback=0) == (great("scalingConfig.maxSize", "1", limit=0).replace("0 node;", "0 nodes;"),)


def test_reserved_capacity_is_a_fallback_of_any_size() -> None:
    assert judge_stack(RULE, [BURST, Member(EKS, "reserved", RESERVED)]) == CLEAN


def test_one_good_fallback_is_enough_and_one_fault_is_told_once() -> None:
    big = Member(EKS, "big", changed(changed(RELEASES, *MAX, 9), "labels", POOL_LABEL, "big"))
    assert judge_stack(RULE, [BURST, big, TWIN]) == CLEAN
    assert judge_stack(RULE, [BURST, big]).messages == (great("scalingConfig.maxSize", "9"),)


def test_on_demand_base_capacity_is_no_fallback() -> None:
    based = Member(EKS, "burst", SPOT | {"mixedInstancesPolicy": {"instancesDistribution": {"onDemandBaseCapacity": 1}}})
    assert messages(based) == (missing("burst"),)


@pytest.mark.parametrize(
    ("values", "faults"), [(["spot"], 1), (["spot", "on-demand"], 0), (["spot", "reserved"], 0), (["on-demand"], 0)]
)
def test_a_karpenter_pool_that_may_buy_both_is_its_own(values: list[str], faults: int) -> None:
    found = messages(karpenter("a10g", with_values(0, *values)))
    assert found == (missing("a10g", "A10G"),) * faults


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["a10g"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]},
    ],
)
def test_a_karpenter_pool_names_its_gpu_in_several_ways(requirement: dict[str, Any]) -> None:
    def of(props: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = changed(props, *REQUIREMENTS, 1, requirement)
        return found

    spot = karpenter("a10g", of(ONLY_SPOT))
    assert messages(spot) == (missing("a10g", "A10G"),)
    assert messages(spot, karpenter("od", changed(of(ON_DEMAND), "spec", "limits", GPU, 1))) == ()
    assert messages(spot, Member(EKS, "t4", RELEASES)) == (missing("a10g", "A10G"),)


def test_a_karpenter_fallback_is_bounded_by_nodes_or_gpus() -> None:
    spot = karpenter("a10g", ONLY_SPOT)
    assert messages(spot, karpenter("od", ON_DEMAND)) == (great(f"spec.limits.{GPU}", "4", "a10g"),)
    assert messages(spot, karpenter("od", changed(ON_DEMAND, "spec", "limits", {"nodes": 1}))) == ()


def test_a_pool_of_an_unnamed_cluster_may_be_in_any() -> None:
    anywhere = Member(KARPENTER, "od", changed(ON_DEMAND, "spec", "limits", GPU, 1))
    assert messages(karpenter("a10g", ONLY_SPOT), anywhere) == ()
    assert messages(Member(KARPENTER, "a10g", ONLY_SPOT))[0].startswith("spot pool a10g (A10G) has no fallback in the cluster:")


def test_a_pool_of_oke_with_a_placement_without_preemption_is_its_own() -> None:
    mixed = changed(V100, "nodeConfigDetails", "placementConfigs", 0, {"availabilityDomain": "AD-1"})
    assert messages(oke_cluster(), oke("v100", mixed)) == ()


def test_oke_says_the_maximum_of_a_fallback_by_its_tag() -> None:
    spot, big = oke("v100", V100), oke("release", changed(V100_RELEASES, "freeformTags", MOST, "3"))
    assert messages(oke_cluster(), spot, big) == (great(f"freeformTags.{MOST}", '"3"', "v100"),)
    assert messages(oke_cluster(), spot, big, maxFallback=3) == ()


def test_an_unknown_pool_may_be_the_fallback_or_need_one() -> None:
    for hidden in (twin(capacityType=UNKNOWN), twin(clusterName=UNKNOWN), twin(instanceTypes=UNKNOWN)):
        verdict = judge_stack(RULE, [BURST, hidden])
        assert not verdict.messages
        assert verdict.unknown
    assert judge_stack(RULE, [BURST, TWIN, Member(EKS, "more", changed(SPOT, "labels", "x", UNKNOWN))]) == CLEAN
    assert judge_stack(RULE, [BURST, twin(scalingConfig=UNKNOWN)]).unknown == "scalingConfig"
    other = Member(EKS, "other", changed(RELEASES, "labels", POOL_LABEL, "other") | {"scalingConfig": UNKNOWN})
    assert judge_stack(RULE, [BURST, TWIN, other]) == CLEAN, "one good fallback is enough"


def test_a_pool_that_the_jobs_of_a_spot_pool_cannot_reach_is_no_fallback() -> None:
    other = Member(RELEASE, "gpu-t4-release", scale_set(RUNNER | {"nodeSelector": {POOL_LABEL: "t4-release"}}))
    assert messages(BURST, TWIN, naming("t4"), other) == (LONELY,)
    assert messages(BURST, TWIN, naming("t4", "t4-release"), other) == ()


def test_each_runner_set_of_a_spot_pool_needs_the_fallback() -> None:
    second = Member(RELEASE, "second", scale_set(RUNNER), {"clusterIdentifier": "usw2"})
    verdict = judge_stack(RULE, [BURST, TWIN, naming("t4", "t4-release"), second])
    assert verdict.messages == (LONELY,)
    assert verdict.urns == (urn(RELEASE, "second"),)


def test_preferences_reach_no_fallback_because_the_autoscaler_does_not_read_them() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": ["t4-release"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    assert messages(BURST, TWIN, naming("t4", affinity=affinity)) == (LONELY,)


def test_a_runner_that_names_no_pool_reaches_every_pool_of_its_cluster() -> None:
    anywhere = naming(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"})
    assert messages(BURST, TWIN, anywhere) == ()
    assert messages(BURST, anywhere) == (LONELY,)


def test_a_reachable_pool_with_another_gpu_is_no_fallback() -> None:
    assert messages(BURST, twin(instanceTypes=["g5.xlarge"]), naming("t4", "t4-release")) == (LONELY,)


def test_runner_sets_of_another_cluster_and_pods_without_gpus_are_left_out() -> None:
    assert messages(BURST, TWIN, naming("t4", cluster="use1")) == ()
    assert messages(BURST, TWIN, naming("t4", containers=[{"name": "runner"}])) == ()


def test_a_pool_of_role_fallback_is_admitted_only_behind_a_spot_pool() -> None:
    assert messages(BURST, BEHIND, naming("t4", "t4-ondemand")) == ()
    alone = "runner set gpu-t4 can run in it and in no spot pool"
    assert messages(BEHIND, naming("t4-ondemand")) == (not_behind(alone),)
    assert messages(BEHIND, TWIN, naming("t4-release", "t4-ondemand")) == (not_behind(alone),)
    assert messages(BURST, BEHIND, TWIN, naming("t4", "t4-release")) == (not_behind("no runner set can run in it"),)


def test_without_a_runner_set_in_the_stack_the_role_is_not_judged() -> None:
    assert messages(BURST, BEHIND) == ()
    assert messages(BEHIND, naming("t4", cluster="use1")) == ()


def test_an_unknown_label_or_runner_set_may_hide_a_fault() -> None:
    hidden = Member(EKS, "ondemand", changed(BEHIND.props, "labels", POOL_LABEL, UNKNOWN))
    assert judge_stack(RULE, [BURST, hidden]) == CLEAN, "no set is in the stack, so labels do not matter"
    assert judge_stack(RULE, [BURST, hidden, naming("t4", "t4-ondemand")]).unknown
    unread = naming("t4", affinity=UNKNOWN)
    assert judge_stack(RULE, [BURST, TWIN, unread]).unknown
    assert judge_stack(RULE, [TWIN, unread]) == CLEAN, "there is no spot pool"


def test_a_pool_that_leaves_needs_no_fallback_and_is_none() -> None:
    left = [TAINT, LEAVING]
    assert messages(OLD) == ()
    assert messages(BURST, twin(taints=left)) == (missing("burst"),)
    gone = Member(EKS, "ondemand", {**BEHIND.props, "taints": left})
    assert messages(BURST, TWIN, gone, naming("t4", "t4-release")) == (), "no set names a pool that the settings do not have"
    assert judge_stack(RULE, [BURST, twin(taints=[TAINT, UNKNOWN])]).unknown, "it may be a fallback"


BOTH = JOB | {"nodeSelector": {}} | node_choice([{POOL_LABEL: pool} for pool in ("t4", "t4-ondemand")])
"""A job in a container that may run in either pool."""

SUITE = Suite(
    RULE,
    passing=(
        StackCase((BURST, TWIN)),
        StackCase((OLD,)),
        StackCase((oke_cluster(), oke("v100", changed(V100, "freeformTags", MOST, "0")))),
        StackCase((BURST, twin(scalingConfig={"minSize": 0, "maxSize": 4})), config={"maxFallback": 4}),
        StackCase((BURST,), config={"spotOnly": [{"pool": "t4", "why": "Nightly jobs may wait for a day."}]}),
        StackCase((BURST, Member(EKS, "reserved", RESERVED))),
        StackCase((oke_cluster(), oke("v100", V100), oke("release", V100_RELEASES))),
        StackCase((karpenter("a10g", NODE_POOL),)),
        *(StackCase((BURST, BEHIND, naming("t4", "t4-ondemand", token=token))) for token in SETS),
        StackCase((BURST, BEHIND, hooked(), hooks(BOTH))),
    ),
    violating=(
        StackCase((BURST,), {missing("burst"): "burst"}),
        StackCase((BURST, twin(taints=[TAINT, LEAVING])), {missing("burst"): "burst"}),
        StackCase((BURST, twin(instanceTypes=["g5.xlarge"])), {missing("burst"): "burst"}),
        StackCase(
            (BURST, twin(scalingConfig={"minSize": 1, "maxSize": 3})),
            {great("scalingConfig.maxSize", "3", limit=2): "release", keeps("scalingConfig.minSize", "1"): "release"},
            config={"maxFallback": 2},
        ),
        StackCase((oke_cluster(), oke("v100", V100)), {missing("v100", "V100", "cluster gpu-ci-iad"): "v100"}),
        StackCase((karpenter("a10g", ONLY_SPOT),), {missing("a10g", "A10G"): "a10g"}),
        *(StackCase((BURST, TWIN, naming("t4", token=token)), {LONELY: "gpu-t4"}) for token in SETS),
        StackCase((BURST, TWIN, hooked(), hooks()), {LONELY: "gpu-t4"}),
        StackCase(
            (BEHIND, TWIN, naming("t4-ondemand")),
            {not_behind("runner set gpu-t4 can run in it and in no spot pool"): "ondemand"},
        ),
    ),
)
