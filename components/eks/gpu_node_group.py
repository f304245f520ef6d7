"""A GPU pool on EKS: one managed node group per zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.eks.launch import launch_template
from components.eks.managed_nodes import ManagedNodes, managed_nodes
from fleet.facts.offer import allocatable, least
from fleet.facts.scheduling import EKS_PROFILE, GPU_RESOURCE, RESERVED_NODES_TAG, resource_tags
from fleet.providers.eks.groups import zone_groups
from fleet.settings.model import cpu_text, go_duration
from fleet.settings.pool import Pool

CAPACITY_TYPE = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "ON_DEMAND"}
"""Our capacity types in the EKS API's spelling; machines in a capacity reservation are bought on demand."""


@dataclass(frozen=True, slots=True)
class GpuNodeGroupArgs:
    """`cluster_name` must carry its dependency on the control plane; `ready` are the add-ons and rights a node needs to join.

    `subnets` are the pool's subnets by zone, in the order in which its nodes split over them. `fixed_tags` are fixed at
    creation: a change of them replaces every node. `owner_tags` may change at any time; new instances get them.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    node_role_arn: pulumi.Input[str]
    subnets: Mapping[str, pulumi.Input[str]]
    pool_name: str
    pool: Pool
    fixed_tags: Mapping[str, str]
    owner_tags: Mapping[str, str]
    ready: Sequence[pulumi.Resource]


class GpuNodeGroup(Component[GpuNodeGroupArgs]):
    """A launch template, and in each zone of the pool a node group with the GPU taint.

    All groups share the template, the labels and the taint, so a pod sees one pool. A zone that is added or removed adds or
    removes its group; where the sizes of the other groups change, they are updated in place.
    """

    node_group_names: dict[str, pulumi.Output[str]]
    """Physical names of the node groups by zone."""

    def declare(self, name: str, args: GpuNodeGroupArgs) -> dict[str, Any]:
        pool, reservation = args.pool, args.pool.reservation
        shared = ManagedNodes(
            cluster_name=args.cluster_name,
            kubernetes_version=args.kubernetes_version,
            node_role_arn=args.node_role_arn,
            ami_type="AL2023_x86_64_NVIDIA",
            capacity_type=CAPACITY_TYPE[pool.capacity],
            instance_types=pool.instance_types,
            template=launch_template(
                f"{name}-launch", pool.disk, args.fixed_tags, reservation.id if reservation else None, parent=self
            ),
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


def _tags(pool: Pool) -> dict[str, str]:
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
    return resource_tags(resources) | reserved
