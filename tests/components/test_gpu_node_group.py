"""The node group carries the taint, the labels and the tags by which the autoscaler knows a node before it exists."""

from __future__ import annotations

from typing import Any

import botocore.loaders
import pytest

from fleet.facts.hardware import machine
from fleet.facts.scheduling import EKS_EFFECT, RESERVED_NODES_TAG
from fleet.facts.versions import KUBERNETES
from fleet.facts.xid import HEALTHY
from fleet.loading.config import load
from fleet.providers.eks.cluster import EksCluster
from tests.builders import read_stack
from tests.components.recorded import in_every_stack, named, of_type, recorded
from tests.fleet.conformance import STACKS

POOL = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
RESERVED = "use1-a100-reserved-us-east-1a-nodes"


@pytest.fixture(scope="module")
def eks_model():
    return botocore.loaders.Loader().load_service_model("eks", "service-2")["shapes"]


@pytest.fixture
def spot(staging):
    return named(staging, "usw2-t4-spot-us-west-2a-nodes", POOL).inputs


def tags(recording, group):
    """Tags of a group's Auto Scaling group: key to value and whether new instances get it."""
    return {
        resource.inputs["tag"]["key"]: (resource.inputs["tag"]["value"], resource.inputs["tag"]["propagateAtLaunch"])
        for resource in of_type(recording, "aws:autoscaling/tag:Tag")
        if resource.name.startswith(f"usw2-{group}-tag-")
    }


def test_taint_is_spelled_as_the_eks_api_wants(spot):
    assert spot["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


@in_every_stack
def test_every_enum_is_one_that_eks_knows(recording, eks_model):
    for pool in of_type(recording, POOL):
        assert pool.inputs["amiType"] in eks_model["AMITypes"]["enum"]
        assert pool.inputs["capacityType"] in eks_model["CapacityTypes"]["enum"]
        for taint in pool.inputs.get("taints", []):
            assert taint["effect"] in eks_model["TaintEffect"]["enum"]


def test_effects_are_those_of_eks(eks_model):
    assert set(EKS_EFFECT.values()) == set(eks_model["TaintEffect"]["enum"])


def _gpus(instance_type: str) -> int:
    """GPUs of a type; 1 for "", the type of a template, because only capacity blocks have one there."""
    return machine(instance_type).gpus if instance_type else 1


def test_a_pool_without_gpus_tells_the_autoscaler_of_cpu_memory_and_disk_alone():
    (pool,) = [each for each in of_type(recorded("cpu-classes"), POOL) if each.name == "usw2-builds-us-west-2a-nodes"]
    prefix = "k8s.io/cluster-autoscaler/node-template/resources/"
    offered = {key.removeprefix(prefix): each for key, each in pool.inputs["tags"].items() if key.startswith(prefix)}
    assert offered.keys() == {"cpu", "memory", "ephemeral-storage"}
    assert offered["cpu"] == "7910m"
    assert pool.inputs["scalingConfig"]["minSize"] == 0


@in_every_stack
def test_gpu_pools_are_tainted_and_the_system_pool_is_not(recording):
    for pool in of_type(recording, POOL):
        is_system, is_gpu = pool.name.endswith("-system-nodes"), all(map(_gpus, pool.inputs.get("instanceTypes", ("",))))
        keys = [taint["key"] for taint in pool.inputs.get("taints") or ()]
        assert keys[:1] == ([] if is_system else ["nvidia.com/gpu"] if is_gpu else ["gpu-ci/cpu"]), pool.name
        assert pool.inputs["amiType"] == ("AL2023_x86_64_NVIDIA" if is_gpu else "AL2023_x86_64_STANDARD")


@in_every_stack
def test_the_autoscaler_owns_the_size(recording):
    for pool in of_type(recording, POOL):
        types = ("instanceTypes",) if pool.inputs.get("capacityType") == "SPOT" else ()
        assert pool.ignore_changes == ("scalingConfig.desiredSize", *types)
        assert pool.replacement_trigger == (sorted(pool.inputs["instanceTypes"]) if types else None)


@in_every_stack
def test_broken_nodes_are_repaired_and_images_pinned(recording):
    for pool in of_type(recording, POOL):
        assert pool.inputs["nodeRepairConfig"]["enabled"]
        row = KUBERNETES[pool.inputs["version"]]
        assert pool.inputs["releaseVersion"] == row.ami_release, "the image whose driver the settings were held to"


@in_every_stack
def test_eks_repairs_one_gpu_node_of_a_group_at_a_time_after_five_minutes_and_none_for_a_fault_of_a_job(recording, eks_model):
    for pool in of_type(recording, POOL):
        repair = pool.inputs["nodeRepairConfig"]
        if pool.name.endswith("-system-nodes"):
            assert repair == {"enabled": True}, "no GPU error can strike it"
            continue
        if not _gpus(pool.inputs.get("instanceTypes", ("",))[0]):
            assert "nodeRepairConfigOverrides" not in repair, "no GPU error can strike it"
            continue
        assert repair["maxParallelNodesRepairedCount"] == 1
        most = pool.inputs["scalingConfig"]["maxSize"]
        assert repair["maxUnhealthyNodeThresholdCount"] == max(1, -(-most // 5)), "a fifth of the group, rounded up"
        found = {each["nodeUnhealthyReason"]: each for each in repair["nodeRepairConfigOverrides"]}
        assert {each["nodeMonitoringCondition"] for each in found.values()} == {"AcceleratedHardwareReady"}
        assert {each["minRepairWaitTimeMins"] for each in found.values()} == {5}
        actions = {reason: each["repairAction"] for reason, each in found.items()}
        assert actions["NvidiaXID64Error"] == actions["NvidiaXID79Error"] == "Replace"
        assert actions["NvidiaXID48Error"] == "Reboot", "EKS' default"
        # A test that reads beyond its buffer would otherwise reboot the node under other jobs.
        assert (
            {reason for reason, action in actions.items() if action == "NoAction"}
            == set(HEALTHY)
            >= {
                "NvidiaXID13Error",
                "NvidiaXID31Error",
            }
        )
        assert set(actions.values()) <= set(eks_model["RepairAction"]["enum"])
        members = eks_model["NodeRepairConfigOverrides"]["members"]
        assert all(each.keys() == members.keys() for each in found.values()), "EKS needs all fields of an override"


def test_instance_types_stand_on_the_group_not_in_the_template(spot, staging):
    assert spot["instanceTypes"] == ["g4dn.2xlarge", "g4dn.4xlarge"]
    for template in of_type(staging, "aws:ec2/launchTemplate:LaunchTemplate"):
        assert "instanceType" not in template.inputs, "one type in the template makes a spot pool of one type"


@in_every_stack
def test_a_pool_has_a_node_group_in_each_zone_with_that_zones_subnet_and_its_share_of_the_nodes(recording):
    """Bill, quotas and placement reckon with the pool's own numbers."""
    fleet = load(read_stack(STACKS[recording.stack]))
    subnets = {
        resource.urn: resource.inputs["availabilityZone"]
        for resource in of_type(recording, "aws:ec2/subnet:Subnet")
        if "-private-" in resource.name
    }
    of_eks = [(name, settings) for name, settings in fleet.clusters_by_name() if isinstance(settings, EksCluster)]
    for cluster, settings in of_eks:
        for pool, held in settings.pools.items():
            found = {}
            for group in of_type(recording, POOL):
                if group.inputs["labels"].items() >= {"gpu-ci/pool": pool, "gpu-ci/cluster": cluster}.items():
                    (zone,) = {subnets[urn] for urn in group.dependencies if urn in subnets}
                    assert group.name == f"{cluster}-{pool}-{zone}-nodes"
                    assert len(group.inputs["subnetIds"]) == 1, "several subnets would be several zones, which AWS balances"
                    found[zone] = group.inputs["scalingConfig"]
            assert list(found) == list(settings.groups_of(held))
            assert sum(sizes["maxSize"] for sizes in found.values()) == held.nodes.max
            assert sum(sizes["minSize"] for sizes in found.values()) == held.nodes.min


def test_groups_of_a_pool_share_a_launch_template_and_differ_in_zone_and_sizes_alone(staging):
    shared: dict[str, Any] = {}
    for group in of_type(staging, POOL):
        (template,) = [urn for urn in group.dependencies if ":LaunchTemplate::" in urn]
        own = {key: value for key, value in group.inputs.items() if key not in ("scalingConfig", "subnetIds")}
        assert shared.setdefault(template, own) == own, "the autoscaler takes them for different pools"
    assert len(shared) == 4


def test_the_node_group_tells_the_autoscaler_what_the_smallest_type_offers(spot):
    # g4dn.2xlarge: 8000m - 90m; 32768Mi * 0.925 - (255 + 11 * 29) - 100; a tenth of 200Gi and 1Gi are kept.
    resources = {"nvidia.com/gpu": "1", "cpu": "7910m", "memory": "29636Mi", "ephemeral-storage": "183296Mi"}
    assert spot["tags"] == {f"{TEMPLATE}/resources/{key}": value for key, value in resources.items()}


def test_instances_get_the_owner_tags_through_the_auto_scaling_group_and_nothing_else(staging):
    owner = {"owner": "ci-platform", "cost-center": "ci", "stack": "staging", "ttl": "permanent"}
    propagated = {key: (value, True) for key, value in owner.items()}
    delay = f"{TEMPLATE}/autoscaling-options/scaledownunneededtime"
    for zone in ("us-west-2a", "us-west-2b", "us-west-2c"):
        assert tags(staging, f"t4-spot-{zone}") == propagated | {delay: ("5m0s", False)}, "the delay is the pool's own"
    assert tags(staging, "t4-release-us-west-2a") == propagated | {delay: ("10m0s", False)}
    assert tags(staging, "system") == propagated
    names = [tag.name for tag in of_type(staging, "aws:autoscaling/tag:Tag")]
    assert len(set(names)) == len(names)


@in_every_stack
def test_a_launch_template_has_fixed_tags_alone(recording):
    for template in of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate"):
        kinds = [each["resourceType"] for each in template.inputs["tagSpecifications"]]
        assert kinds == ["instance", "volume", "network-interface"]
        for each in template.inputs["tagSpecifications"]:
            assert set(each["tags"]) == {"gpu-ci/stack", "gpu-ci/cluster", "gpu-ci/pool"}, "a changed tag replaces every node"


def test_nodes_have_the_accelerator_label_and_the_plugins(spot):
    assert spot["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-tesla-t4", "a booting node would be bought twice"
    assert spot["labels"]["nvidia.com/gpu.present"] == "true", "the device plugin's affinity would match no node"


@in_every_stack
def test_templates_close_the_metadata_service_and_encrypt_the_disk(recording):
    templates = of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate")
    assert {name for group in of_type(recording, POOL) for name in group.dependencies if ":LaunchTemplate::" in name} == {
        template.urn for template in templates
    }
    for template in templates:
        assert template.inputs["metadataOptions"] == {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
        }
        (disk,) = template.inputs["blockDeviceMappings"]
        assert disk["ebs"]["encrypted"] == "true"
        assert disk["deviceName"] == "/dev/xvda"


def test_pools_fit_the_settings(staging):
    sizes = {pool.name: pool.inputs["scalingConfig"] for pool in of_type(staging, POOL)}
    assert [sizes[f"usw2-t4-spot-us-west-2{zone}-nodes"]["maxSize"] for zone in "abc"] == [2, 2, 1]
    assert "usw2-t4-release-us-west-2c-nodes" not in sizes, "two nodes are in two zones"
    assert sizes["usw2-system-nodes"] == {"minSize": 2, "maxSize": 4, "desiredSize": 2}


# -- reserved capacity -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ec2_model():
    return botocore.loaders.Loader().load_service_model("ec2", "service-2")["shapes"]


def test_a_reserved_pool_starts_machines_in_its_reservation_and_nowhere_else(reserved, ec2_model):
    (template,) = [
        found for found in of_type(reserved, "aws:ec2/launchTemplate:LaunchTemplate") if found.name == "use1-a100-reserved-launch"
    ]
    where = template.inputs["capacityReservationSpecification"]
    assert where == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"},
    }
    assert where["capacityReservationPreference"] in ec2_model["CapacityReservationPreference"]["enum"]
    assert named(reserved, RESERVED, POOL).inputs["capacityType"] == "ON_DEMAND", "EKS knows no reserved type"


def test_an_update_of_a_reserved_pool_needs_no_machine_beyond_its_reservation(reserved, eks_model):
    update = named(reserved, RESERVED, POOL).inputs["updateConfig"]
    assert update == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert update["updateStrategy"] in eks_model["NodegroupUpdateStrategies"]["enum"]
    assert named(reserved, "use1-a10g-us-east-1a-nodes", POOL).inputs["updateConfig"] == {"maxUnavailable": 1}


@in_every_stack
def test_no_other_pool_uses_a_reservation(recording):
    for template in of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate"):
        if template.name not in ("use1-a100-reserved-launch", "use2-h200-block-launch", "usw2-t4-reserved-launch"):
            assert "capacityReservationSpecification" not in template.inputs


def test_a_reserved_pool_stands_in_the_reservations_zone(reserved):
    names = [group.name for group in of_type(reserved, POOL) if "-a100-reserved-" in group.name]
    assert names == [RESERVED], "a reservation holds machines of one zone"
    assert named(reserved, RESERVED, POOL).inputs["tags"][RESERVED_NODES_TAG] == "1"
