"""Node groups of an earlier generation, of a zone or of a pool that the settings do not have: they stay until their jobs end."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from components.eks.gpu_node_group import GpuNodeGroup
from components.eks.in_cluster import InCluster
from components.eks.live_sizes import scaling, sizes_of
from components.eks.managed_nodes import tag
from components.generations import logical_name, warn_leaving
from fleet.facts.scheduling import EKS_EFFECT, LEAVING
from fleet.settings.model import Scale

_AS_IT_IS = (
    *("amiType", "capacityType", "clusterName", "diskSize", "instanceTypes", "labels", "launchTemplate", "nodeRepairConfig"),
    *("nodeRoleArn", "releaseVersion", "remoteAccess", "subnetIds", "tags", "updateConfig", "version"),
)
"""All inputs of a node group but its sizes, its taints, its warm pool and its name."""


def leave(here: InCluster, pools: Mapping[str, GpuNodeGroup]) -> dict[str, list[aws.eks.NodeGroup]]:
    """Declare the stack's other node groups as they are, except that no new pod comes and that they shrink.

    One that has the taint since an earlier update, and has no node, is not declared: the engine deletes it. `pools` are those
    of the settings. Returns the leaving groups by pool.
    """
    leaving: dict[str, list[aws.eks.NodeGroup]] = {}
    if here.settings.replace_nodes == "evict":
        return leaving
    declared = {group.pulumi_resource_name for pool in pools.values() for group in pool.groups.values()}
    parents: dict[str, pulumi.Resource] = {**pools}
    templates = {pool.template.pulumi_resource_name for pool in pools.values()}
    for pool, zone, group in here.live.of_pools():
        if (name := logical_name(group.node_group_name)) in {"", *declared}:
            continue
        declared.add(name)
        if pool not in parents:
            # As below the pool before: the type is a part of their URNs.
            parents[pool] = pulumi.ComponentResource("gpu-ci:index:GpuNodeGroup", f"{here.name}-{pool}", {}, here.opts)
        leaving.setdefault(pool, []).append(_declare(here, name, zone, group, parents[pool], templates))
    return leaving


def _declare(
    here: InCluster, name: str, zone: str, group: aws.eks.GetNodeGroupResult, parent: pulumi.Resource, templates: set[str]
) -> aws.eks.NodeGroup:
    """Declare a leaving group, and its launch template unless it is one of `templates`, to which it is then added."""
    cluster, size, before = here.cluster, sizes_of(group).desired, [*here.cluster.before_nodes]
    warn_leaving(name, size)
    (template,) = group.launch_templates
    template_name = logical_name(template.name)
    for kept in (name, template_name):
        here.context.generations.keep(kept)
    if template_name not in templates:
        templates.add(template_name)
        before.append(aws.ec2.LaunchTemplate(template_name, opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["*"])))
    sizes, ignored = scaling(name, Scale.model_construct(min=0, max=0), here.live, before)
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in group.taints]
    mark = {"key": LEAVING.key, "value": LEAVING.value, "effect": EKS_EFFECT[LEAVING.effect]}
    made = aws.eks.NodeGroup(
        name,
        cluster_name=cluster.cluster_name,
        node_role_arn=cluster.node_role_arn,
        subnet_ids=[cluster.subnets[zone]] if zone in cluster.subnets else group.subnet_ids,
        **{key: getattr(group, key) for key in ("ami_type", "capacity_type", "instance_types", "tags")},
        labels={**group.labels},
        taints=[taint for taint in taints if taint["key"] != LEAVING.key] + [mark],
        launch_template={"id": template.id, "version": template.version},
        scaling_config=sizes,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=before, ignore_changes=[*_AS_IT_IS, *ignored]),
    )
    before_nodes, _, digits = name.rpartition("-nodes")
    tag(f"{before_nodes}{digits}", made, here.context.owner_tags, parent)
    return made
