"""Free room for pods in the system pool of an EKS cluster."""

from __future__ import annotations

from fleet.facts.offer import Offer, for_runners, least
from fleet.facts.versions import daemonsets
from fleet.providers.eks.cluster import EksCluster


def eks_system_pool(cluster: EksCluster) -> tuple[Offer, int]:
    """(free room of a node of the smallest type after the provider's DaemonSets, number of nodes at least)."""
    pods = daemonsets(cluster.provider, cluster.node_features)
    system = cluster.system
    return least(for_runners(machine, system.disk, pods) for machine in system.machines), system.nodes.min
