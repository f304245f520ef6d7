"""From a cluster's settings to the arguments of OkeGpuCluster and OciGpuRunner."""

from __future__ import annotations

from collections.abc import Sequence

from components.context import Context
from components.oci.oke_gpu_cluster import OkeClusterSettings, Read
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.addons import PLUGIN_ADDON
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.machine_set import MachineSet, machine_set_of
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.enablement import GPU_PLUGIN_ADDON
from fleet.settings.github import GitHub


def oke_gpu_cluster_args(name: str, settings: OkeCluster, context: Context, quotas: Sequence[str] = ()) -> Read:
    """The arguments for the cluster `name` of a stack. `quotas` are quota statements."""
    spot = any(pool.capacity == "spot" for pool in settings.pools.values())
    network, budget = settings.network, settings.budget
    of_cluster = OkeClusterSettings.model_construct(
        **settings.set_fields(OkeCluster)
        | ({"budget": budget.model_copy(update={"compartment": None})} if budget is not None else {})
        | ({"gpu_plugin": False} if settings.enablement != GPU_PLUGIN_ADDON else {}),
        cluster_name=context.cluster_name(name),
        gpu_plugin_version=settings.addon_versions.get(PLUGIN_ADDON),
        # The add-on knows the GPU taint by itself, not the one of preemptible nodes.
        gpu_plugin_tolerations=OKE_PROFILE.tolerations if spot else (),
        # CNCF's launcher has no setting for security groups.
        machine_security_group=any(runner.booted_here for _, runner in settings.machine_runners()),
        quotas=tuple(quotas),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    of_network = {"vcnId": network.vcn, "endpointSubnetId": network.endpoint_subnet, "nodeSubnetId": network.node_subnet}
    return Read(
        of_cluster,
        settings.compartment,
        settings.node_images["system"].id,
        settings.tenancy,
        budget.compartment if budget is not None else None,
        {key: ocid for key, ocid in of_network.items() if ocid is not None},
    )


def machine_set(
    cluster: OkeCluster, physical_name: str, context: Context, name: str, runner: MachineRunner, github: GitHub
) -> MachineSet:
    """The set `name` of a stack. `physical_name` is the cluster's."""
    compartments = dict.fromkeys([cluster.compartment, cluster.network.compartment or cluster.compartment])
    more = {
        "home_region": cluster.home_region,
        "network_compartment_ids": tuple(compartments),
        "tags": context.owner_tags,
        "stack_tag": context.stack,
    }
    return machine_set_of(cluster, physical_name, name, runner, github).model_copy(update=more)
