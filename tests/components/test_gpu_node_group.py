"""The node group carries the taint, the labels and the tags by which the autoscaler knows a node before it exists."""

from __future__ import annotations

import botocore.loaders
import pytest

from fleet.facts.scheduling import EKS_EFFECT
from fleet.facts.versions import KUBERNETES
from tests.components.recorded import named, of_type

POOL = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


@pytest.fixture(scope="module")
def eks_model():
    return botocore.loaders.Loader().load_service_model("eks", "service-2")["shapes"]


@pytest.fixture
def spot(staging):
    return named(staging, "usw2-t4-spot-nodes", POOL).inputs


def tags(recording, pool):
    return {
        resource.inputs["tag"]["key"]: resource.inputs["tag"]["value"]
        for resource in of_type(recording, "aws:autoscaling/tag:Tag")
        if resource.name.startswith(f"usw2-{pool}-tag-")
    }


def test_taint_is_spelled_as_the_eks_api_wants(spot):
    assert spot["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


def test_every_enum_is_one_that_eks_knows(recording, eks_model):
    for pool in of_type(recording, POOL):
        assert pool.inputs["amiType"] in eks_model["AMITypes"]["enum"]
        assert pool.inputs["capacityType"] in eks_model["CapacityTypes"]["enum"]
        for taint in pool.inputs.get("taints", []):
            assert taint["effect"] in eks_model["TaintEffect"]["enum"]


def test_effects_are_those_of_eks(eks_model):
    assert set(EKS_EFFECT.values()) == set(eks_model["TaintEffect"]["enum"])


def test_gpu_pools_are_tainted_and_the_system_pool_is_not(recording):
    for pool in of_type(recording, POOL):
        is_gpu = not pool.name.endswith("-system-nodes")
        assert bool(pool.inputs.get("taints")) == is_gpu, f"{pool.name}: controllers need one untainted pool, GPU pools the taint"
        assert pool.inputs["amiType"] == ("AL2023_x86_64_NVIDIA" if is_gpu else "AL2023_x86_64_STANDARD")


def test_the_autoscaler_owns_the_size(recording):
    for pool in of_type(recording, POOL):
        assert pool.ignore_changes == ("scalingConfig.desiredSize",)


def test_broken_nodes_are_repaired_and_images_pinned(recording):
    for pool in of_type(recording, POOL):
        assert pool.inputs["nodeRepairConfig"] == {"enabled": True}
        row = KUBERNETES[pool.inputs["version"]]
        assert pool.inputs["releaseVersion"] == row.ami_release, "the image whose driver the settings were held to"


def test_instance_types_stand_on_the_group_not_in_the_template(spot, staging):
    assert spot["instanceTypes"] == ["g4dn.2xlarge", "g4dn.4xlarge"]
    for template in of_type(staging, "aws:ec2/launchTemplate:LaunchTemplate"):
        assert "instanceType" not in template.inputs, "one type in the template makes a spot pool of one type"


def test_autoscaler_tags_equal_what_the_kubelet_gets(spot, staging):
    found = tags(staging, "t4-spot")
    labels = {key.removeprefix(f"{TEMPLATE}/label/"): value for key, value in found.items() if "/label/" in key}
    assert labels == spot["labels"]
    assert found[f"{TEMPLATE}/taint/nvidia.com/gpu"] == "true:NoSchedule", "a bare effect is ignored by the autoscaler"


def test_autoscaler_tags_say_what_the_smallest_type_offers(staging):
    found = tags(staging, "t4-spot")
    resources = {key.removeprefix(f"{TEMPLATE}/resources/"): value for key, value in found.items() if "/resources/" in key}
    # g4dn.2xlarge: 8000m - 90m; 32768Mi * 0.925 - (255 + 11 * 29) - 100; a tenth of 200Gi and 1Gi are kept.
    assert resources == {"nvidia.com/gpu": "1", "cpu": "7910m", "memory": "29636Mi", "ephemeral-storage": "183296Mi"}


def test_labels_that_differ_by_a_slash_alone_are_two_tags(staging):
    names = [tag.name for tag in of_type(staging, "aws:autoscaling/tag:Tag")]
    assert "usw2-t4-spot-tag-label/nvidia.com/gpu.present" in names, "a/b and a-b must not be one resource"
    assert len(set(names)) == len(names)


def test_idle_delay_is_the_pools_own(staging):
    option = f"{TEMPLATE}/autoscaling-options/scaledownunneededtime"
    assert tags(staging, "t4-spot")[option] == "5m0s"
    assert tags(staging, "t4-release")[option] == "10m0s"


def test_nodes_have_the_accelerator_label_and_the_plugins(spot):
    assert spot["labels"]["k8s.amazonaws.com/accelerator"] == "nvidia-tesla-t4", "a booting node would be bought twice"
    assert spot["labels"]["nvidia.com/gpu.present"] == "true", "the device plugin's affinity would match no node"


def test_templates_close_the_metadata_service_and_encrypt_the_disk(recording):
    templates = of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate")
    assert len(templates) == len(of_type(recording, POOL))
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
    assert sizes["usw2-t4-spot-nodes"] == {"minSize": 0, "maxSize": 5, "desiredSize": 0}
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
    assert named(reserved, "use1-a100-reserved-nodes", POOL).inputs["capacityType"] == "ON_DEMAND", "EKS knows no reserved type"


def test_an_update_of_a_reserved_pool_needs_no_machine_beyond_its_reservation(reserved, eks_model):
    update = named(reserved, "use1-a100-reserved-nodes", POOL).inputs["updateConfig"]
    assert update == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert update["updateStrategy"] in eks_model["NodegroupUpdateStrategies"]["enum"]
    assert named(reserved, "use1-a10g-nodes", POOL).inputs["updateConfig"] == {"maxUnavailable": 1}


def test_no_other_pool_uses_a_reservation(recording):
    for template in of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate"):
        if template.name not in ("use1-a100-reserved-launch", "use2-h200-block-launch"):
            assert "capacityReservationSpecification" not in template.inputs


def test_a_reserved_pool_stands_in_the_reservations_zone(reserved):
    subnets = {
        resource.urn: resource.inputs["availabilityZone"]
        for resource in of_type(reserved, "aws:ec2/subnet:Subnet")
        if "-private-" in resource.name
    }
    zones = {
        name: {subnets[urn] for urn in named(reserved, name, POOL).dependencies if urn in subnets}
        for name in ("use1-a100-reserved-nodes", "use1-a10g-nodes")
    }
    assert zones["use1-a100-reserved-nodes"] == {"us-east-1a"}, "a reservation holds machines of one zone"
    assert zones["use1-a10g-nodes"] == {"us-east-1a", "us-east-1b", "us-east-1c"}
