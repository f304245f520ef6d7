"""A GPU pool on EKS: one managed node group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component
from components.eks.managed_nodes import ManagedNodes, managed_nodes
from components.eks.node_options import NodeOptions, placement_group
from fleet.facts.hardware import CAPACITY_BLOCK
from fleet.facts.offer import allocatable, least
from fleet.facts.scheduling import EKS_PROFILE, GPU_RESOURCE, TEMPLATE, autoscaler_tags
from fleet.providers.eks.efa import interfaces
from fleet.providers.eks.node_config import user_data
from fleet.providers.eks.nodes import EksPool
from fleet.settings.model import cpu_text, go_duration

CAPACITY_TYPE = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "ON_DEMAND", "capacity-block": "CAPACITY_BLOCK"}
"""Our capacity types in the EKS API's spelling; machines in a capacity reservation are bought on demand."""


@dataclass(frozen=True, slots=True)
class GpuNodeGroupArgs:
    """`cluster_name` must carry its dependency on the control plane; `ready` are the add-ons and rights a node needs to join.

    `security_group_id` is the cluster's own security group; only a pool with EFA interfaces needs it.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    node_role_arn: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    pool_name: str
    pool: EksPool
    tags: dict[str, str]
    ready: Sequence[pulumi.Resource]
    security_group_id: pulumi.Input[str] | None = None


class GpuNodeGroup(Component[GpuNodeGroupArgs]):
    """A launch template, a node group with the GPU taint, and the tags by which the autoscaler knows a node before it exists."""

    node_group_name: pulumi.Output[str]
    """Physical name of the node group."""

    def declare(self, name: str, args: GpuNodeGroupArgs) -> dict[str, Any]:
        pool = args.pool
        labels = pool.node_labels(args.cluster, args.pool_name, EKS_PROFILE)
        group = managed_nodes(
            name,
            ManagedNodes(
                cluster_name=args.cluster_name,
                kubernetes_version=args.kubernetes_version,
                node_role_arn=args.node_role_arn,
                subnet_ids=args.subnet_ids,
                ami_type="AL2023_x86_64_NVIDIA",
                capacity_type=CAPACITY_TYPE[pool.capacity],
                instance_types=pool.instance_types,
                disk=pool.disk,
                labels=labels,
                taints=(EKS_PROFILE.gpu_taint,),
                nodes=pool.nodes,
                tags=args.tags,
                ready=args.ready,
                reservation=pool.reservation.id if pool.reservation else None,
                reserved=pool.reservation.count if pool.reservation else None,
                options=NodeOptions(
                    user_data=user_data(pool.node_config) if pool.node_config else None,
                    capacity_block_type=pool.instance_types[0] if pool.capacity == CAPACITY_BLOCK else None,
                    interfaces=interfaces(pool.machines[0], pool.efa_interfaces) if pool.efa_interfaces else (),
                    security_group_id=args.security_group_id,
                    placement_group=placement_group(name, pool.placement_group, parent=self),
                ),
            ),
            parent=self,
        )
        # Tags of a managed node group do not reach its Auto Scaling group (aws/containers-roadmap#608).
        scaling_group = group.resources.apply(_scaling_group)
        for key, value in _tags(pool, labels).items():
            aws.autoscaling.Tag(
                f"{name}-tag-{key.removeprefix(TEMPLATE)}",
                autoscaling_group_name=scaling_group,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.node_group_name = group.node_group_name
        return {"nodeGroupName": self.node_group_name}


def _scaling_group(found: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str | None:
    """Name of the one Auto Scaling group that EKS makes; None where a simulated cloud reports none, which AWS would refuse."""
    return found[0].autoscaling_groups[0].name if found else None


def _tags(pool: EksPool, labels: dict[str, str]) -> dict[str, str]:
    offer = least(allocatable(machine, pool.disk) for machine in pool.machines)
    resources = {
        "cpu": cpu_text(offer.cpu),
        "memory": f"{offer.memory}Mi",
        "ephemeral-storage": f"{offer.storage}Mi",
        # The autoscaler's own table has whole GPUs, also where the nodes advertise shares of another name.
        GPU_RESOURCE: "0",
        pool.resource: str(min(map(pool.units, pool.machines))),
    }
    return autoscaler_tags(labels, (EKS_PROFILE.gpu_taint,), resources, go_duration(pool.idle_delay))
