"""Resources of a stack that are machines, or are paid by the hour: one small member of each kind, in regions with prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies.rules.kinds import (
    AUTO_SCALING_GROUP,
    EC2_INSTANCE,
    EKS_CLUSTER,
    EKS_COMPONENT,
    EKS_NODE_GROUP,
    KARPENTER_NODE_POOL,
    LAUNCH_TEMPLATE,
    NAT_GATEWAY,
    OCI_INSTANCE,
    OCI_INSTANCE_CONFIGURATION,
    OCI_INSTANCE_POOL,
    OKE_CLUSTER,
    OKE_NODE_POOL,
    RELEASE,
    SPOT_REQUEST,
)
from tests.policies.cases import Member, StackCase
from tests.policies.harness import REMOVE, changed
from tests.policies.pool_fixtures import GROUP as SCALING_GROUP_PROPS, LAUNCHER, LEAVING, MOST, NODE_POOL, PREEMPTIBLE

REGION, OCI_REGION = "us-west-2", "us-sanjose-1"
AWS = {"region": REGION}
OCI = {"region": OCI_REGION}
RESERVED_NODES = "gpu-ci/reserved-nodes"
ANNOTATIONS = ("values", "template", "metadata", "annotations")

TEMPLATE = Member(
    LAUNCH_TEMPLATE,
    "t4-launch",
    {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100, "volumeType": "gp3"}}]},
    provider=AWS,
)
T4 = Member(
    EKS_NODE_GROUP,
    "t4-nodes",
    {
        "capacityType": "SPOT",
        "instanceTypes": ["g4dn.2xlarge", "g4dn.4xlarge"],
        "labels": {"gpu-ci/cluster": "usw2", "gpu-ci/pool": "t4"},
        "launchTemplate": {"id": "lt-1", "version": "1"},
        "scalingConfig": {"minSize": 1, "maxSize": 5},
    },
    provider=AWS,
    property_depends={"launchTemplate": ("t4-launch",)},
)
"""One to five T4 on spot, with 100 GiB each."""
LEFT = replace(T4, name="t4-old", props={**T4.props, "taints": [LEAVING]})
"""The same ones of an earlier generation."""
RESERVED = Member(
    EKS_NODE_GROUP,
    "a100-nodes",
    {
        "capacityType": "ON_DEMAND",
        "diskSize": 40,
        "instanceTypes": ["p4d.24xlarge"],
        "labels": {"gpu-ci/capacity": "reserved"},
        "scalingConfig": {"minSize": 0, "maxSize": 1},
        "tags": {RESERVED_NODES: "2"},
    },
    provider=AWS,
)
"""Up to one machine of a reservation that holds two."""
BLOCK_TEMPLATE = Member(LAUNCH_TEMPLATE, "h200-launch", {"instanceType": "p5en.48xlarge"}, provider=AWS)
BLOCK = Member(
    EKS_NODE_GROUP,
    "h200-nodes",
    {
        "capacityType": "CAPACITY_BLOCK",
        "launchTemplate": {"id": "lt-2", "version": "1"},
        "scalingConfig": {"minSize": 0, "maxSize": 1},
        "tags": {RESERVED_NODES: "2", "gpu-ci/instance-type": "p5en.48xlarge"},
    },
    provider=AWS,
    property_depends={"launchTemplate": ("h200-launch",)},
)
"""Up to one machine of a capacity block that holds two."""
SYSTEM = Member(
    EKS_NODE_GROUP,
    "system-nodes",
    {"instanceTypes": ["m6i.large"], "diskSize": 50, "scalingConfig": {"minSize": 2, "maxSize": 4}},
    provider=AWS,
)
V100 = Member(
    OKE_NODE_POOL,
    "v100-nodes",
    {
        "nodeShape": "VM.GPU3.1",
        "freeformTags": {MOST: "4"},
        "initialNodeLabels": [{"key": "gpu-ci/pool", "value": "v100"}],
        "nodeConfigDetails": {"size": 1, "placementConfigs": [{"preemptibleNodeConfig": PREEMPTIBLE}]},
        "nodeSourceDetails": {"bootVolumeSizeInGbs": "400"},
    },
    provider=OCI,
)
FLEX = Member(
    OKE_NODE_POOL,
    "system-pool",
    {
        "nodeShape": "VM.Standard.E5.Flex",
        "nodeShapeConfig": {"ocpus": 2, "memoryInGbs": 16},
        "nodeConfigDetails": {"size": 3, "placementConfigs": [{"availabilityDomain": "AD-1"}]},
    },
    provider=OCI,
)
SCALING_GROUP = Member(AUTO_SCALING_GROUP, "asg", SCALING_GROUP_PROPS, provider=AWS)
NODE_POOLS = Member(KARPENTER_NODE_POOL, "karpenter", NODE_POOL)
"""Up to four GPUs of g5.xlarge or g5.2xlarge; its region is that of what else the stack has on AWS."""
BOX = Member(EC2_INSTANCE, "box", {"instanceType": "g5.xlarge", "rootBlockDevice": {"volumeSize": 80}}, provider=AWS)
SPOT_BOX = Member(SPOT_REQUEST, "spot-box", {"instanceType": "g5.xlarge"}, provider=AWS)
VM = Member(OCI_INSTANCE, "vm", {"shape": "VM.GPU.A10.2", "displayName": "bench"}, provider=OCI)
MACHINE = Member(
    OCI_INSTANCE_CONFIGURATION,
    "machine",
    {"instanceDetails": {"launchDetails": {"shape": "VM.GPU.A10.1", "sourceDetails": {"bootVolumeSizeInGbs": "400"}}}},
    provider=OCI,
)
STANDING = Member(
    OCI_INSTANCE_POOL,
    "pool",
    {"displayName": "a10-standing", "size": 2, "instanceConfigurationId": "ocid1.instanceconfiguration.oc1..example"},
    provider=OCI,
    property_depends={"instanceConfigurationId": ("machine",)},
)
LAUNCHERS = Member(
    RELEASE,
    "oracle-chart",
    changed(
        changed(LAUNCHER, "name", "oracle"),
        *ANNOTATIONS,
        {
            "gpu-ci/machine-shapes": "VM.GPU.A10.1,VM.GPU.A10.2",
            "gpu-ci/machine-capacity": "on-demand",
            "gpu-ci/machine-disk-gb": "300",
            "gpu-ci/machine-regions": "us-sanjose-1,us-ashburn-1",
        },
    ),
)
"""Up to four machines, each of the larger shape."""

NAT = Member(NAT_GATEWAY, "nat", {"subnetId": "subnet-1"}, provider=AWS)
CONTROL_PLANE = Member(EKS_CLUSTER, "raw", {"name": "raw"}, provider=AWS)
COMPONENT = Member(EKS_COMPONENT, "usw2", {"name": "usw2"})
OKE = Member(OKE_CLUSTER, "sjc", {"type": "ENHANCED_CLUSTER"}, provider=OCI)

ALL = (
    TEMPLATE,
    T4,
    RESERVED,
    SYSTEM,
    V100,
    FLEX,
    SCALING_GROUP,
    NODE_POOLS,
    BOX,
    SPOT_BOX,
    VM,
    MACHINE,
    STANDING,
    LAUNCHERS,
    NAT,
    CONTROL_PLANE,
    COMPONENT,
    OKE,
)


def but(member: Member, *path_and_value: Any) -> Member:
    """The member with another value at a path; without it where that is None."""
    *path, value = path_and_value
    return replace(member, props=changed(member.props, *path, REMOVE if value is None else value))


def elsewhere(member: Member, region: str) -> Member:
    """The member with a provider of another region; "" is one that says none."""
    return replace(member, provider={"region": region} if region else {})


def case(*members: Member, messages: Mapping[str, str] | None = None, **config: Any) -> StackCase:
    """A case of these members."""
    return StackCase(members, messages or {}, config)
