"""What a plan says of capacity blocks, EFA and options for faster starts, and the NodeConfig that nodeadm reads."""

from __future__ import annotations

import email
import json
from datetime import date
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter

from fleet.facts.errors import FleetError
from fleet.facts.hardware import machines
from fleet.facts.yaml_text import kubernetes_documents
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.providers.eks.node_config import NodeConfig, user_data
from fleet.providers.eks.nodes import EksPool
from fleet.providers.fleet import Fleet
from tests.builders import NODE_CONFIG, cluster, config, pool, reference
from tests.cases import cases

BLOCK = {"id": "cr-01234567", "zone": "us-west-2a", "count": 2}


def fleet(**changes: Any) -> Fleet:
    """A fleet with one pool of p5en.48xlarge and these changes of the pool."""
    return load(config(clusters={"usw2": cluster(pools={"t4": pool(instanceTypes=["p5en.48xlarge"], **changes)}, runners={})}))


def block(**reservation: Any) -> Fleet:
    return fleet(capacity="capacity-block", reservation=BLOCK | reservation)


def said_on(day: str, held: Fleet) -> list[str]:
    return [remark for remark in held.clusters["usw2"].remarks_on(date.fromisoformat(day)) if remark.startswith("pool t4")]


# -- remarks -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_capacity_block_is_a_remark_before_and_after() -> None:
    held = block(endDate="2026-12-19")
    assert said_on("2026-12-14", held) == [
        "pool t4: its capacity block ends on 2026-12-19; EKS removes its nodes 40 minutes before, also those that run a job, and "
        "afterwards no node starts"
    ]
    assert said_on("2026-12-20", held) == [
        "pool t4: its capacity block ended on 2026-12-19, and no node starts; change capacity and reservation"
    ]


def test_the_last_days_of_a_capacity_block_are_shorter_than_the_longest_job() -> None:
    held = block(endDate="2026-12-19")
    assert said_on("2026-12-15", held)[1:] == [
        "pool t4: its capacity block ends in 4 days, and a job may run for 5; set timeout-minutes so that its jobs end before"
    ]
    assert len(said_on("2026-12-19", held)) == 2
    reserved = fleet(capacity="reserved", reservation=BLOCK | {"endDate": "2026-12-19"})
    assert len(said_on("2026-12-19", reserved)) == 1, "its nodes go on as on-demand machines"


def test_the_end_of_a_reservation_is_a_remark_and_one_without_end_has_none() -> None:
    reserved = fleet(capacity="reserved", reservation=BLOCK | {"endDate": "2026-12-19"})
    assert said_on("2026-11-22", reserved) == ["pool t4: its reservation ends on 2026-12-19, and afterwards no node starts"]
    assert said_on("2026-11-22", block()) == []


def test_the_start_of_a_reservation_is_a_remark_until_that_day() -> None:
    ends = (
        "pool t4: its capacity block ends on 2027-03-20; EKS removes its nodes 40 minutes before, also those that run a job, and "
        "afterwards no node starts"
    )
    held = block(startDate="2027-03-13", endDate="2027-03-20")
    assert said_on("2027-03-12", held) == [
        "pool t4: its capacity block starts on 2027-03-13; until then no node starts and jobs wait",
        ends,
    ]
    assert said_on("2027-03-13", held) == [ends]
    assert said_on("2027-03-14", block(startDate="2027-03-13", endDate="2027-03-13")), "a block may start and end on one day"
    kept = fleet(capacity="reserved", reservation=BLOCK | {"startDate": "2027-03-13"}, nodes={"min": 1, "max": 2})
    assert said_on("2027-03-12", kept) == [
        "pool t4: its reservation starts on 2027-03-13; until then no node starts and jobs wait, and EC2 refuses the 1 of "
        "nodes.min; set it to 0 until that day"
    ]
    assert said_on("2027-03-13", kept) == []


def remarks_with(text: str, held: Fleet) -> list[str]:
    return [remark for remark in held.clusters["usw2"].remarks if text in remark]


def test_a_pool_of_p5_or_p6_on_demand_has_a_remark_and_other_ways_to_buy_have_none() -> None:
    assert remarks_with("hardly sells", fleet(capacity="on-demand")) == [
        "pool t4: AWS hardly sells p5en.48xlarge on demand, so its jobs may wait without end; buy a capacity block, or use a "
        "reservation (docs/capacity.md)"
    ]
    for other in (block(), fleet(capacity="reserved", reservation=BLOCK), fleet(capacity="spot")):
        assert remarks_with("hardly sells", other) == []
    a100 = load(config(clusters={"usw2": cluster(pools={"t4": pool(instanceTypes=["p4d.24xlarge"])}, runners={})}))
    assert remarks_with("hardly sells", a100) == [], "AWS sells P4d on demand"


def test_a_shared_reservation_says_who_pays_and_how_its_zone_is_called_here() -> None:
    (reserved,) = remarks_with("shares", fleet(capacity="reserved", reservation=BLOCK | {"owner": "210987654321"}))
    assert reserved.startswith(
        "pool t4: account 210987654321 shares cr-01234567 and pays for unused machines, but the bill here counts all machines; "
        "write the zone's name in your own account: "
    )
    (shared,) = remarks_with("shares", block(owner="210987654321"))
    assert "has paid for the block" in shared
    assert remarks_with("shares", block()) == []


@cases(
    ("region", "zone_id"),
    [("us-east-1", "use1-az3"), ("us-west-1", "usw1-az2"), ("ca-central-1", "cac1-az3"), ("us-west-2", None)],
)
def test_a_plan_names_the_zone_id_in_which_eks_creates_no_control_plane(region: str, zone_id: str | None) -> None:
    settings = cluster(region=region, zones=[f"{region}a", f"{region}b"], pools={}, runners={})
    said = remarks_with("EKS refuses a control plane", load(config(clusters={"usw2": settings})))
    expected = (
        f"zones: EKS refuses a control plane in zone id {zone_id}; find that zone's name in your account and leave it out: "
        f"aws ec2 describe-availability-zones --region {region} --query 'AvailabilityZones[].[ZoneName,ZoneId]'"
    )
    assert said == ([expected] if zone_id else [])


def test_a_plan_says_that_no_pod_gets_an_adapter_without_its_device_plugin() -> None:
    def remarks(held: Fleet) -> list[str]:
        return [remark for remark in held.clusters["usw2"].remarks if "vpc.amazonaws.com/efa" in remark]

    assert remarks(fleet(efaInterfaces=16)) == [
        "pool t4: no pod can request its EFA interfaces (vpc.amazonaws.com/efa) until you install AWS's EFA device plugin; "
        "gpu-ci does not install it"
    ]
    assert remarks(fleet()) == []


# -- options for faster starts -----------------------------------------------------------------------------------------

RAID0 = {"instance": {"localStorage": {"strategy": "RAID0"}}}


def of_start(*types: str, region: str = "us-west-2", **changes: Any) -> list[str]:
    """What a plan says of the pool's options for faster starts."""
    held = pool(instanceTypes=list(types), **changes)
    found = load(
        config(clusters={"usw2": cluster(region=region, zones=[f"{region}a", f"{region}b"], pools={"t4": held}, runners={})})
    )
    return [remark for remark in found.clusters["usw2"].remarks if remark.startswith("pool t4: ")]


def test_a_plan_says_once_for_a_pool_that_its_local_disks_are_unused() -> None:
    assert of_start("g4dn.4xlarge", "g4dn.2xlarge") == [
        "pool t4: 225 GB of local NVMe on g4dn.4xlarge are unused; nodeConfig.instance.localStorage RAID0 puts images there "
        "at no charge (no source says how many seconds that saves)"
    ]
    (smaller,) = of_start("g4dn.xlarge")
    assert "localStorage RAID0 with disk 116Gi or less puts images there" in smaller, "the plan refuses a larger disk with RAID0"
    assert of_start("p3.2xlarge") == [], "it has no local disk"
    assert of_start("g4dn.2xlarge", nodeConfig={"instance": {"localStorage": {"strategy": "Mount"}}}) == []


@pytest.mark.usefixtures("numbers")
def test_an_option_in_use_has_its_price_and_the_seconds_that_it_saves_and_a_free_one_has_no_remark() -> None:
    assert of_start("g4dn.2xlarge", nodeConfig=RAID0 | {"featureGates": {"FastImagePull": True}}) == []
    mount = {"instance": {"localStorage": {"strategy": "Mount"}}}
    fast: dict[str, Any] = {"diskPerformance": {"throughput": 417}, "nodeConfig": mount}
    assert of_start("g4dn.2xlarge", region="us-east-1", **fast) == [
        "pool t4: gp3, 417 MiB/s, 3000 IOPS costs 0.016 USD an hour per node and saves 0-143 s of writing 25 GiB (derived: bytes "
        "over throughput)"
    ]
    (unpriced,) = of_start("g4dn.2xlarge", **fast)
    assert "costs unknown USD an hour" in unpriced, "no source has the price in us-west-2"
    (unlimited,) = of_start("p3.2xlarge", region="us-east-1", diskPerformance={"throughput": 250})
    assert "saves unknown seconds (no source has the EBS limit)" in unlimited


def test_a_disk_with_the_performance_of_every_volume_costs_nothing_more() -> None:
    assert of_start("p3.2xlarge", diskPerformance={"throughput": 125, "iops": 3000}) == []


def test_the_throughput_of_images_is_the_least_of_disk_and_machine_and_an_array_has_no_figure() -> None:
    def reached(name: str, **changes: Any) -> int | None:
        held = load(config(clusters={"usw2": cluster(pools={"t4": pool(instanceTypes=[name], **changes)}, runners={})}))
        found = held.clusters["usw2"].pools["t4"]
        assert isinstance(found, EksPool)
        return found.disk_throughput(found.machines[0])

    assert reached("g4dn.2xlarge") == 125
    assert reached("g4dn.8xlarge", diskPerformance={"throughput": 1000, "iops": 4000}) == 1000
    assert reached("g4dn.8xlarge", nodeConfig=RAID0) is None
    on_root = {"instance": {"localStorage": {"strategy": "RAID0", "disabledMounts": ["Containerd"]}}}
    assert reached("g4dn.8xlarge", nodeConfig=on_root) == 125


def test_fast_image_pull_needs_600_mibs_on_every_type() -> None:
    gate = {"featureGates": {"FastImagePull": True}}
    fast = {"throughput": 600, "iops": 3000}
    assert of_start("g4dn.8xlarge", region="us-east-1", nodeConfig=gate, diskPerformance=fast), "EBS gives it 1,132 MiB/s"
    with pytest.raises(FleetError, match=r"images of g4dn.4xlarge are on a root disk of 566 \(EBS limit 566\)"):
        of_start("g4dn.8xlarge", "g4dn.4xlarge", nodeConfig=gate, diskPerformance=fast)
    soci = {"instance": {"localStorage": {"strategy": "RAID0", "disabledMounts": ["SOCI"]}}}
    with pytest.raises(FleetError, match="without Containerd and SOCI in disabledMounts"):
        of_start("g4dn.8xlarge", nodeConfig=soci | gate)


def test_nodeadm_ignores_fast_image_pull_on_no_gpu_type() -> None:
    small = [each.name for each in machines("aws") if each.gpus and (each.vcpus < 4 or each.memory_mib < 7 * 1024)]
    assert small == [], "below 4 vCPUs or 7 GiB a rule has to refuse the gate"


@pytest.mark.usefixtures("numbers")
def test_the_bill_counts_faster_disks_on_each_node() -> None:
    held = pool(instanceTypes=["g4dn.8xlarge"], nodes={"min": 1, "max": 3}, diskPerformance={"throughput": 1000, "iops": 4000})
    found = load(
        config(clusters={"use1": cluster(region="us-east-1", zones=["us-east-1a", "us-east-1b"], pools={"t4": held}, runners={})})
    )
    lines = {line.item: line for line in bill(found, date(2026, 11, 23))}
    # 875 MiB/s and 1,000 IOPS beyond the included ones, in USD a month.
    for item, each in (("disks, gp3-mibps", 875 * 0.04 / 730), ("disks, gp3-iops", 1000 * 0.005 / 730)):
        assert [lines[item].idle.usd, lines[item].worst.usd] == pytest.approx([each, 3 * each])


# -- nodeadm -----------------------------------------------------------------------------------------------------------


def node_config(settings: dict[str, Any]) -> NodeConfig:
    return TypeAdapter(NodeConfig).validate_json(json.dumps(settings))


def document(settings: dict[str, Any]) -> Any:
    message: Any = email.message_from_string(user_data(node_config(settings)))
    (part,) = message.get_payload()
    (found,) = kubernetes_documents("user data", part.get_payload())
    return found.value


def test_every_field_reaches_nodeadm_and_what_is_left_out_is_not_written() -> None:
    spec = document(NODE_CONFIG)["spec"]
    spelled = {"shutdownGracePeriod": "5m0s", "shutdownGracePeriodCriticalPods": "0m30s"}
    assert spec == NODE_CONFIG | {"kubelet": {"config": NODE_CONFIG["kubelet"]["config"] | spelled}}
    assert document({"featureGates": {}})["spec"] == {"featureGates": {"FastImagePull": False}}


@cases("settings", [NODE_CONFIG, *({key: value} for key, value in NODE_CONFIG.items())])
def test_nodeadms_schema_accepts_the_document(settings: dict[str, Any]) -> None:
    schema = json.loads(reference("starts/nodeconfig_v1alpha1.json").read_text(encoding="utf-8"))
    jsonschema.validate(document(settings), schema)
