"""Managed node groups: what the system pool and the GPU pools have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from components.eks.live_sizes import LiveSizes, scaling
from components.generations import Suffix
from components.unordered import require_items, unordered
from fleet.facts import versions
from fleet.facts.scheduling import EKS_EFFECT, IDLE_DELAY_TAG, TEMPLATE, Taint
from fleet.providers.eks.groups import Action
from fleet.settings.model import Scale

CUSTOM = "CUSTOM"
"""The type of an image of your own (EKS API, AMITypes)."""


def managed_nodes(
    name: str,
    subnet_ids: Sequence[pulumi.Input[str]],
    nodes: Scale,
    *,
    parent: pulumi.Resource,
    live: LiveSizes | None,
    ready: Sequence[pulumi.Resource],
    kubernetes_version: str,
    ami_type: str,
    instance_types: Sequence[str],
    template: aws.ec2.LaunchTemplate,
    labels: Mapping[str, str],
    taints: Sequence[Taint] = (),
    owner_tags: Mapping[str, str],
    idle_delay: str = "",
    actions: Sequence[Action] = (),
    time_zone: str | None = None,
    reserved: bool = False,
    suffix: Suffix = lambda *_: "",
    made_of: object = None,
    **inputs: Any,
) -> aws.eks.NodeGroup:
    """The node group `<name>-nodes` of a pool, with a pinned node image, and the tags of its Auto Scaling group.

    `live` are the sizes in AWS, None for a program that does not read them. `ready` must exist before. `template` is the pool's
    launch template. If it has an image id, `ami_type` is CUSTOM. `owner_tags` reach the instances. `idle_delay` is a Go duration,
    "" for the autoscaler's default. `actions` are its scheduled actions in `time_zone`. `reserved` says that a capacity
    reservation holds the machines. `suffix` says from the name and from what its nodes are made of how the name of the group's
    generation ends, and `made_of` is a part of that. `inputs` are further inputs of the group.
    """
    # EKS refuses a version, and every other type, beside an image id (pulumi/pulumi-eks#1283, #1463).
    machines: dict[str, Any] = {
        "subnet_ids": list(subnet_ids),
        "ami_type": ami_type,
        "version": None if ami_type == CUSTOM else kubernetes_version,
        "release_version": None if ami_type == CUSTOM else versions.KUBERNETES[kubernetes_version].ami_release,
        "instance_types": list(instance_types) or None,
    }
    is_spot = inputs.get("capacity_type") == "SPOT"
    fixed = {**machines, "spot": is_spot, "more": made_of} | ({"instance_types": sorted(instance_types)} if is_spot else {})
    logical_name = f"{name}-nodes" + suffix(f"{name}-nodes", fixed)
    name += logical_name.removeprefix(f"{name}-nodes")
    # EKS takes minimum, maximum and size together, so a change of one of them would end an open window. Scheduled actions
    # therefore set the minimum and the maximum.
    sizes, ignored = scaling(logical_name, nodes, None if actions else live, ready)
    options = pulumi.ResourceOptions(parent=parent, depends_on=[*ready], ignore_changes=["scalingConfig"] if actions else ignored)
    if is_spot:
        # EKS starts the spot type that has the most capacity, and on demand the first of the list.
        options = pulumi.ResourceOptions.merge(options, unordered("instanceTypes", instance_types))
    group = aws.eks.NodeGroup(
        logical_name,
        **machines,
        launch_template={"id": template.id, "version": template.latest_version.apply(str)},
        labels=dict(labels),
        taints=[{"key": taint.key, "value": taint.value, "effect": EKS_EFFECT[taint.effect]} for taint in taints] or None,
        scaling_config=sizes,
        # By default the new node starts before the old one goes: a full reservation has no room for it.
        update_config={"max_unavailable": 1, **({"update_strategy": "MINIMAL"} if reserved else {})},
        **inputs,
        opts=options,
    )
    if is_spot:
        require_items("instanceTypes", instance_types, group.urn, group.instance_types)
    tag(name, group, dict(owner_tags) | ({IDLE_DELAY_TAG: idle_delay} if idle_delay else {}), parent)
    for action in actions:
        called = {"autoscaling_group_name": group.resources.apply(_scaling_group), "scheduled_action_name": action.name}
        when = {"recurrence": action.recurrence, "time_zone": time_zone}
        # The default of the size is 0, and -1 leaves it alone. EC2 raises it to a larger minimum; the autoscaler lowers it.
        nodes_then = {"min_size": action.least, "max_size": action.most, "desired_capacity": -1}
        opts = pulumi.ResourceOptions(parent=parent)
        aws.autoscaling.Schedule(f"{name}-schedule-{action.name}", **called, **when, **nodes_then, opts=opts)
    return group


def tag(name: str, group: aws.eks.NodeGroup, tags: Mapping[str, str], parent: pulumi.Resource) -> None:
    """Tag the Auto Scaling group of a node group, and so its new instances.

    Tags of a managed node group reach neither its Auto Scaling group (aws/containers-roadmap#608) nor its instances.
    """
    scaling_group, opts = group.resources.apply(_scaling_group), pulumi.ResourceOptions(parent=parent)
    for key, value in tags.items():
        called = f"{name}-tag-{key.removeprefix(TEMPLATE)}"
        tagged = {"key": key, "value": value, "propagate_at_launch": key != IDLE_DELAY_TAG}
        aws.autoscaling.Tag(called, autoscaling_group_name=scaling_group, tag=tagged, opts=opts)


def _scaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str | None:
    """Name of the one Auto Scaling group that EKS makes; None where a simulated cloud reports none, which AWS would refuse."""
    return resources[0].autoscaling_groups[0].name if resources else None
