"""A GPU pool on EKS: one managed node group per zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.eks.launch import launch_template
from components.eks.managed_nodes import ManagedNodes, managed_nodes
from components.eks.node_options import NodeOptions, placement_group
from fleet.facts.hardware import CAPACITY_BLOCK
from fleet.facts.offer import allocatable, least
from fleet.facts.scheduling import BLOCK_TYPE_TAG, EKS_PROFILE, GPU_RESOURCE, RESERVED_NODES_TAG, resource_tags
from fleet.providers.eks.efa import interfaces
from fleet.providers.eks.groups import zone_groups
from fleet.providers.eks.node_config import user_data
from fleet.providers.eks.nodes import EksPool
from fleet.settings.model import cpu_text, go_duration

CAPACITY_TYPE = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "ON_DEMAND", "capacity-block": "CAPACITY_BLOCK"}
"""Our capacity types in the EKS API's spelling; machines in a capacity reservation are bought on demand."""


@dataclass(frozen=True, slots=True)
class GpuNodeGroupArgs:
    """`cluster_name` must carry its dependency on the control plane; `ready` are the add-ons and rights a node needs to join.

    `subnets` are the pool's subnets by zone, in the order in which its nodes split over them. `fixed_tags` are fixed at
    creation: a change of them replaces every node. `owner_tags` may change at any time; new instances get them.
    `security_group_id` is the cluster's own security group; only a pool with EFA interfaces needs it.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    node_role_arn: pulumi.Input[str]
    subnets: Mapping[str, pulumi.Input[str]]
    pool_name: str
    pool: EksPool
    fixed_tags: Mapping[str, str]
    owner_tags: Mapping[str, str]
    ready: Sequence[pulumi.Resource]
    security_group_id: pulumi.Input[str] | None = None


class GpuNodeGroup(Component[GpuNodeGroupArgs]):
    """A launch template, and in each zone of the pool a node group with the GPU taint.

    All groups share the template, the labels and the taint, so a pod sees one pool. A zone that is added or removed adds or
    removes its group; where the sizes of the other groups change, they are updated in place.
    """

    node_group_names: dict[str, pulumi.Output[str]]
    """Physical names of the node groups by zone."""

    def declare(self, name: str, args: GpuNodeGroupArgs) -> dict[str, Any]:
        pool, reservation = args.pool, args.pool.reservation
        block = pool.capacity == CAPACITY_BLOCK
        options = NodeOptions(
            user_data=user_data(pool.node_config) if pool.node_config else None,
            capacity_block_type=pool.instance_types[0] if block else None,
            interfaces=interfaces(pool.machines[0], pool.efa_interfaces) if pool.efa_interfaces else (),
            security_group_id=args.security_group_id,
            placement_group=placement_group(name, pool.placement_group, parent=self),
        )
        template = launch_template(
            f"{name}-launch", pool.disk, args.fixed_tags, reservation.id if reservation else None, parent=self, options=options
        )
        shared = ManagedNodes(
            cluster_name=args.cluster_name,
            kubernetes_version=args.kubernetes_version,
            node_role_arn=args.node_role_arn,
            ami_type="AL2023_x86_64_NVIDIA",
            capacity_type=CAPACITY_TYPE[pool.capacity],
            # EKS reads the type of a capacity block from the template.
            instance_types=() if block else pool.instance_types,
            template=template,
            labels=pool.node_labels(args.cluster, args.pool_name, EKS_PROFILE),
            taints=(EKS_PROFILE.gpu_taint,),
            tags=_tags(pool),
            owner_tags=args.owner_tags,
            idle_delay=go_duration(pool.idle_delay),
            ready=args.ready,
            reserved=reservation is not None,
        )
        self.node_group_names = {
            zone: managed_nodes(f"{name}-{zone}", shared, [args.subnets[zone]], nodes, parent=self).node_group_name
            for zone, nodes in zone_groups(tuple(args.subnets), pool.nodes).items()
        }
        return {"nodeGroupNames": self.node_group_names}


def _tags(pool: EksPool) -> dict[str, str]:
    offer = least(allocatable(machine, pool.disk) for machine in pool.machines)
    resources = {
        "cpu": cpu_text(offer.cpu),
        "memory": f"{offer.memory}Mi",
        "ephemeral-storage": f"{offer.storage}Mi",
        # The autoscaler's own table has whole GPUs, also where the nodes advertise shares of another name.
        GPU_RESOURCE: "0",
        pool.resource: str(min(map(pool.units, pool.machines))),
    }
    reserved = {RESERVED_NODES_TAG: str(pool.reservation.count)} if pool.reservation else {}
    block = {BLOCK_TYPE_TAG: pool.instance_types[0]} if pool.capacity == CAPACITY_BLOCK else {}
    return resource_tags(resources) | reserved | block
