"""stack-cost-ceiling: the sum has every kind that is paid by the hour. A resource without a price is never free."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from fleet.facts.bill import assumption
from fleet.facts.hardware import Price, price, unit_price
from fleet.facts.scheduling import PER_NODE, POOL_LABEL, REGION as REGION_ANNOTATION, SCHEDULED_NODES_TAG
from fleet.facts.support import EKS_SUPPORT
from policies.rules.always import ALWAYS
from policies.rules.budget_alarm_required import AWS_BUDGET
from policies.rules.kinds import (
    ADDRESS,
    CLAIM,
    CONFIG_MAPS,
    EKS_CLUSTER,
    HELM,
    KMS_KEY,
    RELEASE,
    STORAGE_CLASS,
    UNPRICED,
)
from policies.rules.stack_cost_ceiling import BUDGETS, RULE
from tests.fleet.catalogue import in_use
from tests.policies.cases import Member, StackCase
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, config_of, default, judge_stack, urn
from tests.policies.machine_fixtures import (
    ALL,
    ANNOTATIONS,
    AWS,
    BOX,
    COMPONENT,
    CONTROL_PLANE,
    FLEX,
    LAUNCHERS,
    LEFT,
    MACHINE,
    NAT,
    NODE_POOLS,
    OCI_REGION,
    OKE,
    REGION,
    RESERVED,
    SCALING_GROUP,
    SPOT_BOX,
    STANDING,
    SYSTEM,
    T4,
    TEMPLATE,
    V100,
    VM,
    but,
    case,
    elsewhere,
)
from tests.policies.pool_fixtures import GPU, REQUIREMENTS
from tests.policies.suite import Suite

IDLE_USD, WORST_USD = default(RULE, "idleUsdPerHour"), default(RULE, "worstUsdPerHour")

UPDATED = T4
"""A group to which EKS adds nodes while it replaces some. The others of these tests get none."""
T4 = but(T4, "updateConfig", {"updateStrategy": "MINIMAL"})
Part = tuple[str, float, float]
"""Item, how many of it, USD an hour of one."""
HIGH = 10_000.0


def _usd(found: Price | None) -> float:
    assert found is not None, "the tables have this price"
    return found.usd_per_hour


def of(name: str, capacity: str = "on-demand", region: str = REGION) -> float:
    return _usd(price(name, region, capacity))


def unit(name: str, region: str = REGION) -> float:
    return _usd(unit_price(name, region))


def disks(gigabytes: float) -> Part:
    return "disks", gigabytes, unit("gp3-gb")


def volumes(gigabytes: float) -> Part:
    return "disks", gigabytes, unit("oci-volume-gb", OCI_REGION)


def cents(usd: float) -> float:
    """Rounded up, so that no limit of that amount refuses it."""
    return math.ceil(round(usd * 100, 4)) / 100


def _shown(usd: float) -> str:
    return f"{usd:.2f}" if usd >= 1 else f"{usd:.2g}"


def _spent(parts: tuple[Part, ...], lower: str, limit: str) -> str:
    largest = sorted(parts, key=lambda part: -part[1] * part[2])
    told = [f"{item} {count:g} × {_shown(each)} = {count * each:.2f}" for item, count, each in largest]  # noqa: RUF001
    more = f", and {len(told) - 4} more" if len(told) > 4 else ""
    return f"{', '.join(told[:4])}{more}; lower {lower} of one of these, or raise {config_of(RULE.id, limit)}"


def worst(*parts: Part, limit: float = 0.01, lower: str = "nodes.max") -> str:
    total = sum(count * each for _, count, each in parts)
    return f"worst hour {cents(total):.2f} USD is above {limit:.2f}: {_spent(parts, lower, 'worstUsdPerHour')}"


def idle(*parts: Part, limit: float = 0.01, lower: str = "nodes.min") -> str:
    total = sum(count * each for _, count, each in parts)
    month = f"{total * 730:.0f} a month"
    return f"hour without jobs {cents(total):.2f} USD ({month}) is above {limit:.2f}: {_spent(parts, lower, 'idleUsdPerHour')}"


def said(*members: Member, worst: float = HIGH, idle: float = HIGH) -> tuple[str, ...]:
    return judge_stack(RULE, members, {"worstUsdPerHour": worst, "idleUsdPerHour": idle}).messages


A10, A10_2 = of("VM.GPU.A10.1", region=OCI_REGION), of("VM.GPU.A10.2", region=OCI_REGION)
E5 = 2 * unit("oci-e5-ocpu", OCI_REGION) + 16 * unit("oci-e5-gb", OCI_REGION)
EKS_HOUR, OKE_HOUR = unit("eks-control-plane"), unit("oke-enhanced-cluster", OCI_REGION)
T4_SPOT = of("g4dn.4xlarge", "spot")

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
OBJECTS = {"kubeconfig": "{}"}
"""Properties of the provider of a cluster's objects, which names no region."""


def storage_class(name: str, provisioner: str, region: str = REGION, **parameters: str) -> Member:
    metadata = {"name": name} | ({"annotations": {REGION_ANNOTATION: region}} if region else {})
    props = {"metadata": metadata, "provisioner": provisioner, "parameters": parameters}
    return Member(STORAGE_CLASS, f"{name}-class", props, provider=OBJECTS)


def claim(name: str, of_class: str, size: str) -> Member:
    spec = {"storageClassName": of_class, "resources": {"requests": {"storage": size}}}
    return Member(CLAIM, name, {"metadata": {"name": name}, "spec": spec}, provider=OBJECTS)


EBS = storage_class("ebs", "ebs.csi.aws.com", type="gp3")
FAST = storage_class("fast", "ebs.csi.aws.com", "us-east-1", type="gp3", iops="4000", throughput="325")
EFS = storage_class("efs", "efs.csi.aws.com")
BLOCK = storage_class("block", "blockvolume.csi.oraclecloud.com", OCI_REGION, vpusPerGB="20")
FSS = storage_class("fss", "fss.csi.oraclecloud.com", OCI_REGION)
CLAIMS = (EBS, claim("work", "ebs", "500Gi"))


def of_claims(name: str, count: float, region: str = REGION) -> Part:
    return f"{name} of claims", count, unit(name, region)


FAST_DISK = {"volumeSize": 100, "volumeType": "gp3", "iops": 4000, "throughput": 400}
EAST = {"region": "us-east-1"}
FAST_TEMPLATE = replace(TEMPLATE, props={"blockDeviceMappings": [{"ebs": FAST_DISK}]}, provider=EAST)
T4_EAST = replace(T4, provider=EAST)


WORST: dict[str, tuple[tuple[Member, ...], tuple[Part, ...], str]] = {
    "an EKS group on its most expensive type": ((TEMPLATE, T4), (("usw2/t4", 5, T4_SPOT), disks(500)), "nodes.max"),
    "faster disks": (
        (FAST_TEMPLATE, T4_EAST),
        (
            ("usw2/t4", 5, of("g4dn.4xlarge", "spot", "us-east-1")),
            ("disks", 500, unit("gp3-gb", "us-east-1")),
            ("disks, gp3-iops", 5000, unit("gp3-iops", "us-east-1")),
            ("disks, gp3-mibps", 1375, unit("gp3-mibps", "us-east-1")),
        ),
        "nodes.max",
    ),
    "a reservation, paid whole": (
        (RESERVED,),
        (("a100-nodes", 2, of("p4d.24xlarge")), disks(40)),
        "the reservation's count",
    ),
    "an OKE pool, preemptible": (
        (V100,),
        (("v100", 4, of("VM.GPU3.1", "spot", OCI_REGION)), volumes(1600)),
        "nodes.max",
    ),
    "a flexible shape": ((FLEX,), (("system-pool", 3, E5), volumes(150)), "nodes.max"),
    "an Auto Scaling group": ((SCALING_GROUP,), (("asg", 4, of("g5.2xlarge", "spot")), disks(80)), "nodes.max"),
    "Karpenter, by its limit of GPUs": (
        (NODE_POOLS, NAT),
        (("a10g", 4, of("g5.2xlarge")), ("NAT gateways", 1, unit("nat-gateway"))),
        "spec.limits",
    ),
    "an EC2 instance": ((BOX,), (("box", 1, of("g5.xlarge")), disks(80)), "the number"),
    "a spot request": ((SPOT_BOX,), (("spot-box", 1, of("g5.xlarge", "spot")), disks(20)), "the number"),
    "an OCI instance": ((VM,), (("bench", 1, A10_2), volumes(50)), "the number"),
    "standing machines": ((MACHINE, STANDING), (("a10-standing", 2, A10), volumes(800)), "count"),
    "machines of launchers": ((LAUNCHERS,), (("oracle", 4, A10_2), volumes(1200)), "scale.max"),
    "NAT gateways": ((NAT, replace(NAT, name="nat-2")), (("NAT gateways", 2, unit("nat-gateway")),), "the number"),
    "addresses": (
        tuple(Member(ADDRESS, name, {"domain": "vpc"}, provider=AWS) for name in "abc"),
        (("public IPv4 addresses", 3, unit("public-ipv4")),),
        "the number",
    ),
    "keys, rotated twice": (
        tuple(Member(KMS_KEY, name, {"enableKeyRotation": True}, provider=AWS) for name in "abc"),
        (("KMS keys", 9, unit("kms-key")),),
        "the number",
    ),
    "a control plane of EKS": ((CONTROL_PLANE,), (("EKS control planes", 1, EKS_HOUR),), "the number"),
    "one of the component": (
        (COMPONENT, NAT),
        (("EKS control planes", 1, EKS_HOUR), ("NAT gateways", 1, unit("nat-gateway"))),
        "the number",
    ),
    "a control plane of OKE": ((OKE,), (("OKE control planes", 1, OKE_HOUR),), "the number"),
    "disks of claims": (CLAIMS, (of_claims("gp3-gb", 500),), "the number"),
    "faster ones": (
        (FAST, claim("one", "fast", "500Gi"), claim("two", "fast", "1Ti")),
        (
            of_claims("gp3-gb", 1524, "us-east-1"),
            of_claims("gp3-mibps", 400, "us-east-1"),
            of_claims("gp3-iops", 2000, "us-east-1"),
        ),
        "the number",
    ),
    "file systems of claims, when they are full": (
        (EFS, claim("models", "efs", "1Ti")),
        (of_claims("efs-gb", 1024),),
        "the number",
    ),
    "block volumes of claims": (
        (BLOCK, claim("work", "block", "500Gi")),
        (of_claims("oci-volume-gb", 500, OCI_REGION), of_claims("oci-vpu-gb", 5000, OCI_REGION)),
        "the number",
    ),
    "file systems of OCI": (
        (FSS, claim("models", "fss", "500Gi")),
        (of_claims("oci-fss-gb", 500, OCI_REGION),),
        "the number",
    ),
}


# -- the sum -----------------------------------------------------------------------------------------------------------


def test_a_message_tells_the_sum_the_limit_what_makes_it_and_what_to_do() -> None:
    release = replace(but(T4, "capacityType", "ON_DEMAND"), name="release")
    (message,) = said(TEMPLATE, T4, release, LAUNCHERS, NAT, worst=20)
    pulled = 10 * assumption("pull-gb") * unit("nat-gateway-gb")
    whole = 10 * of("g4dn.4xlarge") + 4 * A10_2 + pulled + unit("nat-gateway") + disks(1000)[2] * 1000 + volumes(1200)[2] * 1200
    assert message.startswith(f"worst hour {cents(whole):.2f} USD is above 20.00: oracle 4 × {A10_2:.2f} = ")  # noqa: RUF001
    raised = config_of(RULE.id, "worstUsdPerHour")
    assert message.endswith(f", and 3 more; lower scale.max or nodes.max of one of these, or raise {raised}")


def test_an_idle_hour_is_told_by_the_month() -> None:
    assert said(TEMPLATE, T4, idle=1) == (idle(("usw2/t4", 1, T4_SPOT), disks(100), limit=1),)


def test_what_is_idle_at_nothing_is_not_in_the_idle_hour() -> None:
    assert said(TEMPLATE, but(T4, "scalingConfig", "minSize", 0), idle=0) == ()


def test_a_group_that_leaves_counts_at_its_maximum_and_keeps_no_node() -> None:
    kept = {"warmPoolConfig": {"minSize": 2, "poolState": "RUNNING"}, "tags": {SCHEDULED_NODES_TAG: "Etc/UTC 4 mon 09:00-17:00"}}
    left = replace(LEFT, props={**LEFT.props, **kept})
    assert said(TEMPLATE, T4, left, idle=1) == said(TEMPLATE, T4, idle=1)
    (message,) = said(TEMPLATE, T4, left, worst=1)
    assert f"usw2/t4 (leaving) 5 × {T4_SPOT:.2f} = {cents(5 * T4_SPOT):.2f}" in message  # noqa: RUF001


def test_a_limit_may_be_reached() -> None:
    hour = 2 * unit("nat-gateway")
    pair = (NAT, replace(NAT, name="nat-2"))
    assert said(*pair, worst=hour, idle=hour) == ()
    assert len(said(*pair, worst=hour - 0.001, idle=hour - 0.001)) == 2


@in_use()
def test_the_defaults_are_modest() -> None:
    small = (TEMPLATE, but(T4, "scalingConfig", {"minSize": 0, "maxSize": 8}))
    assert judge_stack(RULE, small) == CLEAN
    large = (TEMPLATE, but(T4, "scalingConfig", {"minSize": 0, "maxSize": 9}))
    (message,) = judge_stack(RULE, large).messages
    assert f"is above {WORST_USD:.2f}: " in message
    (message,) = judge_stack(RULE, (but(SYSTEM, "scalingConfig", {"minSize": 6, "maxSize": 6}),)).messages
    assert f"is above {IDLE_USD:.2f}: " in message


# -- machines ----------------------------------------------------------------------------------------------------------


def test_a_reservation_counts_what_its_tag_says_idle_too_and_without_one_what_its_pool_may_use() -> None:
    hour = ("a100-nodes", 2, of("p4d.24xlarge"))
    assert said(RESERVED, idle=1) == (idle(hour, limit=1, lower="the reservation's count"),)
    untold = but(RESERVED, "tags", None)
    assert said(untold, idle=1) == (idle(("a100-nodes", 1, of("p4d.24xlarge")), limit=1, lower="the reservation's count"),)
    assert said(but(RESERVED, "labels", None), idle=1) == (), "the tag alone reserves nothing"


def test_running_machines_of_a_warm_pool_are_paid_idle_and_of_stopped_ones_the_disks() -> None:
    warm = {"minSize": 0.0, "maxGroupPreparedCapacity": 2.0, "poolState": "RUNNING"}
    two = (idle(("usw2/t4", 2, T4_SPOT), disks(200)),)
    closed = but(T4, "scalingConfig", "minSize", 0)
    of_warm = (idle(("warm usw2/t4", 2, T4_SPOT), disks(200)),)
    assert said(TEMPLATE, but(closed, "warmPoolConfig", warm), idle=0.01) == of_warm
    (message,) = said(TEMPLATE, but(T4, "warmPoolConfig", warm), idle=0.01)
    assert message.startswith(two[0].partition(":")[0]), "the node in the cluster is one of the two"
    stopped = but(closed, "warmPoolConfig", warm | {"poolState": "STOPPED"})
    assert said(TEMPLATE, stopped, idle=0.01) == (idle(disks(200), lower="the number"),)


def test_the_idle_hour_has_what_schedules_add_on_average_and_names_them() -> None:
    scheduled = but(T4, "tags", {SCHEDULED_NODES_TAG: "Europe/Berlin 4 mon+tue 09:00-17:00"})
    nodes = 1 + 3 * 16 / 168
    (message,) = said(TEMPLATE, scheduled, idle=0.01)
    assert message.startswith(f"hour without jobs {cents(nodes * T4_SPOT + nodes * disks(100)[1] * disks(100)[2]):.2f} USD")
    assert "; lower schedules of one of these" in message
    assert said(TEMPLATE, scheduled, worst=1) == said(TEMPLATE, T4, worst=1)


@pytest.mark.parametrize("tagged", ["1.5", "Europe/Berlin 4 mon", "Mars/Olympus 4 mon 09:00-17:00", "Europe/Berlin x mon 9-17"])
def test_schedules_that_nobody_can_read_are_undeterminable(tagged: str) -> None:
    verdict = judge_stack(RULE, (TEMPLATE, but(T4, "tags", {SCHEDULED_NODES_TAG: tagged})), {"idleUsdPerHour": HIGH})
    assert not verdict.messages
    assert verdict.undeterminable


def test_what_costs_money_and_has_no_price_is_undeterminable_and_never_within_the_limit() -> None:
    database = Member("aws:rds/instance:Instance", "db", {"instanceClass": "db.m5.large"}, provider=AWS)
    assert judge_stack(RULE, (database,)).undeterminable
    above = judge_stack(RULE, (TEMPLATE, T4, database), {"worstUsdPerHour": 1, "idleUsdPerHour": HIGH})
    assert above.messages == said(TEMPLATE, T4, worst=1), "the rest is above the limit without it"
    assert above.undeterminable


def test_eks_adds_nodes_while_it_replaces_some() -> None:
    node = T4_SPOT + disks(100)[1] * disks(100)[2]
    assert said(TEMPLATE, UPDATED, worst=1) == (worst(("usw2/t4", 5, T4_SPOT), ("update", 2, node), disks(500), limit=1),)


def _release(name: str, pool: str, **values: Any) -> Member:
    container = {"name": "runner", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"nodeSelector": {POOL_LABEL: pool}, "containers": [container]}
    template = {"metadata": {"annotations": values.pop("annotations", {})}, "spec": spec}
    props = {"chart": "gha-runner-scale-set", "namespace": f"runners-{name}", "values": {"template": template, **values}}
    return Member(RELEASE, name, props, provider=OBJECTS)


def _schedules(content: str) -> Member:
    return Member(CONFIG_MAP, "sweep", {"data": {"settings.json": content}}, provider=OBJECTS)


def test_runners_that_wait_keep_nodes_of_their_pool_and_share_them() -> None:
    closed = but(T4, "scalingConfig", "minSize", 0)
    three = {"minRunners": 3}
    assert said(TEMPLATE, closed, _release("a", "t4", **three), idle=1) == (idle(("usw2/t4", 3, T4_SPOT), disks(300), limit=1),)
    pairs = (
        _release("a", "t4", annotations={PER_NODE: "2"}, minRunners=3),
        _release("b", "t4", annotations={PER_NODE: "2"}, minRunners=1),
    )
    assert said(TEMPLATE, closed, *pairs, idle=1) == (idle(("usw2/t4", 2, T4_SPOT), disks(200), limit=1),)
    assert said(TEMPLATE, T4, _release("a", "t4", minRunners=1), idle=1) == said(TEMPLATE, T4, idle=1), "they wait on that node"
    assert said(TEMPLATE, closed, _release("a", "other", **three), idle=0) == (), "the stack pays no such pool"


@pytest.mark.parametrize(
    ("pool", "unknown"),
    [
        (but(T4, "labels", "gpu-ci/pool", UNKNOWN), "labels.gpu-ci/pool"),
        (but(V100, "initialNodeLabels", 0, UNKNOWN), "initialNodeLabels[0]"),
        (but(V100, "initialNodeLabels", 0, "value", UNKNOWN), "initialNodeLabels[0].value"),
    ],
)
def test_runners_that_wait_may_wait_in_a_pool_whose_name_is_unknown(pool: Member, unknown: str) -> None:
    named = _release("a", pool.name, minRunners=3)
    verdict = judge_stack(RULE, (TEMPLATE, pool, named), {"worstUsdPerHour": HIGH, "idleUsdPerHour": HIGH})
    assert (verdict.messages, verdict.unknown) == ((), unknown), "the resource's own name is none of a pool"
    config = {"worstUsdPerHour": HIGH, "idleUsdPerHour": 0.01}
    assert judge_stack(RULE, (TEMPLATE, pool, named), config).messages == judge_stack(RULE, (TEMPLATE, pool), config).messages


def test_the_windows_of_runners_are_read_from_the_sweep_that_opens_them() -> None:
    closed, runners = but(T4, "scalingConfig", "minSize", 0), _release("a", "t4")
    window = {"days": ["mon", "tue"], "start": "22:00", "end": "06:00", "runners": 4}
    found = {"usual": 0, "time_zone": "Europe/Berlin", "windows": {"night": window}}
    (message,) = said(TEMPLATE, closed, runners, _schedules(json.dumps({"sets": {"runners-a": found}})), idle=0.01)
    nodes = 4 * 16 / 168
    assert message.startswith(f"hour without jobs {cents(nodes * T4_SPOT + nodes * disks(100)[1] * disks(100)[2]):.2f} USD")
    broken = _schedules(json.dumps({"sets": {"runners-a": found | {"windows": {"night": {}}}}}))
    assert judge_stack(RULE, (TEMPLATE, closed, runners, broken), {"idleUsdPerHour": HIGH}).undeterminable


def test_a_disk_is_the_template_s_all_of_it_and_else_eks_s_own() -> None:
    two = but(TEMPLATE, "blockDeviceMappings", 1, {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "300"}})
    assert said(two, T4, worst=1) == (worst(("usw2/t4", 5, T4_SPOT), disks(2000), limit=1),)
    for bare in ({}, {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "noDevice": ""}]}):
        template = replace(TEMPLATE, props=bare)
        assert said(template, T4, worst=1) == (worst(("usw2/t4", 5, T4_SPOT), disks(100), limit=1),)


def test_a_template_that_is_depended_on_is_found_without_the_property() -> None:
    by_hand = replace(T4, property_depends={}, depends_on=("t4-launch",))
    assert said(TEMPLATE, by_hand, worst=1) == said(TEMPLATE, T4, worst=1)


def test_types_that_stand_in_the_template_are_read_there() -> None:
    template = but(TEMPLATE, "instanceType", "g5.xlarge")
    group = but(T4, "instanceTypes", None)
    assert said(template, group, worst=1) == (worst(("usw2/t4", 5, of("g5.xlarge", "spot")), disks(500), limit=1),)


def test_a_scaling_group_or_an_instance_may_have_it_all_from_a_template() -> None:
    template = but(TEMPLATE, "instanceType", "g5.2xlarge")
    behind = {"launchTemplate": ("t4-launch",)}
    group = replace(but(SCALING_GROUP, "mixedInstancesPolicy", None), property_depends=behind)
    assert said(template, group, worst=1) == (worst(("asg", 4, of("g5.2xlarge")), disks(400), limit=1),)
    spread = replace(SCALING_GROUP, property_depends=behind)
    assert said(template, spread, worst=1) == (worst(("asg", 4, of("g5.2xlarge", "spot")), disks(400), limit=1),)
    bare = replace(but(BOX, "instanceType", None), property_depends=behind)
    assert said(template, bare, worst=1) == (worst(("box", 1, of("g5.2xlarge")), disks(80), limit=1, lower="the number"),)
    own = replace(BOX, property_depends=behind)
    assert said(template, own, worst=1) == (worst(("box", 1, of("g5.xlarge")), disks(80), limit=1, lower="the number"),)


def test_runners_that_always_wait_have_their_machines() -> None:
    waiting = but(LAUNCHERS, "values", "minRunners", 2)
    assert said(waiting, idle=1) == (idle(("oracle", 2, A10_2), volumes(600), limit=1, lower="scale.min"),)


def test_a_pool_may_be_closed() -> None:
    assert said(TEMPLATE, but(T4, "scalingConfig", {"minSize": 0, "maxSize": 0}), worst=0) == ()


def test_an_oke_pool_that_mixes_ways_of_buying_is_on_demand() -> None:
    places = ("nodeConfigDetails", "placementConfigs")
    mixed = but(V100, *places, 1, {"availabilityDomain": "AD-2"})
    assert said(mixed, worst=1) == (worst(("v100", 4, of("VM.GPU3.1", region=OCI_REGION)), volumes(1600), limit=1),)


def test_an_oke_pool_without_an_autoscaler_has_its_size() -> None:
    fixed = but(V100, "freeformTags", None)
    assert said(fixed, worst=1) == (worst(("v100", 1, of("VM.GPU3.1", "spot", OCI_REGION)), volumes(400), limit=1),)


@pytest.mark.parametrize(
    ("capacity", "field", "value"),
    [
        ("spot", "preemptibleInstanceConfig", {"preemptionAction": {"type": "TERMINATE"}}),
        ("reserved", "capacityReservationId", "x"),
    ],
)
def test_standing_machines_have_the_price_of_their_capacity(capacity: str, field: str, value: Any) -> None:
    machine = but(
        but(MACHINE, "instanceDetails", "launchDetails", field, value), "instanceDetails", "launchDetails", "shape", "VM.GPU3.1"
    )
    (message,) = said(machine, STANDING, worst=1)
    assert f"a10-standing 2 × {_shown(of('VM.GPU3.1', capacity, OCI_REGION))} = " in message  # noqa: RUF001


def test_a_configuration_of_options_is_read_there() -> None:
    options = [{"launchDetails": {"shape": "VM.GPU.A10.1", "sourceDetails": {"bootVolumeSizeInGbs": "400"}}}]
    machine = replace(MACHINE, props={"instanceDetails": {"options": options}})
    assert said(machine, STANDING, worst=1) == said(MACHINE, STANDING, worst=1)


def test_karpenter_counts_nodes_where_they_are_limited() -> None:
    pool = but(NODE_POOLS, "spec", "limits", {"nodes": 3})
    assert said(pool, NAT, worst=1) == (
        worst(("a10g", 3, of("g5.2xlarge")), ("NAT gateways", 1, unit("nat-gateway")), limit=1, lower="spec.limits"),
    )


def test_karpenter_s_static_capacity_stands_idle_too() -> None:
    pool = but(
        NODE_POOLS, "spec", {key: value for key, value in NODE_POOLS.props["spec"].items() if key != "limits"} | {"replicas": 2}
    )
    hour = ("a10g", 2, of("g5.2xlarge")), ("NAT gateways", 1, unit("nat-gateway"))
    assert said(pool, NAT, worst=1, idle=1) == (
        worst(*hour, limit=1, lower="spec.limits"),
        idle(*hour, limit=1, lower="spec.replicas"),
    )


def test_runners_without_a_machine_of_their_own_cost_nothing_more() -> None:
    for member in (but(LAUNCHERS, *ANNOTATIONS, None), but(LAUNCHERS, "chart", "nginx")):
        assert said(member, worst=0) == ()


# -- not a machine -----------------------------------------------------------------------------------------------------


def test_a_component_and_its_child_are_one_control_plane() -> None:
    below = Member(EKS_CLUSTER, "child", CONTROL_PLANE.props, provider=AWS, parent="usw2")
    assert said(COMPONENT, NAT, below, worst=0) == said(COMPONENT, NAT, worst=0)


@pytest.mark.parametrize("outputs", [{}, {"kubeconfigJson": "{}"}])
def test_on_an_engine_the_child_of_a_component_has_the_price(outputs: dict[str, str]) -> None:
    hollow = replace(COMPONENT, props=outputs)
    below = Member(EKS_CLUSTER, "child", dict(CONTROL_PLANE.props) | {"version": "1.34"}, provider=AWS, parent="usw2")
    config = {"worstUsdPerHour": 0.0, "idleUsdPerHour": HIGH}
    first = EKS_SUPPORT["1.34"].standard_until
    for day, hour in ((first - timedelta(days=1), "EKS control planes 1 × 0.1"), (first, "in extended support 1 × 0.6")):  # noqa: RUF001
        (message,) = judge_stack(RULE, (hollow, below), config, as_of=day).messages
        assert hour in message
        assert "worst hour 0." in message, "once"


def test_a_cluster_that_may_be_cheaper_on_another_minor_says_so() -> None:
    old = replace(CONTROL_PLANE, props=dict(CONTROL_PLANE.props) | {"version": "1.30"})
    assert "or upgrade kubernetesVersion" in said(old, worst=0)[0]
    assert "upgrade" not in said(CONTROL_PLANE, worst=0)[0]


@pytest.mark.parametrize("version", [1.34, ["1.36"], "latest"])
def test_an_odd_version_is_never_too_cheap(version: Any) -> None:
    odd = replace(CONTROL_PLANE, props=dict(CONTROL_PLANE.props) | {"version": version})
    assert "EKS control planes in extended support" in said(odd, worst=0)[0]


def test_components_of_ours_are_not_counted_beside_their_children() -> None:
    ours = Member("gpu-ci:index:GpuNodeGroup", "ours", T4.props, provider=AWS)
    assert said(ours, worst=0) == ()


@pytest.mark.parametrize(
    ("version", "day", "item"),
    [
        ("1.34", date(2026, 12, 1), "eks-control-plane"),
        ("1.34", date(2026, 12, 2), "eks-control-plane-extended"),
        ("1.36", date(2026, 12, 2), "eks-control-plane"),
        (REMOVE, date(2026, 12, 2), "eks-control-plane"),
    ],
)
@pytest.mark.parametrize("of_eks", [COMPONENT, CONTROL_PLANE], ids=lambda member: member.token)
def test_a_control_plane_has_the_price_of_its_minor_on_the_day(of_eks: Member, version: Any, day: date, item: str) -> None:
    props = {key: value for key, value in (dict(of_eks.props) | {"version": version}).items() if value is not REMOVE}
    config = {"worstUsdPerHour": 0.0, "idleUsdPerHour": HIGH}
    (message,) = judge_stack(RULE, (replace(of_eks, props=props), NAT), config, as_of=day).messages
    extended = " in extended support" if item.endswith("extended") else ""
    assert f"EKS control planes{extended} 1 × {unit(item):.2g} = {unit(item):.2f}" in message  # noqa: RUF001


def test_a_component_has_the_region_of_what_depends_on_it() -> None:
    inside = replace(T4, depends_on=("usw2",))
    far = elsewhere(replace(NAT, name="far"), "af-south-1")
    (message,) = said(TEMPLATE, inside, COMPONENT, far)
    assert message.startswith("NAT gateways: no price of nat-gateway in af-south-1 is known"), "the control plane has one"


def test_where_the_region_is_one_of_several_the_dearest_counts() -> None:
    far = elsewhere(replace(NAT, name="far"), "af-south-1")
    unpriced = "in af-south-1 is known"
    assert any(f"EKS control planes: no price of eks-control-plane {unpriced}" in each for each in said(COMPONENT, NAT, far))
    pool = but(NODE_POOLS, "spec", "limits", {"nodes": 3})
    assert any(f"a10g: no price of g5.xlarge on-demand {unpriced}" in each for each in said(pool, NAT, far))


def test_a_basic_control_plane_of_oke_is_free() -> None:
    assert said(but(OKE, "type", "BASIC_CLUSTER"), but(replace(OKE, name="old"), "type", None), worst=0) == ()


def test_a_resource_s_own_region_goes_over_its_provider_s() -> None:
    here = elsewhere(but(NAT, "region", REGION), "af-south-1")
    assert said(here) == ()


def test_a_disk_of_a_claim_is_paid_idle_too_and_a_file_system_by_what_is_in_it() -> None:
    assert said(*CLAIMS, idle=0) == (idle(of_claims("gp3-gb", 500), limit=0, lower="the number"),)
    for each in (EFS, FSS):
        kind = each.props["metadata"]["name"]
        assert said(each, claim("models", kind, "1Ti"), idle=0) == ()


def test_a_claim_says_what_it_costs_only_with_its_class() -> None:
    for members in (
        (claim("work", "ebs", "500Gi"),),
        (EBS, claim("work", "gp2", "500Gi")),
        (EBS, but(claim("work", "ebs", "500Gi"), "spec", "storageClassName", None)),
        (EBS, but(claim("work", "ebs", "500Gi"), "spec", "resources", None)),
        (storage_class("ebs", "nfs.csi.k8s.io"), claim("work", "ebs", "500Gi")),
        (storage_class("", "ebs.csi.aws.com"), claim("work", "", "500Gi")),
        (EBS,),
    ):
        assert said(*members, worst=0) == ()


@in_use()
def test_a_class_that_names_no_region_has_that_of_the_stack() -> None:
    bare = storage_class("ebs", "ebs.csi.aws.com", "", type="gp3")
    work = claim("work", "ebs", "500Gi")
    parts = of_claims("gp3-gb", 500), ("NAT gateways", 1, unit("nat-gateway"))
    assert said(bare, work, NAT, worst=0.001) == (worst(*parts, limit=0.001, lower="the number"),)
    (message,) = said(bare, work)
    assert message.startswith("gp3-gb of claims: their provider has no region")


def test_a_class_says_gp3_by_saying_nothing_and_any_other_kind_has_its_own_price() -> None:
    work = claim("work", "ebs", "500Gi")
    assert said(storage_class("ebs", "ebs.csi.aws.com"), work, worst=0.01) == said(*CLAIMS, worst=0.01)
    (message,) = said(storage_class("ebs", "ebs.csi.aws.com", type="io2"), work)
    assert message.startswith("io2-gb of claims: no price of io2-gb in us-west-2 is known")
    (message,) = said(storage_class("ebs", "ebs.csi.aws.com", type="a\nb"), work)
    assert message.startswith("a\\nb-gb of claims: no price of a\\nb-gb in us-west-2 is known"), "it stays on its line"


# -- without a price ---------------------------------------------------------------------------------------------------

NOT_NOTHING = "is known; add it with source and date to fleet/facts/data/prices.csv"
NO_BOUND = "it has no maximum number of machines, so nothing limits its cost; set its maximum"
NO_TYPE = "no machine type is named, so its price is not known; name its types"
NO_REGION = "neither it nor its provider has a region, and prices differ by region; set the provider's region"
PRICELESS: dict[str, tuple[tuple[Member, ...], str, str]] = {
    "a type that is in no table": (
        (but(BOX, "instanceType", "g9.mega"),),
        f"box: no price of g9.mega on-demand in us-west-2 {NOT_NOTHING}, or use another type",
        "box",
    ),
    "one of several types": (
        (TEMPLATE, but(T4, "instanceTypes", 1, "g9.mega")),
        f"usw2/t4: no price of g9.mega spot in us-west-2 {NOT_NOTHING}, or use another type",
        "t4-nodes",
    ),
    "a flexible shape without sizes": (
        (but(FLEX, "nodeShapeConfig", None),),
        f"system-pool: no price of VM.Standard.E5.Flex on-demand in us-sanjose-1 {NOT_NOTHING}, or use another type",
        "system-pool",
    ),
    "one without its memory": (
        (but(FLEX, "nodeShapeConfig", "memoryInGbs", None),),
        f"system-pool: no price of VM.Standard.E5.Flex on-demand in us-sanjose-1 {NOT_NOTHING}, or use another type",
        "system-pool",
    ),
    "a region without prices": (
        (elsewhere(BOX, "af-south-1"),),
        f"box: no price of g5.xlarge on-demand in af-south-1 {NOT_NOTHING}, or use another type",
        "box",
    ),
    "no region": ((elsewhere(SPOT_BOX, ""),), f"spot-box: {NO_REGION}", "spot-box"),
    "no type": ((but(BOX, "instanceType", None),), f"box: {NO_TYPE}", "box"),
    "a pool of machines whose configuration is elsewhere": (
        (replace(STANDING, property_depends={}),),
        f"a10-standing: {NO_TYPE}",
        "pool",
    ),
    "no maximum": ((TEMPLATE, but(T4, "scalingConfig", "maxSize", None)), f"usw2/t4: {NO_BOUND}", "t4-nodes"),
    "a maximum that is none": ((but(V100, "freeformTags", {"gpu-ci/max-nodes": "many"}),), f"v100: {NO_BOUND}", "v100-nodes"),
    "runners without end": ((but(LAUNCHERS, "values", "maxRunners", None),), f"oracle: {NO_BOUND}", "oracle-chart"),
    "Karpenter without limits": ((but(NODE_POOLS, "spec", "limits", None), NAT), f"a10g: {NO_BOUND}", "karpenter"),
    "Karpenter without types": (
        (but(NODE_POOLS, *REQUIREMENTS, []), NAT),
        f"a10g: {NO_TYPE}",
        "karpenter",
    ),
    "Karpenter with a type without GPU below a limit of GPUs": (
        (but(NODE_POOLS, *REQUIREMENTS, 1, "values", 2, "m6i.large"), NAT),
        f"a10g: no price of g5.xlarge by the GPU {NOT_NOTHING}, or use another type",
        "karpenter",
    ),
    "a NAT gateway": (
        (elsewhere(NAT, "af-south-1"),),
        f"NAT gateways: no price of nat-gateway in af-south-1 {NOT_NOTHING}",
        "",
    ),
    "a control plane of no region": (
        (COMPONENT,),
        "EKS control planes: their provider has no region, and prices differ by region; set the provider's region",
        "",
    ),
    "a disk of another kind": (
        (but(BOX, "rootBlockDevice", "volumeType", "io2"),),
        f"disks: no price of io2-gb in us-west-2 {NOT_NOTHING}",
        "",
    ),
}


@pytest.mark.parametrize(("members", "message", "name"), PRICELESS.values(), ids=PRICELESS)
def test_what_has_no_price_is_a_violation_and_never_nothing(members: tuple[Member, ...], message: str, name: str) -> None:
    found = judge_stack(RULE, members, {"worstUsdPerHour": HIGH, "idleUsdPerHour": HIGH})
    assert message in found.messages
    named = next((urn(each.token, each.name) for each in members if each.name == name), "")
    assert dict(zip(found.messages, found.urns, strict=True))[message] == named


def test_a_limit_of_gpus_bounds_no_node_pool_of_others() -> None:
    pool = but(NODE_POOLS, "spec", "limits", {GPU: "some"})
    assert said(pool, NAT) == (f"a10g: {NO_BOUND}",)


# -- unknown -----------------------------------------------------------------------------------------------------------


def test_what_is_known_to_break_the_limit_is_told_though_more_is_unknown() -> None:
    unknown = but(LAUNCHERS, "values", "maxRunners", UNKNOWN)
    verdict = judge_stack(RULE, (TEMPLATE, T4, unknown), {"worstUsdPerHour": 1, "idleUsdPerHour": HIGH})
    assert verdict.messages == (worst(("usw2/t4", 5, T4_SPOT), disks(500), limit=1),)
    assert verdict.unknown == "values.maxRunners"


def test_names_may_be_unknown() -> None:
    unnamed = but(T4, "labels", "gpu-ci/pool", UNKNOWN)
    assert judge_stack(RULE, (TEMPLATE, unnamed), {"worstUsdPerHour": 1, "idleUsdPerHour": HIGH}).messages == (
        worst(("t4-nodes", 5, T4_SPOT), disks(500), limit=1),
    )


@pytest.mark.parametrize("member", [T4, V100, LAUNCHERS, STANDING, NODE_POOLS], ids=lambda member: member.name)
def test_a_region_that_is_unknown_is_not_taken_for_none(member: Member) -> None:
    members = (TEMPLATE, MACHINE, replace(NAT, provider={"region": UNKNOWN}), replace(member, provider={"region": UNKNOWN}))
    verdict = judge_stack(RULE, members, {"worstUsdPerHour": HIGH, "idleUsdPerHour": HIGH})
    assert not verdict.messages
    assert verdict.unknown


STAYING = (MACHINE, STANDING)
CLOSED = but(T4, "scalingConfig", "minSize", 0)
"""The pool without a node of its own: what always runs opens it."""


def _standing(token: str, replicas: int) -> Member:
    container = {"name": "pause", "resources": {"limits": {GPU: 1}}}
    pod = {"nodeSelector": {POOL_LABEL: "t4"}, "containers": [container]}
    name = f"placeholders-{token.partition(':')[2].replace('/', '-').replace(':', '-')}"
    return Member(token, name, {"spec": {"replicas": replicas, "template": {"spec": pod}}}, provider=OBJECTS)


def _sweep(token: str, runners: int, namespace: str) -> Member:
    """A sweep's settings without windows: so many runners always wait in the namespace."""
    found = {"usual": runners, "time_zone": "UTC", "windows": {}}
    data = {"data": {"settings.json": json.dumps({"sets": {namespace: found}})}}
    props = {"items": [{"data": {}}, data]} if token.endswith("List") else data
    return Member(token, f"sweep-{namespace}", props, provider=OBJECTS)


PODS = sorted(ALWAYS - HELM - CONFIG_MAPS)
RUNNERS = _release("a", "t4")


def _unpriced(token: str) -> StackCase:
    member = Member(token, "priceless", {"tags": {"team": "ml"}}, provider=AWS)
    reason = f"priceless: the table of prices has none of {token}"
    return case(NAT, member, messages={reason: ""}, worstUsdPerHour=HIGH, idleUsdPerHour=HIGH)


def budget(token: str, amount: Any, **props: Any) -> Member:
    return Member(token, "budget", {BUDGETS[token]: amount, **props})


def silent(token: str, amount: int, most: int) -> str:
    limit = config_of("stack-cost-ceiling", "worstUsdPerHour")
    return f"{BUDGETS[token]} is {amount}: it never rings, because the stack costs at most {most}; lower it, or raise {limit}"


@pytest.mark.parametrize(
    ("amount", "props", "rings"),
    [
        ("730", {}, True),
        ("731", {}, False),
        ("731", {"timeUnit": "QUARTERLY"}, True),
        ("8761", {"timeUnit": "ANNUALLY"}, False),
        ("30", {"timeUnit": "DAILY"}, False),
        ("99999999", {"budgetType": "USAGE"}, True),
    ],
)
def test_a_budget_rings_before_the_worst_month_is_paid(amount: str, props: dict[str, str], rings: bool) -> None:
    found = judge_stack(RULE, [budget(AWS_BUDGET, amount, **props)], {"worstUsdPerHour": 1})
    assert bool(found.messages) is not rings


SUITE = Suite(
    RULE,
    passing=(
        *(case(budget(token, 7300), worstUsdPerHour=10) for token in BUDGETS),
        case(*ALL, *CLAIMS, worstUsdPerHour=HIGH, idleUsdPerHour=HIGH),
        case(TEMPLATE, CLOSED, COMPONENT, NAT),
        case(*(each for members in (WORST["addresses"], WORST["keys, rotated twice"]) for each in members[0])),
        case(TEMPLATE, CLOSED, *(_standing(token, 0) for token in PODS)),
        case(TEMPLATE, CLOSED, RUNNERS, *(_sweep(token, 0, f"runners-{at}") for at, token in enumerate(sorted(CONFIG_MAPS)))),
    ),
    violating=(
        *(case(budget(token, 7301), messages={silent(token, 7301, 7300): "budget"}, worstUsdPerHour=10) for token in BUDGETS),
        *(
            case(*members, messages={worst(*parts, lower=lower): ""}, worstUsdPerHour=0.01, idleUsdPerHour=HIGH)
            for members, parts, lower in WORST.values()
        ),
        case(
            RESERVED,
            messages={
                worst(*WORST["a reservation, paid whole"][1], limit=WORST_USD, lower="the reservation's count"): "",
                idle(("a100-nodes", 2, of("p4d.24xlarge")), limit=IDLE_USD, lower="the reservation's count"): "",
            },
        ),
        case(elsewhere(SPOT_BOX, ""), messages={f"spot-box: {NO_REGION}": "spot-box"}),
        case(*STAYING, messages={idle(*WORST["standing machines"][1], limit=IDLE_USD, lower="count"): ""}),
        *(
            case(*always, messages={idle(("usw2/t4", 2, T4_SPOT), disks(200)): ""}, worstUsdPerHour=HIGH, idleUsdPerHour=0.01)
            for always in (
                *((TEMPLATE, CLOSED, _standing(token, 2)) for token in PODS),
                *((TEMPLATE, CLOSED, RUNNERS, _sweep(token, 2, "runners-a")) for token in sorted(CONFIG_MAPS)),
            )
        ),
    ),
    undeterminable=tuple(_unpriced(token) for token in sorted(UNPRICED)),
    unshown=UNPRICED,
)
