"""Managed node groups: what the system pool and the GPU pools have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from fleet.facts import versions
from fleet.facts.scheduling import EKS_EFFECT, IDLE_DELAY_TAG, TEMPLATE, Taint
from fleet.facts.xid import GPU_CONDITION, REASONS
from fleet.providers.eks.schedules import Action
from fleet.providers.eks.warm import WarmPool
from fleet.settings.health import nodes_at_once
from fleet.settings.model import Scale

CUSTOM = "CUSTOM"
"""The type of an image of your own (EKS API, AMITypes)."""


@dataclass(frozen=True, slots=True)
class ManagedNodes:
    """What all node groups of a pool share. `cluster_name` depends on the control plane. `ready` must exist before.

    `template` is the pool's launch template. If it has an image id, `ami_type` is CUSTOM. `tags` are those of the node groups.
    `owner_tags` reach the instances. `idle_delay` is a Go duration, "" for the autoscaler's default. `reserved` says that a
    capacity reservation holds the machines. `warm` is the pool's warm pool, of which each group has a share. `time_zone` is
    that of scheduled actions. `repair_wait` are the seconds that a GPU error lasts before EKS repairs the node, None for nodes
    without a GPU. `max_unhealthy` is the share of a group's nodes above which EKS repairs none.
    """

    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    node_role_arn: pulumi.Input[str]
    ami_type: str
    capacity_type: str
    instance_types: Sequence[str]
    template: aws.ec2.LaunchTemplate
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    owner_tags: Mapping[str, str]
    ready: Sequence[pulumi.Resource]
    tags: Mapping[str, str] = field(default_factory=dict)
    idle_delay: str = ""
    reserved: bool = False
    warm: WarmPool | None = None
    time_zone: str | None = None
    repair_wait: int | None = None
    max_unhealthy: float = 1


def managed_nodes(
    name: str,
    args: ManagedNodes,
    subnet_ids: Sequence[pulumi.Input[str]],
    nodes: Scale,
    *,
    parent: pulumi.Resource,
    share: Scale | None = None,
    actions: Sequence[Action] = (),
) -> aws.eks.NodeGroup:
    """The node group `<name>-nodes` of a pool, with a pinned node image, and the tags of its Auto Scaling group.

    `share` are the least and the most machines of its warm pool, None if it has no share. `actions` are its scheduled actions.
    """
    group = aws.eks.NodeGroup(
        f"{name}-nodes",
        cluster_name=args.cluster_name,
        node_role_arn=args.node_role_arn,
        subnet_ids=list(subnet_ids),
        ami_type=args.ami_type,
        # EKS refuses a version, and every other type, beside an image id (pulumi/pulumi-eks#1283, #1463).
        version=None if args.ami_type == CUSTOM else args.kubernetes_version,
        release_version=None if args.ami_type == CUSTOM else versions.KUBERNETES[args.kubernetes_version].ami_release,
        capacity_type=args.capacity_type,
        instance_types=list(args.instance_types) or None,
        launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=args.template.id, version=args.template.latest_version.apply(str)),
        labels=dict(args.labels),
        taints=[
            aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=EKS_EFFECT[taint.effect]) for taint in args.taints
        ]
        or None,
        scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=nodes.min, max_size=nodes.max, desired_size=nodes.min),
        update_config=aws.eks.NodeGroupUpdateConfigArgs(
            max_unavailable=1,
            # By default the new node starts before the old one goes: a full reservation has no room for it.
            update_strategy="MINIMAL" if args.reserved else None,
        ),
        warm_pool_config=_warm_pool(args.warm, share) if args.warm is not None and share is not None else None,
        tags=dict(args.tags) or None,
        node_repair_config=_repair(args, nodes),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=list(args.ready),
            # The autoscaler owns the size. EKS sends minimum, maximum and size together, so a change of one of them would end an
            # open window. Scheduled actions therefore set the minimum and the maximum.
            ignore_changes=["scalingConfig" if actions else "scalingConfig.desiredSize"],
        ),
    )
    # Tags of a managed node group reach neither its Auto Scaling group (aws/containers-roadmap#608) nor its instances.
    scaling_group = group.resources.apply(_scaling_group)
    tags = dict(args.owner_tags) | ({IDLE_DELAY_TAG: args.idle_delay} if args.idle_delay else {})
    for key, value in tags.items():
        aws.autoscaling.Tag(
            f"{name}-tag-{key.removeprefix(TEMPLATE)}",
            autoscaling_group_name=scaling_group,
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=key != IDLE_DELAY_TAG),
            opts=pulumi.ResourceOptions(parent=parent),
        )
    for action in actions:
        aws.autoscaling.Schedule(
            f"{name}-schedule-{action.name}",
            autoscaling_group_name=scaling_group,
            scheduled_action_name=action.name,
            recurrence=action.recurrence,
            time_zone=args.time_zone,
            min_size=action.least,
            max_size=action.most,
            # The default is 0, and -1 leaves the size alone. EC2 raises it to a larger minimum; the autoscaler lowers it.
            desired_capacity=-1,
            opts=pulumi.ResourceOptions(parent=parent),
        )
    return group


def _repair(args: ManagedNodes, nodes: Scale) -> aws.eks.NodeGroupNodeRepairConfigArgs:
    """EKS replaces a node that stays unready, and repairs one whose GPU the monitoring agent reports broken.

    By default it has no limit for a group of five nodes, so a wrong report could replace all of them.
    """
    if args.repair_wait is None:
        return aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True)
    return aws.eks.NodeGroupNodeRepairConfigArgs(
        enabled=True,
        max_unhealthy_node_threshold_count=nodes_at_once(args.max_unhealthy, nodes.max),
        max_parallel_nodes_repaired_count=1,
        node_repair_config_overrides=[
            aws.eks.NodeGroupNodeRepairConfigNodeRepairConfigOverrideArgs(
                node_monitoring_condition=GPU_CONDITION,
                node_unhealthy_reason=row.reason,
                min_repair_wait_time_mins=args.repair_wait // 60,
                repair_action=row.ours,
            )
            for row in REASONS
        ],
    )


def _warm_pool(warm: WarmPool, share: Scale) -> aws.eks.NodeGroupWarmPoolConfigArgs:
    """The block enables the warm pool, and without it EKS removes the pool. Without a maximum EC2 would fill it."""
    return aws.eks.NodeGroupWarmPoolConfigArgs(
        min_size=share.min,
        max_group_prepared_capacity=share.max,
        pool_state=warm.state.upper(),
        reuse_on_scale_in=warm.reuse_on_scale_in,
    )


def _scaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str | None:
    """Name of the one Auto Scaling group that EKS makes; None where a simulated cloud reports none, which AWS would refuse."""
    return resources[0].autoscaling_groups[0].name if resources else None
