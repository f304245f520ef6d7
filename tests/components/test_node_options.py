"""Capacity blocks, EFA interfaces, placement groups and nodeadm settings are in the template as EC2 and EKS want them."""

from __future__ import annotations

import base64
import email
from typing import Any

import botocore.loaders
import pytest

from components.eks.launch import interfaces
from fleet.facts import hardware
from fleet.facts.yaml_text import kubernetes_documents
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import UNKNOWN
from tests.builders import cluster, pool
from tests.cases import cases
from tests.components.built import built
from tests.components.recorded import in_every_stack, named, of_type

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
PLACEMENT = "aws:ec2/placementGroup:PlacementGroup"
EFA_POOLS = [machine for machine in hardware.machines("aws") if machine.efa_interfaces]


@pytest.fixture(scope="module")
def ec2_model() -> dict[str, Any]:
    return dict(botocore.loaders.Loader().load_service_model("ec2", "service-2")["shapes"])


@pytest.fixture(scope="module")
def block(capacity_block: Recording) -> dict[str, Any]:
    return dict(named(capacity_block, "use2-h200-block-launch", TEMPLATE).inputs)


def of_pool(**changes: object) -> Recording:
    """A cluster with one pool of g4dn.8xlarge on demand in one zone, and these changes of the pool."""
    held = pool(instanceTypes=["g4dn.8xlarge"], zones=["us-west-2a"], **changes)
    return built(clusters={"usw2": cluster(pools={"t4": held}, runners={})})


def template(recording: Recording) -> dict[str, Any]:
    return dict(named(recording, "usw2-t4-launch", TEMPLATE).inputs)


# -- off by default ----------------------------------------------------------------------------------------------------


@in_every_stack
def test_a_pool_without_them_has_none_of_their_inputs(recording: Recording) -> None:
    if recording.stack == "capacity-block":
        return
    for found in of_type(recording, TEMPLATE):
        off = {"userData", "instanceType", "instanceMarketOptions", "networkInterfaces", "placement"}
        # The GPU pools of these stacks have nodeConfig.
        on = {"userData"} if recording.stack in ("staging", "prod") and "-system-" not in found.name else set()
        assert off & found.inputs.keys() == on, "an input here would replace every running node"
        for mapped in found.inputs["blockDeviceMappings"]:
            assert not {"throughput", "iops"} & mapped["ebs"].keys(), "an input here would replace every running node"
    assert of_type(recording, PLACEMENT) == ()


# -- capacity blocks ---------------------------------------------------------------------------------------------------


def test_a_capacity_block_is_the_market_and_the_only_reservation_of_its_template(
    block: dict[str, Any], ec2_model: dict[str, Any]
) -> None:
    assert block["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert block["instanceMarketOptions"]["marketType"] in ec2_model["MarketType"]["enum"]
    assert block["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"},
    }
    assert block["instanceType"] == "p5en.48xlarge", "EKS reads the type of a capacity block from the template"


def test_the_group_of_a_capacity_block_names_no_type_and_one_zone(capacity_block: Recording) -> None:
    (group,) = [each for each in of_type(capacity_block, GROUP) if each.inputs["labels"]["gpu-ci/pool"] == "h200-block"]
    assert group.inputs["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group.inputs, "EKS refuses a type on the group and in the template"
    assert {"gpu-ci/reserved-nodes": "2", "gpu-ci/instance-type": "p5en.48xlarge"}.items() <= group.inputs["tags"].items()
    assert group.inputs["labels"]["gpu-ci/capacity"] == "capacity-block"
    assert group.inputs["updateConfig"]["updateStrategy"] == "MINIMAL", "a full block has no room for another machine"
    zones = {
        subnet.inputs["availabilityZone"]
        for subnet in of_type(capacity_block, "aws:ec2/subnet:Subnet")
        if subnet.urn in group.dependencies
    }
    assert zones == {"us-east-2a"}, "a block is in one zone"


# -- EFA ---------------------------------------------------------------------------------------------------------------


def test_each_adapter_is_on_a_card_of_its_own_and_only_the_first_has_an_address(
    block: dict[str, Any], ec2_model: dict[str, Any]
) -> None:
    found = block["networkInterfaces"]
    assert [each["networkCardIndex"] for each in found] == list(range(16))
    assert [each["interfaceType"] for each in found] == ["efa", *["efa-only"] * 15]
    assert {each["interfaceType"] for each in found} <= set(ec2_model["NetworkInterfaceCreationType"]["enum"])
    assert [each["deviceIndex"] for each in found] == [0, *[1] * 15], "the primary interface of a machine has device index 0"
    assert all("subnetId" not in each for each in found), "EKS refuses a template that names a subnet"
    assert {each["deleteOnTermination"] for each in found} == {"true"}


def test_interfaces_have_the_clusters_own_security_group(capacity_block: Recording, block: dict[str, Any]) -> None:
    assert all(each["securityGroups"][0] is UNKNOWN for each in block["networkInterfaces"])
    launch = named(capacity_block, "use2-h200-block-launch", TEMPLATE)
    control_plane = named(capacity_block, "use2-control-plane", "eks:index:Cluster")
    assert control_plane.urn in launch.dependencies, "the group is an output of the control plane, known when that is created"


@cases("machine", EFA_POOLS)
def test_every_type_has_room_for_all_its_adapters(machine: hardware.Machine) -> None:
    found = interfaces(machine, machine.efa_interfaces, "sg-1")
    cards = [each["network_card_index"] for each in found]
    assert sum(each["interface_type"] != "interface" for each in found) == machine.efa_interfaces
    assert (cards[0], found[0]["device_index"]) == (0, 0)
    assert found[0]["interface_type"] != "efa-only", "the primary interface has an address"
    assert len(set(cards)) == len(found)
    assert max(cards) < machine.network_cards


def test_the_primary_card_of_p6_b300_has_no_adapter() -> None:
    first, second, *_ = interfaces(hardware.machine("p6-b300.48xlarge"), 16, "sg-1")
    assert (first["interface_type"], second["interface_type"], second["network_card_index"]) == ("interface", "efa-only", 1)


def test_nothing_says_that_nodes_offer_adapters(capacity_block: Recording) -> None:
    """The autoscaler would start a node for a pod that no device plugin lets run there."""
    keys = {tag.inputs["tag"]["key"] for tag in of_type(capacity_block, "aws:autoscaling/tag:Tag")}
    for group in of_type(capacity_block, GROUP):
        keys |= {*group.inputs.get("tags", {}), *group.inputs["labels"]}
    assert not [key for key in keys if "vpc.amazonaws.com/efa" in key]


# -- root disk ---------------------------------------------------------------------------------------------------------


def test_the_root_disk_has_its_throughput_and_iops_in_the_template() -> None:
    (mapped,) = template(of_pool(diskPerformance={"throughput": 600}))["blockDeviceMappings"]
    assert mapped["ebs"].items() >= {"volumeType": "gp3", "throughput": 600, "iops": 3000}.items()


# -- placement groups --------------------------------------------------------------------------------------------------


def test_a_pool_has_its_own_placement_group(capacity_block: Recording, ec2_model: dict[str, Any]) -> None:
    (group,) = of_type(capacity_block, PLACEMENT)
    assert (group.name, group.inputs) == ("use2-l40s-placement", {"strategy": "cluster"})
    assert group.inputs["strategy"] in ec2_model["PlacementStrategy"]["enum"]
    launch = named(capacity_block, "use2-l40s-launch", TEMPLATE)
    assert launch.inputs["placement"].keys() == {"groupName"}
    assert group.urn in launch.dependencies


@pytest.mark.parametrize(
    ("settings", "inputs"),
    [
        ({"strategy": "spread"}, {"strategy": "spread"}),
        ({"strategy": "partition", "partitions": 3}, {"strategy": "partition", "partitionCount": 3}),
    ],
)
def test_strategies_are_those_of_ec2(settings: dict[str, Any], inputs: dict[str, Any], ec2_model: dict[str, Any]) -> None:
    (group,) = of_type(of_pool(placementGroup=settings), PLACEMENT)
    assert group.inputs == inputs
    assert group.inputs["strategy"] in ec2_model["PlacementStrategy"]["enum"]


def test_an_existing_placement_group_is_used_and_not_created() -> None:
    recording = of_pool(placementGroup={"name": "near"})
    assert of_type(recording, PLACEMENT) == ()
    assert template(recording)["placement"] == {"groupName": "near"}


# -- nodeadm -----------------------------------------------------------------------------------------------------------


def test_user_data_is_a_mime_document_with_one_node_config(block: dict[str, Any]) -> None:
    message: Any = email.message_from_bytes(base64.b64decode(block["userData"], validate=True))
    assert message.get_content_type() == "multipart/mixed"
    (part,) = message.get_payload()
    assert part.get_content_type() == "application/node.eks.aws", "nodeadm reads parts of this type alone"
    (document,) = kubernetes_documents("user data", part.get_payload())
    assert document.value == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "kubelet": {"config": {"podPidsLimit": 16384, "cpuManagerPolicy": "static", "topologyManagerPolicy": "best-effort"}},
            "containerd": {
                "baseRuntimeSpec": {
                    "process": {"rlimits": [{"type": "RLIMIT_MEMLOCK", "soft": 17179869184, "hard": 17179869184}]}
                }
            },
            "instance": {"localStorage": {"strategy": "RAID0"}},
            "featureGates": {"FastImagePull": True},
        },
    }


def test_times_sizes_and_abbreviations_are_spelled_as_kubelet_reads_them() -> None:
    kubelet = {
        "shutdownGracePeriod": "5m",
        "containerLogMaxSize": "50Mi",
        "registryPullQPS": 20,
        "imageGCHighThresholdPercent": 90,
    }
    found = template(of_pool(nodeConfig={"kubelet": {"config": kubelet}}))
    text = base64.b64decode(found["userData"]).decode()
    spec = text[text.index("spec:") : text.index("--BOUNDARY--")]
    assert spec == (
        "spec:\n  kubelet:\n    config:\n      registryPullQPS: 20\n      imageGCHighThresholdPercent: 90\n"
        '      containerLogMaxSize: "50Mi"\n      shutdownGracePeriod: "5m0s"\n'
    )
