"""Builds one OKE cluster of a fleet."""

from __future__ import annotations

import pulumi
import pulumi_oci as oci

from components.context import Context
from components.kubernetes.arc import Arc
from components.kubernetes.inside import Inside, install
from components.oci.autoscaler import OkeAutoscaler, OkeAutoscalerArgs, ScaledPool
from components.oci.caches import OkeCaches, OkeCachesArgs
from components.oci.oci_gpu_runner import OciGpuRunner
from components.oci.oke_gpu_cluster import OkeGpuCluster, OkeGpuClusterArgs
from components.oci.oke_gpu_pool import OkeGpuPool, OkeGpuPoolArgs
from components.oci.runner_arguments import oci_gpu_runner_args
from components.outputs import Built
from fleet.providers.fleet import Fleet
from fleet.providers.oke.addons import AUTOSCALER_ADDON
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.quotas import oke_quotas
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.enablement import GPU_PLUGIN_ADDON


def build(name: str, settings: OkeCluster, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    cloud = oci.Provider(f"{name}-oci", region=settings.region)
    # OCI accepts policies only in the tenancy's home region. Budgets and quotas belong to the tenancy too.
    home = settings.home_region
    iam = cloud if home in (None, settings.region) else oci.Provider(f"{name}-oci-home", region=home)
    outside = pulumi.ResourceOptions(providers=[cloud])
    quotas = oke_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else ()
    cluster = OkeGpuCluster(
        name, OkeGpuClusterArgs(name, context.cluster_name(name), settings, context.tags, iam, quotas), opts=outside
    )
    pools = {
        pool_name: OkeGpuPool(
            f"{name}-{pool_name}",
            OkeGpuPoolArgs(
                cluster=name,
                cluster_id=cluster.cluster_id,
                compartment=settings.compartment,
                kubernetes_version=settings.kubernetes,
                pool_name=pool_name,
                pool=pool,
                image=settings.node_images[pool.image].id,
                zones=pool.zones or settings.zones,
                subnet_id=cluster.node_subnet_id,
                group_id=cluster.workers_id,
                oke_plugin=settings.enablement == GPU_PLUGIN_ADDON,
                tags=context.tags,
                iam=iam,
                ready=cluster.before_nodes,
            ),
            opts=outside,
        )
        for pool_name, pool in settings.pools.items()
    }
    if pools:
        OkeAutoscaler(
            f"{name}-autoscaler",
            OkeAutoscalerArgs(
                cluster_id=cluster.cluster_id,
                compartment=settings.compartment,
                network=settings.network.compartment or settings.compartment,
                pools=[ScaledPool(pools[pool_name].node_pool_id, pool.nodes) for pool_name, pool in settings.pools.items()],
                idle_delay=settings.idle_delay,
                version=settings.addon_versions.get(AUTOSCALER_ADDON),
                tags=context.tags,
                iam=iam,
                ready=cluster.ready,
            ),
            opts=outside,
        )

    def machine_set(set_name: str, runner: MachineRunner, group: str, arc: Arc) -> OciGpuRunner:
        args = oci_gpu_runner_args(settings, context.cluster_name(name), context, set_name, runner, group, arc)
        args |= {"cluster_id": cluster.cluster_id, "subnet_id": cluster.node_subnet_id}
        if cluster.machines_id is not None:
            args["security_group_id"] = cluster.machines_id
        after = [*arc.after, *cluster.before_machines]
        opts = pulumi.ResourceOptions(providers=[cloud, cluster.kubernetes_provider], depends_on=after)
        return OciGpuRunner(f"{name}-{set_name}", args, opts)

    backings = {}
    if settings.caches:
        args = OkeCachesArgs(
            settings=settings,
            cluster_id=cluster.cluster_id,
            vcn_id=cluster.vcn_id,
            subnet_id=cluster.node_subnet_id,
            workers_id=cluster.workers_id,
            tags=context.tags,
            iam=iam,
            ready=cluster.ready,
        )
        backings = OkeCaches(f"{name}-caches", args, opts=outside).backings
    inside = Inside(name, settings, cluster.ready, pulumi.ResourceOptions(providers=[cluster.kubernetes_provider]), backings)
    return Built(
        {
            "provider": "oke",
            "clusterName": context.cluster_name(name),
            "clusterId": cluster.cluster_id,
            "region": settings.region,
            "vcnId": cluster.vcn_id,
            "nodeSubnetId": cluster.node_subnet_id,
            "nodePoolIds": {pool_name: [pool.node_pool_id] for pool_name, pool in pools.items()},
            "runnerSets": install(inside, fleet, private_key, machine_set),
        },
        cluster.kubeconfig,
    )
