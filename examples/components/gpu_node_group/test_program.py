"""A unit test of the program in this folder, without cloud, cluster and Pulumi's CLI. Run `pytest` in this folder."""

import json
import runpy
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpu_ci.components.eks import GpuNodeGroup, GpuNodeGroupArgs

CONFIG = {
    "clusterName": "theirs",
    "nodeRoleArn": "arn:aws:iam::123456789012:role/nodes",
    "subnetIds": json.dumps({"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "subnet-0123456789abcdef1"}),
}
POOL: GpuNodeGroupArgs = {
    "cluster_name": "theirs",
    "kubernetes_version": "1.34",
    "node_role_arn": CONFIG["nodeRoleArn"],
    "subnet_ids": {"us-west-2a": "subnet-0123456789abcdef0"},
    "instance_types": ["g6.2xlarge"],
    "max_nodes": 4,
}


class Cloud(pulumi.runtime.Mocks):
    """Creates whatever a program declares, and keeps its inputs."""

    def __init__(self) -> None:
        self.declared: list[pulumi.runtime.MockResourceArgs] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Pulumi asks for the id and the outputs of a resource."""
        self.declared.append(args)
        return f"{args.name}-id", args.inputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        """Pulumi asks for the result of a function of a provider, and its failures."""
        return {}, None


@pytest.fixture(autouse=True)
def cloud() -> Cloud:
    """A new cloud for each test."""
    cloud = Cloud()
    pulumi.runtime.set_mocks(cloud, project="gpu-node-group", stack="dev")
    pulumi.runtime.set_all_config({f"gpu-node-group:{key}": value for key, value in CONFIG.items()})
    return cloud


def test_the_pool_has_on_demand_nodes_in_both_zones(cloud: Cloud) -> None:
    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def run() -> None:
        runpy.run_path(str(Path(__file__).with_name("__main__.py")))

    run()
    groups = [resource.inputs for resource in cloud.declared if resource.typ == "aws:eks/nodeGroup:NodeGroup"]
    # Pulumi registers them in any order.
    assert {subnet for group in groups for subnet in group["subnetIds"]} == set(json.loads(CONFIG["subnetIds"]).values())
    assert {group["capacityType"] for group in groups} == {"ON_DEMAND"}
    assert sum(group["scalingConfig"]["maxSize"] for group in groups) == 4


def test_a_misspelled_instance_type_fails() -> None:
    with pytest.raises(pulumi.InputPropertyError, match=r"instanceTypes.*did you mean g6\.2xlarge"):
        GpuNodeGroup("l4", {**POOL, "instance_types": ["g6.2xlarg"]})


def test_a_pool_without_nodes_or_zones_fails() -> None:
    with pytest.raises(pulumi.InputPropertyError, match="maxNodes: must be at least 1"):
        GpuNodeGroup("l4", {**POOL, "max_nodes": 0})
    with pytest.raises(pulumi.InputPropertyError, match=r"subnetIds: .*add a subnet"):
        GpuNodeGroup("l4", {**POOL, "subnet_ids": {}})
