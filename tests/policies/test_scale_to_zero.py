"""scale-to-zero: every number that keeps a GPU node, the pool that has it, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.pools import least
from policies.rules.read import Later
from policies.rules.record import Options
from policies.rules.rule import Args
from policies.rules.scale_to_zero import RULE
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, as_read, changed, config_of, judge, remedied, said, urn
from tests.policies.pool_fixtures import (
    ASG,
    EKS,
    GPU,
    GROUP,
    KARPENTER,
    LAUNCHER,
    NODE_POOL,
    OKE,
    RELEASE,
    RESERVED,
    RUNNER,
    RUNNER_SET,
    RUNNER_SET_PATCH,
    SHAPES,
    SPOT,
    SYSTEM,
    V100,
    runner_set,
    scale_set,
    with_values,
)
from tests.policies.suite import Suite

NVIDIA = '(amiType is "AL2023_x86_64_NVIDIA")'
OKE_SIGN = "(nodeShape: VM.GPU3.1 has 1 GPU)"
KARPENTER_SIGN = "(spec.template.spec.requirements[1].values[0]: g5.xlarge has 1 GPU)"
ASG_SIGN = "(mixedInstancesPolicy.launchTemplate.overrides[0].instanceType: g5.xlarge has 1 GPU)"
KEEPS = "a GPU pool keeps no node without jobs; write 0"
STARTS = "a GPU pool starts without nodes; write 0"
WAITS = "runners wait for jobs, each on a GPU; write 0"
WARM = f"is set: it keeps machines that no job needs; remove it, or allow it by {config_of('scale-to-zero', 'warmPool')}"
MIN = ("scalingConfig", "minSize")
DESIRED = ("scalingConfig", "desiredSize")
SIZE = ("nodeConfigDetails", "size")
CONSOLIDATE = ("spec", "disruption", "consolidateAfter")

KEPT = changed(SPOT, *MIN, 1)
STARTED = changed(SPOT, *DESIRED, 2)
EKS_KEPT = f"scalingConfig.minSize is 1: {KEEPS} {NVIDIA}"
EKS_STARTED = f"scalingConfig.desiredSize is 2: {STARTS} {NVIDIA}"
WAITING = scale_set(RUNNER, minRunners=2)
RUNNERS = f"values.minRunners is 2: {WAITS} (its runners take GPUs)"


def ignoring(*paths: str) -> tuple[str, ...]:
    """What the rule says of a group that starts with nodes, where the program ignores changes of these paths."""
    args = Args(EKS, as_read(STARTED), urn(EKS), "pool", Options(ignore_changes=paths), config={"minAllowed": 0.0})
    return tuple(RULE.check(args, Later()))


def test_a_minimum_and_a_first_size_are_told_each() -> None:
    assert judge(RULE, EKS, changed(KEPT, *DESIRED, 2)) == said(EKS_KEPT, EKS_STARTED)


def test_a_node_pool_of_oke_that_leaves_keeps_its_nodes_until_their_jobs_end() -> None:
    leaving = changed(changed(V100, *SIZE, 2), "freeformTags", "gpu-ci/leaving", "true")
    assert judge(RULE, OKE, leaving) == CLEAN
    assert remedied(RULE, OKE, leaving) is None, "a remedy would end nodes"
    assert least(OKE, leaving) == 0
    assert least(OKE, changed(V100, *SIZE, 2)) == 2


@pytest.mark.parametrize("path", ["scalingConfig.desiredSize", "scalingConfig", "*"])
def test_the_first_size_may_be_the_autoscalers(path: str) -> None:
    assert ignoring(path) == ()


@pytest.mark.parametrize("path", ["scalingConfig.minSize", "scalingConfig.desired", "desiredSize", "labels"])
def test_another_property_that_is_ignored_does_not_excuse_it(path: str) -> None:
    assert ignoring(path) == (EKS_STARTED,)


def test_gpu_node_group_may_send_the_size_that_a_group_has_and_keeps_no_minimum() -> None:
    token = f"gpu-ci:index:GpuNodeGroup${EKS}"
    props = as_read(changed(KEPT, *DESIRED, 2))
    args = Args(EKS, props, f"urn:pulumi:prod::gpu-ci::{token}::usw2-t4-us-west-2a-nodes", "pool", config={"minAllowed": 0.0})
    assert tuple(RULE.check(args, Later())) == (EKS_KEPT,)


@pytest.mark.parametrize("size", [0, "0", None, -1, "some"])
def test_no_node_is_no_node_however_it_is_written(size: Any) -> None:
    assert judge(RULE, EKS, changed(SPOT, *MIN, size)) == CLEAN


def test_a_pool_without_gpus_keeps_what_it_likes() -> None:
    assert judge(RULE, EKS, SYSTEM) == CLEAN
    assert judge(RULE, OKE, changed(changed(V100, "nodeShape", "VM.Standard.E5.Flex"), *SIZE, 3)) == CLEAN


def test_reserved_capacity_is_paid_for_anyway() -> None:
    assert judge(RULE, EKS, RESERVED) == CLEAN
    assert len(judge(RULE, EKS, RESERVED | {"capacityType": "SPOT"}).messages) == 2, "a label alone does not reserve spot"
    assert judge(RULE, EKS, KEPT | {"capacityType": "CAPACITY_BLOCK"}) == CLEAN
    place = {"availabilityDomain": "AD-1", "capacityReservationId": "ocid1.capacityreservation.oc1..example"}
    reserved = changed(changed(V100, *SIZE, 2), "nodeConfigDetails", "placementConfigs", [place])
    assert judge(RULE, OKE, reserved) == CLEAN
    mixed = changed(reserved, "nodeConfigDetails", "placementConfigs", [place, {"availabilityDomain": "AD-2"}])
    assert judge(RULE, OKE, mixed) == said(f"nodeConfigDetails.size is 2: {KEEPS} {OKE_SIGN}")
    assert judge(RULE, KARPENTER, changed(with_values(0, "reserved"), "spec", "replicas", 2)) == CLEAN


@pytest.mark.parametrize(
    ("pool", "faults"),
    [
        ({"minSize": 1}, 1),
        ({"poolState": "STOPPED"}, 1),
        ({"maxGroupPreparedCapacity": -1, "minSize": 0}, 1),
        ({"maxGroupPreparedCapacity": 0, "minSize": 2}, 1),
        ({"maxGroupPreparedCapacity": 0, "minSize": 0}, 0),
        ({"maxGroupPreparedCapacity": 0}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_a_warm_pool_keeps_machines_unless_it_is_told_to_prepare_none(pool: Any, faults: int) -> None:
    assert len(judge(RULE, EKS, SPOT | {"warmPoolConfig": pool}).messages) == faults
    assert len(judge(RULE, ASG, GROUP | {"warmPool": pool}).messages) == faults
    assert judge(RULE, EKS, SPOT | {"warmPoolConfig": pool}, {"warmPool": True}) == CLEAN


@pytest.mark.parametrize(("after", "faults"), [("Never", 1), ("0s", 0), ("1h", 0), (REMOVE, 0)])
def test_karpenter_removes_empty_nodes_unless_told_never(after: Any, faults: int) -> None:
    assert len(judge(RULE, KARPENTER, changed(NODE_POOL, *CONSOLIDATE, after)).messages) == faults


def test_a_karpenter_pool_of_fixed_replicas_keeps_them() -> None:
    props = changed(NODE_POOL, "spec", "replicas", 2)
    assert judge(RULE, KARPENTER, props) == said(f"spec.replicas is 2: {KEEPS} {KARPENTER_SIGN}")


def test_what_is_allowed_is_configurable() -> None:
    config = {"minAllowed": 1}
    assert judge(RULE, EKS, KEPT, config) == CLEAN
    assert judge(RULE, EKS, changed(SPOT, *MIN, 2), config) == said(
        f"scalingConfig.minSize is 2: {KEEPS.replace('write 0', 'write 1 or less')} {NVIDIA}"
    )


def test_a_runner_without_a_gpu_waits_for_nothing_dear() -> None:
    plain = {"containers": [{"name": "runner", "resources": {"limits": {"cpu": 4}}}]}
    assert judge(RULE, RELEASE, scale_set(plain, minRunners=3)) == CLEAN
    assert judge(RULE, RUNNER_SET, runner_set(plain, minRunners=3)) == CLEAN
    assert judge(RULE, RELEASE, WAITING | {"chart": "nvidia-device-plugin"}) == CLEAN


def test_a_gpu_in_an_init_container_is_one() -> None:
    pod = {"initContainers": [{"name": "warm", "resources": {"requests": {GPU: 1}}}], "containers": [{"name": "runner"}]}
    assert judge(RULE, RELEASE, scale_set(pod, minRunners=2)) == said(RUNNERS)


def test_a_launcher_that_waits_keeps_a_machine() -> None:
    waiting = changed(LAUNCHER, "values", "minRunners", 1)
    assert judge(RULE, RELEASE, waiting) == said(f"values.minRunners is 1: {WAITS} (its runners boot GPU machines)")
    assert judge(RULE, RELEASE, changed(waiting, *SHAPES, "")) == CLEAN, "standing machines are an instance pool"


def test_what_decides_must_be_known() -> None:
    assert judge(RULE, EKS, KEPT, unknown=MIN) == said(unknown=".".join(MIN))
    assert judge(RULE, EKS, SYSTEM, unknown=MIN) == CLEAN
    assert judge(RULE, EKS, RESERVED, unknown=("labels", "gpu-ci/capacity")) == said(unknown="labels.gpu-ci/capacity")
    assert judge(RULE, EKS, changed(SYSTEM, "labels", {}), unknown=("instanceTypes",)) == said(unknown="instanceTypes")
    assert judge(RULE, EKS, SPOT, unknown=("labels",)) == CLEAN
    found = judge(RULE, EKS, STARTED, unknown=MIN)
    assert found == said(EKS_STARTED, unknown=".".join(MIN)), "certain faults are reported before"


# -- the remedy --------------------------------------------------------------------------------------------------------


def test_the_numbers_become_what_is_allowed_and_all_else_stays() -> None:
    props = changed(changed(SPOT, *MIN, 3), *DESIRED, 3)
    assert remedied(RULE, EKS, props) == SPOT
    assert remedied(RULE, EKS, props, {"minAllowed": 2}) == changed(changed(SPOT, *MIN, 2), *DESIRED, 2)
    assert remedied(RULE, OKE, changed(V100, *SIZE, 2)) == V100
    assert remedied(RULE, RELEASE, WAITING) == changed(WAITING, "values", "minRunners", 0)


def test_what_is_no_number_is_left_to_its_owner() -> None:
    assert remedied(RULE, EKS, SPOT | {"warmPoolConfig": {"minSize": 1}}) is None
    assert remedied(RULE, KARPENTER, changed(NODE_POOL, *CONSOLIDATE, "Never")) is None


def test_what_may_be_reserved_is_not_mended() -> None:
    assert remedied(RULE, EKS, changed(RESERVED, "labels", "gpu-ci/capacity", UNKNOWN)) is None


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS, SPOT),
        Case(EKS, SYSTEM),
        Case(EKS, RESERVED),
        Case(EKS, KEPT, config={"minAllowed": 1}),
        Case(EKS, SPOT | {"warmPoolConfig": {"minSize": 1}}, config={"warmPool": True}),
        Case(OKE, V100),
        Case(KARPENTER, NODE_POOL),
        Case(ASG, GROUP),
        Case(RELEASE, scale_set(RUNNER)),
        Case(RELEASE, LAUNCHER),
        Case(RUNNER_SET, runner_set(RUNNER)),
        Case(RUNNER_SET_PATCH, runner_set(RUNNER)),
    ),
    violating=(
        Case(EKS, KEPT, (EKS_KEPT,)),
        Case(EKS, STARTED, (EKS_STARTED,)),
        Case(EKS, SPOT | {"warmPoolConfig": {"minSize": 1}}, (f"warmPoolConfig {WARM} {NVIDIA}",), unremedied=True),
        Case(OKE, changed(V100, *SIZE, 2), (f"nodeConfigDetails.size is 2: {KEEPS} {OKE_SIGN}",)),
        Case(
            KARPENTER,
            changed(NODE_POOL, *CONSOLIDATE, "Never"),
            (
                'spec.disruption.consolidateAfter is "Never": Karpenter must remove idle nodes; write a time, for example 5m '
                f"{KARPENTER_SIGN}",
            ),
            unremedied=True,
        ),
        Case(KARPENTER, changed(NODE_POOL, "spec", "replicas", 2), (f"spec.replicas is 2: {KEEPS} {KARPENTER_SIGN}",)),
        Case(
            ASG,
            GROUP | {"minSize": 1, "desiredCapacity": 1},
            (f"minSize is 1: {KEEPS} {ASG_SIGN}", f"desiredCapacity is 1: {STARTS} {ASG_SIGN}"),
        ),
        Case(ASG, GROUP | {"warmPool": {"poolState": "Running"}}, (f"warmPool {WARM} {ASG_SIGN}",), unremedied=True),
        Case(RELEASE, WAITING, (RUNNERS,)),
        Case(
            RELEASE,
            changed(LAUNCHER, "values", "minRunners", 1),
            (f"values.minRunners is 1: {WAITS} (its runners boot GPU machines)",),
        ),
        Case(RUNNER_SET, runner_set(RUNNER, minRunners=2), (RUNNERS.replace("values", "spec"),)),
        Case(RUNNER_SET_PATCH, runner_set(RUNNER, minRunners=2), (RUNNERS.replace("values", "spec"),)),
    ),
)
