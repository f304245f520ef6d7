"""A GPU pool on OKE: one managed node pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.oci.managed_nodes import NodePlace, OkeNodes, managed_nodes
from components.oci.policy import policy
from components.oci.rights import reservation_rights
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import OKE_NO_PLUGIN_LABEL, OKE_PROFILE
from fleet.providers.oke.node_config import kubelet_flags
from fleet.providers.oke.nodes import OkePool


@dataclass(frozen=True, slots=True)
class OkeGpuPoolArgs:
    """`cluster_id` carries its dependency on the control plane; `ready` is what a node needs to join.

    `kubernetes_version` is in OKE's spelling, `image` an OCID; `zones` are its availability domains; `oke_plugin` says
    whether OKE's own device plugin advertises the GPUs; `iam` is the provider that writes policies.
    """

    cluster: str
    cluster_id: pulumi.Input[str]
    compartment: str
    kubernetes_version: str
    pool_name: str
    flavor: str
    pool: OkePool
    image: str
    zones: Sequence[str]
    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    oke_plugin: bool
    tags: dict[str, str]
    iam: pulumi.ProviderResource
    ready: Sequence[pulumi.Resource]


class OkeGpuPool(Component[OkeGpuPoolArgs]):
    """A node pool of one GPU shape. OKE sets the GPU taint by itself.

    An update of the image or the version reaches new nodes only. Old ones run their jobs and go when they are idle: OKE's own
    cycling would evict the jobs.
    """

    node_pool_id: pulumi.Output[str]
    """OCID, by which the autoscaler knows the pool."""

    def declare(self, name: str, args: OkeGpuPoolArgs) -> dict[str, Any]:
        pool = args.pool
        (machine,) = pool.machines
        labels = pool.node_labels(args.cluster, args.pool_name, OKE_PROFILE, args.flavor)
        # Stated both ways: what OKE does without the label has changed over time.
        labels[OKE_NO_PLUGIN_LABEL] = "false" if args.oke_plugin else "true"
        offer = allocatable(machine, pool.disk)
        nodes = managed_nodes(
            name,
            OkeNodes(
                cluster_id=args.cluster_id,
                compartment=args.compartment,
                kubernetes_version=args.kubernetes_version,
                shape=machine.name,
                bare_metal=machine.bare_metal,
                image=args.image,
                disk=pool.disk,
                subnet_id=args.subnet_id,
                group_id=args.group_id,
                places=_places(pool, args.zones),
                labels=labels,
                max_pods=offer.pods,
                size=pool.nodes.min,
                tags=args.tags,
                ready=[*args.ready, *self._rights(name, args)],
                preemptible=pool.capacity == "spot",
                most=pool.nodes.max,
                storage=offer.storage,
                reserved=pool.reservation.count if pool.reservation else None,
                kubelet_flags=kubelet_flags(pool.kubelet),
                array=pool.local_storage is not None,
            ),
            parent=self,
        )
        self.node_pool_id = nodes.id
        return {"nodePoolId": self.node_pool_id}

    def _rights(self, name: str, args: OkeGpuPoolArgs) -> list[pulumi.Resource]:
        """OKE's right to launch nodes in a capacity reservation."""
        if args.pool.reservation is None:
            return []
        return [
            policy(
                f"{name}-rights",
                list(reservation_rights(args.compartment)),
                compartment=args.compartment,
                description=f"OKE launches the nodes of {name} in a capacity reservation",
                tags=args.tags,
                iam=args.iam,
                parent=self,
            )
        ]


def _places(pool: OkePool, zones: Sequence[str]) -> list[NodePlace]:
    """Every availability domain of the pool, or the one in which the reservation holds machines."""
    if pool.reservation is not None:
        return [NodePlace(pool.reservation.zone, pool.reservation.id)]
    return [NodePlace(zone) for zone in zones]
