"""From a cluster's settings to the arguments of OkeGpuCluster."""

from __future__ import annotations

from collections.abc import Sequence

from components.arguments import given, plain, same
from components.context import Context
from components.kubernetes.enablement import tolerance
from components.oci.oke_gpu_cluster import OkeGpuClusterArgs
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.oke.addons import PLUGIN_ADDON
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.tags import STACK_TAG
from fleet.settings.enablement import GPU_PLUGIN_ADDON


def oke_gpu_cluster_args(name: str, settings: OkeCluster, context: Context, quotas: Sequence[str] = ()) -> OkeGpuClusterArgs:
    """The arguments for the cluster `name` of a stack. `quotas` are quota statements."""
    spot = any(pool.capacity == "spot" for pool in settings.pools.values())
    network, budget = settings.network, settings.budget
    args: OkeGpuClusterArgs = same(settings, OkeGpuClusterArgs) | given(
        compartment_id=settings.compartment,
        system_image_id=settings.node_images["system"].id,
        cluster_name=context.cluster_name(name),
        vcn_cidr=network.cidr,
        vcn_id=network.vcn,
        endpoint_subnet_id=network.endpoint_subnet,
        node_subnet_id=network.node_subnet,
        gpu_plugin_version=settings.addon_versions.get(PLUGIN_ADDON),
        # The add-on knows the GPU taint by itself, not the one of preemptible nodes.
        gpu_plugin_tolerations=[tolerance(each) for each in OKE_PROFILE.tolerations] if spot else None,
        # CNCF's launcher has no setting for security groups.
        machine_security_group=any(runner.booted_here for _, runner in settings.machine_runners()),
        tenancy_id=settings.tenancy,
        budget=plain(budget, "compartment") if budget is not None else None,
        budget_compartment_id=budget.compartment if budget is not None else None,
        quotas=list(quotas),
        tags={key: value for key, value in context.tags.items() if key != STACK_TAG},
        stack_tag=context.tags[STACK_TAG],
    )
    if settings.enablement != GPU_PLUGIN_ADDON:
        args["gpu_plugin"] = False
    return args
