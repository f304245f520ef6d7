"""The launch template of every EKS node, GPU or not, and what it can have besides disk and metadata options."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from fleet.providers.eks.efa import Interface
from fleet.providers.eks.placement_group import PlacementGroup
from fleet.providers.eks.root_disk import DiskPerformance


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of the nodes of one group.

    `image_id` is an AMI of your own. `user_data` is a MIME document, not base64. `capacity_block_type` is the instance type of a
    capacity block; the reservation's id is an argument of the template. `security_group_id` is for `interfaces`, the cluster's
    own group: it allows all traffic within itself in both directions, which EFA needs (EKS user guide, security group
    requirements). `placement_group` is a name. `disk` is the performance of the root disk, which `launch_template` writes.
    """

    image_id: str | None = None
    user_data: str | pulumi.Output[str] | None = None
    capacity_block_type: str | None = None
    interfaces: Sequence[Interface] = ()
    security_group_id: pulumi.Input[str] | None = None
    placement_group: pulumi.Input[str] | None = None
    disk: DiskPerformance | None = None


NO_OPTIONS = NodeOptions()


def template_inputs(options: NodeOptions) -> dict[str, Any]:
    """The inputs of a launch template for the options; None for each that is off."""
    return {
        "image_id": options.image_id,
        "user_data": _encoded(options.user_data),
        # EKS reads the type of a capacity block from the template, and refuses a second one on the group (EKS user guide, managed
        # node groups with Capacity Blocks).
        "instance_type": options.capacity_block_type,
        "instance_market_options": aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")
        if options.capacity_block_type
        else None,
        "network_interfaces": [_interface(interface, options.security_group_id) for interface in options.interfaces] or None,
        "placement": aws.ec2.LaunchTemplatePlacementArgs(group_name=options.placement_group) if options.placement_group else None,
    }


def _encoded(text: str | pulumi.Output[str] | None) -> pulumi.Input[str] | None:
    return text.apply(_base64) if isinstance(text, pulumi.Output) else _base64(text) if text else None


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def placement_group(name: str, group: PlacementGroup | None, *, parent: pulumi.Resource) -> pulumi.Input[str] | None:
    """The name of a pool's placement group: that of an existing one, or of the new one `<name>-placement`. None without one."""
    if group is None or group.name is not None:
        return group.name if group else None
    created = aws.ec2.PlacementGroup(
        f"{name}-placement",
        strategy=group.strategy,
        partition_count=group.partitions,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    group_name: pulumi.Output[str] = created.name
    return group_name


def _interface(interface: Interface, security_group: pulumi.Input[str] | None) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    """An interface without a subnet, which EKS sets. Of a template with interfaces, EC2 takes the security groups from them."""
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=interface.card,
        device_index=interface.device,
        interface_type=interface.type,
        security_groups=None if security_group is None else [security_group],
        delete_on_termination="true",
    )


def launch_template(
    logical_name: str,
    disk: int,
    tags: Mapping[str, str],
    reservation: str | None,
    *,
    parent: pulumi.Resource,
    options: NodeOptions = NO_OPTIONS,
) -> aws.ec2.LaunchTemplate:
    """IMDSv2 with one hop, so that no pod reads the node's credentials; an encrypted gp3 root volume of `disk` MiB.

    Instance types stay on the node group, except the one of a capacity block: in the template a spot pool could have one type
    only. `reservation` is the id of the only capacity reservation or block in which its machines run.
    EKS replaces every node of a pool whose template changes, so `tags` must never change: owner tags belong on the Auto Scaling
    groups.
    """
    return aws.ec2.LaunchTemplate(
        logical_name,
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
        ),
        block_device_mappings=[
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name="/dev/xvda",
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_size=disk // 1024,
                    volume_type="gp3",
                    throughput=options.disk.throughput if options.disk else None,
                    iops=options.disk.iops if options.disk else None,
                    encrypted="true",
                    delete_on_termination="true",
                ),
            )
        ],
        capacity_reservation_specification=_within(reservation) if reservation else None,
        # The provider's default tags do not reach the instances that EKS launches.
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(tags))
            for kind in ("instance", "volume", "network-interface")
        ],
        update_default_version=True,
        **template_inputs(options),
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _within(reservation: str) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs:
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_preference="capacity-reservations-only",
        capacity_reservation_target=aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
            capacity_reservation_id=reservation
        ),
    )
