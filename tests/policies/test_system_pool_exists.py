"""system-pool-exists: each cluster by itself, which nodes count as untainted, and the number of nodes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies.rules.system_pool_exists import RULE
from tests.policies.cases import Member, StackCase
from tests.policies.harness import CLEAN, UNKNOWN, changed, judge_stack, urn
from tests.policies.pool_fixtures import (
    EKS,
    KARPENTER,
    NODE_POOL,
    OKE,
    OKE_SYSTEM,
    REQUIREMENTS,
    SPOT,
    SYSTEM,
    TAINT,
    V100,
    karpenter,
    oke,
    oke_cluster,
)
from tests.policies.suite import Suite

GPU_POOL = Member(EKS, "t4", SPOT)
SYSTEM_POOL = Member(EKS, "system", SYSTEM)


def none_fault(cluster: str, names: str) -> str:
    return (
        f"cluster {cluster}: all its node pools ({names}) are tainted: CoreDNS and ARC's controller tolerate no taint and "
        "stay pending; add a pool without taints"
    )


def few_fault(cluster: str, names: str, keep: int, fields: str, wanted: int = 1) -> str:
    return (
        f"cluster {cluster}: its untainted node pools ({names}) keep {keep} nodes: CoreDNS and the autoscaler need {wanted}; "
        f"raise {fields}"
    )


def system(**props: Any) -> Member:
    return Member(EKS, "system", SYSTEM | props)


def messages(*members: Member, **config: Any) -> tuple[str, ...]:
    return judge_stack(RULE, members, config).messages


def test_a_cluster_of_tainted_pools_alone_is_refused() -> None:
    assert messages(GPU_POOL, Member(EKS, "a100", SPOT)) == (none_fault("usw2", "a100, t4"),)
    assert judge_stack(RULE, [GPU_POOL, SYSTEM_POOL]) == CLEAN


@pytest.mark.parametrize(
    ("effect", "counts"), [("NO_SCHEDULE", False), ("NO_EXECUTE", False), ("PREFER_NO_SCHEDULE", True), (None, False)]
)
def test_only_a_taint_that_keeps_pods_off_counts(effect: Any, counts: bool) -> None:
    pool = system(taints=[{"key": "team", "effect": effect}])
    assert bool(messages(GPU_POOL, pool)) is not counts


def test_each_cluster_has_its_own() -> None:
    other = Member(EKS, "elsewhere", SPOT | {"clusterName": "use1"})
    assert messages(GPU_POOL, SYSTEM_POOL, other) == (none_fault("use1", "elsewhere"),)


@pytest.mark.parametrize("scaling", [{"minSize": 0, "maxSize": 4, "desiredSize": 3}, {}, None])
def test_an_untainted_pool_that_keeps_no_node_is_none(scaling: Any) -> None:
    pool = system(scalingConfig=scaling)
    assert messages(GPU_POOL, pool) == (few_fault("usw2", "system", 0, "scalingConfig.minSize"),)


def test_untainted_pools_count_together() -> None:
    pools = (system(), Member(EKS, "more", SYSTEM | {"scalingConfig": {"minSize": 1}}))
    assert messages(*pools, minNodes=3) == ()
    assert messages(*pools, minNodes=4) == (few_fault("usw2", "more, system", 3, "scalingConfig.minSize", 4),)


def test_oke_taints_gpu_nodes_and_preemptible_ones_by_itself() -> None:
    cluster = oke_cluster()
    assert messages(cluster, oke("v100", V100)) == (none_fault("gpu-ci-iad", "v100"),)
    assert messages(cluster, oke("v100", V100), oke("system", OKE_SYSTEM)) == ()
    preemptible = oke("system", changed(V100, "nodeShape", "VM.Standard.E5.Flex"))
    assert messages(cluster, preemptible) == (none_fault("gpu-ci-iad", "system"),)
    empty = oke("system", changed(OKE_SYSTEM, "nodeConfigDetails", "size", 0))
    assert messages(cluster, empty) == (few_fault("gpu-ci-iad", "system", 0, "nodeConfigDetails.size"),)


def test_taints_of_oke_that_user_data_registers_count_too() -> None:
    script = base64.b64encode(b"kubelet --register-with-taints=team=ml:NoSchedule").decode()
    tainted = oke("system", OKE_SYSTEM | {"nodeMetadata": {"user_data": script}})
    assert messages(oke_cluster(), tainted) == (none_fault("gpu-ci-iad", "system"),)
    weak = base64.b64encode(b"kubelet --register-with-taints=team=ml:PreferNoSchedule").decode()
    assert messages(oke_cluster(), oke("system", OKE_SYSTEM | {"nodeMetadata": {"user_data": weak}})) == ()


def test_oke_pools_without_a_cluster_of_the_stack_belong_together_by_its_ocid() -> None:
    assert judge_stack(RULE, [Member(OKE, "v100", V100), Member(OKE, "system", OKE_SYSTEM)]) == CLEAN
    assert len(messages(Member(OKE, "v100", V100))) == 1


def test_a_cluster_that_has_no_name_is_told_by_its_urn_and_may_be_any() -> None:
    nameless = Member(oke_cluster().token, "iad", {})
    found = messages(nameless, oke("v100", V100))
    assert found == (none_fault(urn(nameless.token, "iad"), "v100"),)


def test_clusters_that_are_not_one_do_not_help_each_other() -> None:
    outside = Member(OKE, "system", OKE_SYSTEM)
    assert messages(GPU_POOL, outside) == (none_fault("usw2", "t4"),), "an EKS pool is in no cluster of OKE"
    assert messages(Member(OKE, "v100", V100), Member(OKE, "system", OKE_SYSTEM | {"clusterId": "ocid1.cluster.oc1..b"})) == (
        none_fault("ocid1.cluster.oc1..example", "v100"),
    )
    assert messages(GPU_POOL, SYSTEM_POOL, Member(OKE, "v100", V100 | {"clusterId": "usw2"})) == (none_fault("usw2", "v100"),)
    assert messages(Member(KARPENTER, "gpu", NODE_POOL, provider={"clusterIdentifier": "arn:aws:eks:x"}), SYSTEM_POOL) == ()


def test_a_pool_is_of_the_cluster_that_its_id_comes_from() -> None:
    pool = Member(OKE, "v100", V100, depends_on=("iad", "sjc"), property_depends={"clusterId": ("sjc",)})
    assert messages(oke_cluster(), oke_cluster("sjc"), pool) == (none_fault("gpu-ci-sjc", "v100"),)


def test_karpenter_buys_nodes_when_pods_wait_but_keeps_none() -> None:
    untainted = changed(NODE_POOL, *REQUIREMENTS[:-1], "taints", [])
    assert messages(karpenter("cpu", untainted)) == (few_fault("usw2", "cpu", 0, "spec.replicas"),)
    assert messages(karpenter("cpu", untainted), SYSTEM_POOL) == ()
    assert messages(karpenter("gpu", NODE_POOL, "use1"), SYSTEM_POOL) == (none_fault("use1", "gpu"),)


def test_a_pool_of_an_unnamed_cluster_may_be_in_any() -> None:
    anywhere = Member(KARPENTER, "gpu", NODE_POOL)
    assert judge_stack(RULE, [anywhere, SYSTEM_POOL]) == CLEAN
    assert messages(anywhere)[0].startswith("the cluster: all its node pools (gpu) are tainted")


def test_many_pools_are_cut_short() -> None:
    pools = [Member(EKS, f"pool-{number}", SPOT) for number in range(7)]
    assert messages(*pools) == (none_fault("usw2", "pool-0, pool-1, pool-2, pool-3, pool-4 and 2 more"),)


def test_a_stack_without_pools_has_nothing_to_judge() -> None:
    assert judge_stack(RULE, [oke_cluster()]) == CLEAN


def test_an_unknown_pool_may_be_the_untainted_one() -> None:
    hidden = system(taints=UNKNOWN)
    verdict = judge_stack(RULE, [GPU_POOL, hidden])
    assert (verdict.messages, verdict.unknown) == ((), "taints")
    nowhere = system(clusterName=UNKNOWN)
    assert judge_stack(RULE, [GPU_POOL, nowhere]).messages == ()
    assert judge_stack(RULE, [Member(EKS, "t4", changed(SPOT, "taints", 0, "value", UNKNOWN)), SYSTEM_POOL]) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        StackCase((GPU_POOL, SYSTEM_POOL)),
        StackCase((GPU_POOL, system(scalingConfig={"minSize": 3})), config={"minNodes": 3}),
        StackCase((oke_cluster(), oke("v100", V100), oke("system", OKE_SYSTEM))),
        StackCase((karpenter("gpu", NODE_POOL), SYSTEM_POOL)),
    ),
    violating=(
        StackCase((GPU_POOL,), {none_fault("usw2", "t4"): ""}),
        StackCase(
            (GPU_POOL, system(scalingConfig={"minSize": 2})),
            {few_fault("usw2", "system", 2, "scalingConfig.minSize", 3): ""},
            config={"minNodes": 3},
        ),
        StackCase((oke_cluster(), oke("v100", V100)), {none_fault("gpu-ci-iad", "v100"): ""}),
        StackCase((karpenter("gpu", NODE_POOL),), {none_fault("usw2", "gpu"): ""}),
        StackCase((Member(EKS, "t4", changed(SYSTEM, "taints", [TAINT])),), {none_fault("usw2", "t4"): ""}),
    ),
)
