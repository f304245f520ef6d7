"""A managed node group with its launch template: what the system pool and the GPU pools have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.eks.launch import launch_template
from components.eks.node_options import NO_OPTIONS, NodeOptions
from fleet.facts import versions
from fleet.facts.scheduling import BLOCK_TYPE_TAG, EKS_EFFECT, RESERVED_NODES_TAG, Taint
from fleet.settings.model import Scale


@dataclass(frozen=True, slots=True)
class ManagedNodes:
    """A group of equal nodes. `cluster_name` depends on the control plane. `disk` is MiB. `ready` must exist before.

    `reservation` is the id of a capacity reservation, `reserved` the number of its machines.
    """

    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    node_role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    ami_type: str
    capacity_type: str
    instance_types: Sequence[str]
    disk: int
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    nodes: Scale
    tags: dict[str, str]
    ready: Sequence[pulumi.Resource]
    reservation: str | None = None
    reserved: int | None = None
    options: NodeOptions = NO_OPTIONS


def managed_nodes(name: str, args: ManagedNodes, *, parent: pulumi.Resource) -> aws.eks.NodeGroup:
    """The group `<name>-nodes` and its template `<name>-launch`, with a pinned node image."""
    template = launch_template(f"{name}-launch", args.disk, args.tags, args.reservation, parent=parent, options=args.options)
    return aws.eks.NodeGroup(
        f"{name}-nodes",
        cluster_name=args.cluster_name,
        node_role_arn=args.node_role_arn,
        subnet_ids=list(args.subnet_ids),
        ami_type=args.ami_type,
        version=args.kubernetes_version,
        release_version=versions.KUBERNETES[args.kubernetes_version].ami_release,
        capacity_type=args.capacity_type,
        instance_types=None if args.options.capacity_block_type else list(args.instance_types),
        launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str)),
        labels=dict(args.labels),
        taints=[
            aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=EKS_EFFECT[taint.effect]) for taint in args.taints
        ]
        or None,
        scaling_config=aws.eks.NodeGroupScalingConfigArgs(
            min_size=args.nodes.min, max_size=args.nodes.max, desired_size=args.nodes.min
        ),
        update_config=aws.eks.NodeGroupUpdateConfigArgs(
            max_unavailable=1,
            # By default the new node starts before the old one goes: a full reservation has no room for it.
            update_strategy="MINIMAL" if args.reservation else None,
        ),
        tags=_tags(args) or None,
        # Replaces a node that stays unready, or whose GPU the monitoring agent reports broken.
        node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(args.ready),
            # The autoscaler owns the size.
            ignore_changes=["scalingConfig.desiredSize"],
        ),
    )


def _tags(args: ManagedNodes) -> dict[str, str]:
    """What policies read of a group in a reservation or capacity block."""
    reserved = {} if args.reserved is None else {RESERVED_NODES_TAG: str(args.reserved)}
    return reserved | ({BLOCK_TYPE_TAG: args.options.capacity_block_type} if args.options.capacity_block_type else {})
