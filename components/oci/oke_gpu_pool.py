"""A GPU pool on OKE: one managed node pool."""

from typing import Any

import pulumi

from components.component import Component
from components.oci.in_cluster import InCluster
from components.oci.managed_nodes import managed_nodes, node_metadata
from components.oci.rights import reservation_rights
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.nodes import OkePool, kubelet_flags


class OkeGpuPool(Component[InCluster, str]):
    """The node pool of the pool `pool_name` of the cluster `here`, of one GPU shape. OKE sets the GPU taint by itself.

    An update of the image or the version reaches new nodes only. Old ones run their jobs and go when they are idle: OKE's own
    cycling would evict the jobs.
    """

    node_pool_id: pulumi.Output[str]
    """OCID, by which the autoscaler knows the pool."""
    logical_name: str
    """That of the node pool. Another shape or place needs another node pool: OKE ends the nodes in places that a pool leaves
    (docs.oracle.com, scaling node pools)."""

    def declare(self, name: str, here: InCluster, pool_name: str) -> dict[str, Any]:
        settings, pool = here.settings, here.settings.pools[pool_name]
        (machine,), reservation = pool.machines, pool.reservation
        labels = pool.node_labels(here.name, pool_name, OKE_PROFILE, settings.flavor_of(pool_name))
        labels |= settings.gpu_node_labels
        # Every availability domain of the pool, or the one in which the reservation holds machines.
        places: list[tuple[str, str | None]] = [(zone, None) for zone in pool.zones or settings.zones]
        if reservation:
            places = [(reservation.zone, reservation.id)]
        generation = here.context.generations.suffix(f"{name}-nodes", {"shape": machine.name, "places": sorted(places)})
        nodes = managed_nodes(
            name,
            parent=self,
            cluster_id=here.cluster.cluster_id,
            compartment=settings.compartment,
            kubernetes_version=settings.kubernetes,
            machine=machine,
            image=settings.node_images[pool.image].id,
            disk=pool.disk,
            subnet_id=here.cluster.node_subnet_id,
            group_id=here.cluster.node_security_group_id,
            places=places,
            labels=labels,
            size=pool.nodes.min,
            tags=here.tags,
            ready=[*here.cluster.before_nodes, *self._rights(name, here, pool)],
            preemptible=pool.capacity == "spot",
            most=pool.nodes.max,
            reserved=reservation.count if reservation else None,
            metadata=node_metadata(kubelet_flags(pool.kubelet), array=pool.local_storage is not None),
            generation=generation,
        )
        self.node_pool_id, self.logical_name = nodes.id, nodes.pulumi_resource_name
        return {"nodePoolId": self.node_pool_id}

    def _rights(self, name: str, here: InCluster, pool: OkePool) -> list[pulumi.Resource]:
        """OKE's right to launch nodes in a capacity reservation."""
        if pool.reservation is None:
            return []
        compartment, why = here.settings.compartment, f"OKE launches the nodes of {name} in a capacity reservation"
        return [here.policy(f"{name}-rights", list(reservation_rights(compartment)), compartment, why, parent=self)]
