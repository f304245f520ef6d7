"""The bill that policies compute from a stack's resources is the plan's own, which is computed from its settings."""

from __future__ import annotations

import pulumi
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from components.build import build
from components.context import Context
from components.git import declare
from fleet.facts.pricing import Line, Money, average, total
from fleet.loading.config import fleet_of, load
from fleet.prove import bill as billing, placement
from fleet.providers.fleet import Fleet
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.providers.registry import PROVIDERS
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording, joined
from policies.rules import stack_cost_ceiling as cost
from policies.rules.groups import MACHINES
from policies.rules.read import Later
from policies.rules.rule import STACK_KINDS, Stack, StackRule
from tests import strategies, waiting
from tests.builders import cluster, config, oke_cluster, oke_pool, oke_runner, place, pool, runner, vm, vm_per_job
from tests.components.recorded import STACKS, build_alone, stack_config, whole
from tests.day import AS_OF
from tests.examples import SEARCHES


def sums(recording: Recording) -> tuple[Money, Money]:
    """(average without jobs, worst) as a policy of the pack reckons it, from what the judge hands it."""
    found: list[tuple[Money, Money]] = []

    def check(stack: Stack, later: Later) -> tuple[()]:
        found.append(cost.sums(cost.bill(stack.resources, stack.as_of, later)))
        return ()

    rule = StackRule(
        id="a-bill",
        section="Spot, cost and scale",
        order=0,
        title="a bill",
        severity="low",
        types=MACHINES | cost.UNITS,
        levels=dict.fromkeys(STACK_KINDS, "mandatory"),
        rationale="reckons the bill alone",
        source="https://example.com",
        fix="nothing to fix",
        check=check,
    )
    assert judge(recording, configure([rule], {}, AS_OF)) == (), "nothing of it is unknown in a plan"
    (both,) = found
    return both


def rented(fleet: Fleet) -> tuple[Line, ...]:
    """The lines of the plan's bill for machines that the stack creates.

    No policy can count the others: a bucket and a repository of images have no size.
    """
    creators = {name for name, provider in PROVIDERS.items() if provider.deployable} - {"kubernetes"}
    lines = [line for line in billing.bill(fleet, AS_OF) if not line.item.startswith(("build cache ", "registry images"))]
    return tuple(line for line in lines if fleet.clusters[line.cluster].provider in creators)


def assert_the_same(fleet: Fleet, recording: Recording) -> None:
    lines = rented(fleet)
    for reckoned, own in zip(sums(recording), (average(lines), total(lines)[1]), strict=True):
        assert reckoned.usd == pytest.approx(own.usd, abs=1e-6), "a cent is ten thousand times that"
        assert bool(reckoned.unknown) == bool(own.unknown)
        assert reckoned.at_most == own.at_most


@pytest.mark.parametrize("stack", STACKS)
def test_of_each_stack_the_bills_are_equal(stack: str) -> None:
    described = stack_config(stack)
    fleet = fleet_of(described)
    assert not total(billing.bill(fleet, AS_OF))[1].unknown, "an unknown price would make the sums incomparable"
    assert_the_same(fleet, whole(described))


def built(fleet: Fleet) -> Recording:
    """All resources of a fleet, built alone: those that are deployed, and those that Git has."""

    def deployed() -> None:
        build(fleet, "gpu-ci", "test", {"default": pulumi.Output.secret("a made-up key")})

    def of_git() -> None:
        declare(fleet, Context("gpu-ci", "test", {}))

    return joined(build_alone(deployed) if fleet.deployable else None, build_alone(of_git))


RESERVED = {"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 3}
HELD = {"id": "ocid1.capacityreservation.oc1..example", "zone": "abcd:US-SANJOSE-1-AD-1", "count": 5}
SMALL = {"cpu": {"request": 1, "limit": 1}, "memory": {"request": "2Gi", "limit": "2Gi"}, "shm": "1Gi", "scratch": "1Gi"}


def scheduled(key: str, count: int) -> dict[str, object]:
    """Schedules of one window, in which so many nodes or runners are kept."""
    window = {"days": ["mon", "fri"], "start": "08:00", "end": "20:00", key: count}
    return {"timeZone": "Asia/Tokyo", "windows": {"work": window}}


FLEETS = {
    "nodes that always run, types of several prices, a larger disk, reservations, NAT gateways, an own system pool": cluster(
        pools={
            "t4": pool(instanceTypes=["g4dn.2xlarge", "g4dn.8xlarge"], nodes={"min": 2, "max": 7}, disk="600Gi"),
            # A reservation that is larger than its pool.
            "kept": pool(capacity="reserved", role="release", reservation=RESERVED, nodes={"min": 0, "max": 2}),
            # The type is in the template.
            "block": pool(
                instanceTypes=["p5en.48xlarge"],
                capacity="capacity-block",
                role="release",
                reservation=RESERVED | {"id": "cr-0123456789abcdef1"},
                nodes={"min": 0, "max": 2},
            ),
        },
        network={"natGateways": "per-zone"},
        system={"instanceTypes": ["m5.large", "m5.2xlarge"], "nodes": {"min": 3, "max": 9}},
    ),
    "runners that wait on a pool without GPUs, beside one with": cluster(
        pools={
            "t4": pool(),
            "builds": pool(instanceTypes=["m6i.xlarge", "m6i.2xlarge"], nodes={"min": 0, "max": 5}),
            "quiet": pool(instanceTypes=["m5.xlarge"], nodes={"min": 1, "max": 2}),
        },
        runners={
            "gpu-t4": runner(),
            "cpu-build": runner(pool="builds", gpus=0, **SMALL, scale={"min": 5, "max": 8}),
            "cpu-lint": runner(pools=["builds", "quiet"], gpus=0, **SMALL, scale={"max": 6}, schedules=scheduled("runners", 4)),
        },
    ),
    "OCI: machines of each kind, some in another region, a reservation, caches": oke_cluster(
        system={"ocpus": 7, "memory": "96Gi", "nodes": 3},
        pools={
            "a10": oke_pool(capacity="reserved", role="release", reservation=HELD, nodes={"min": 1, "max": 2}),
            "ready": oke_pool(nodes={"min": 1, "max": 4}, placeholders=3),
        },
        runners={
            "standing": vm(count=3),
            "job": vm_per_job(places=[place(), place("us-ashburn-1")], scale={"min": 1, "max": 9}, disk="900Gi"),
            "pod": oke_runner(group="releases"),
            "waits": oke_runner(pool="ready", labels=["a"], **SMALL, scale={"min": 2, "max": 4}),
        },
        caches={
            "models": {"storage": "fss", "size": "900Gi", "namespaces": ["research", "speech"]},
            "work": {"storage": "block", "size": "300Gi", "namespaces": ["research"]},
            "fast": {"storage": "block", "size": "500Gi", "namespaces": ["speech", "vision"], "vpus": 20},
        },
    ),
    "a given network, and caches: a disk, an expensive disk, a file system, a workload's volume of a cache's class": cluster(
        network={"vpcId": "vpc-01234567", "privateSubnets": {"us-west-2a": "subnet-01234567", "us-west-2b": "subnet-89abcdef"}},
        caches={
            "models": {"storage": "efs", "size": "900Gi", "namespaces": ["research", "speech"]},
            "work": {"storage": "ebs", "size": "300Gi", "namespaces": ["research"]},
            "fast": {"storage": "ebs", "size": "500Gi", "namespaces": ["speech", "vision"], "throughput": 500},
        },
        workloads={
            "chat": {"kind": "ollama", "pool": "t4", "storage": {"size": "60Gi", "storageClass": "cache-work"}},
            "chat-2": {"kind": "ollama", "pool": "t4", "storage": {"size": "70Gi", "storageClass": "cache-models"}},
            "chat-3": {"kind": "ollama", "pool": "t4", "storage": {"size": "80Gi", "storageClass": "another"}},
        },
    ),
    "IOPS without a known price": cluster(
        caches={"fast": {"storage": "ebs", "size": "500Gi", "namespaces": ["speech"], "iops": 12000}}
    ),
    "capacity that waits": cluster(
        zones=["us-west-2a", "us-west-2b", "us-west-2c"],
        pools={
            "t4": pool(nodes={"min": 1, "max": 9}, placeholders=2, schedules=scheduled("nodes", 8)),
            "stopped": pool(
                instanceTypes=["g4dn.12xlarge"], nodes={"max": 5}, warm={"min": 1, "maxPrepared": 3, "state": "stopped"}
            ),
            "ready": pool(nodes={"min": 1, "max": 4}, warm={"min": 2, "maxPrepared": 4, "state": "running"}, placeholders=1),
            "spot": pool(instanceTypes=["g5.2xlarge"], capacity="spot", nodes={"max": 3}),
        },
        runners={
            "first": runner(labels=["a"], **SMALL, scale={"min": 2, "max": 6}, schedules=scheduled("runners", 5)),
            "second": runner(labels=["b"], **SMALL, pools=["ready", "stopped", "spot"], scale={"min": 3, "max": 4}),
            "third": runner(labels=["c"], **SMALL, pool="ready", scale={"max": 4}, schedules=scheduled("runners", 3)),
        },
    ),
}


@pytest.mark.parametrize("described", FLEETS.values(), ids=FLEETS)
def test_of_other_fleets_too(described: dict[str, object]) -> None:
    fleet = load(config(clusters={"here": described}))
    assert_the_same(fleet, built(fleet))


def test_of_two_clusters_each_has_the_price_of_its_own_region_and_a_class_of_its_own_with_the_others_name() -> None:
    plain = {"storage": "ebs", "size": "500Gi", "namespaces": ["speech"]}
    dear = plain | {"iops": 12000, "throughput": 1000}
    there = cluster(
        region="af-south-1", zones=["af-south-1a", "af-south-1b"], runners={"gpu-t4-af": runner()}, caches={"models": dear}
    )
    fleet = load(config(clusters={"usw2": cluster(caches={"models": plain}), "afs1": there}))
    assert_the_same(fleet, built(fleet))


few = settings(
    # Building a fleet takes half a second, so a failing one is shown as it was found.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@settings(few, max_examples=32 if SEARCHES else 2)
@given(strategies.configs())
def test_of_any_fleet(described: dict[str, object]) -> None:
    fleet = load(described)
    assume(not any(found.error for found in placement.place(fleet)))
    assert_the_same(fleet, built(fleet))


@settings(few, max_examples=200 if SEARCHES else 2)
@given(waiting.fleets())
def test_of_any_fleet_with_waiting_capacity(described: dict[str, object]) -> None:
    fleet = load(described)
    assert_the_same(fleet, built(fleet))


def test_the_flexible_shape_with_a_price_is_the_one_of_the_system_pool() -> None:
    assert set(cost._FLEXIBLE) == {FLEX_SHAPE}
