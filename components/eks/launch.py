"""The launch template of every EKS node, GPU or not."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from components.eks.node_options import NO_OPTIONS, NodeOptions, template_inputs
from fleet.providers.oke.disk import disk_gb


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
                    volume_size=disk_gb(disk),
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
