"""Builds one OKE cluster of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pulumi
import pulumi_oci as oci

from components.context import Context
from components.kubernetes.arc import Arc
from components.kubernetes.inside import Inside, MachineSet, install
from components.kubernetes.mirror import from_registry
from components.kubernetes.model_cache import Backing
from components.kubernetes.priority_expander import PriorityExpander, PriorityExpanderArgs
from components.oci.arguments import machine_set, oke_gpu_cluster_args
from components.oci.autoscaler import OkeAutoscaler, OkeAutoscalerArgs, ScaledPool
from components.oci.caches import OkeCaches, OkeCachesArgs
from components.oci.existing_oke_cluster import ExistingOkeCluster, ExistingOkeClusterArgs
from components.oci.metrics_gateway import MetricsGateway, MetricsGatewayArgs
from components.oci.oci_gpu_runner import OciGpuRunner, Read
from components.oci.oke_gpu_cluster import OkeGpuCluster
from components.oci.oke_gpu_pool import OkeGpuPool, OkeGpuPoolArgs
from components.oci.runner_image import OkeRunnerImage, OkeRunnerImageArgs
from components.outputs import Built, OkeOutputs
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.providers.fleet import Fleet
from fleet.providers.oke import existing as settings_of_existing
from fleet.providers.oke.addons import AUTOSCALER_ADDON
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.fallback import oke_priorities
from fleet.providers.oke.push import gateway
from fleet.providers.oke.quotas import oke_quotas
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.providers.tags import fixed_tags
from fleet.settings.enablement import GPU_PLUGIN_ADDON


def build(name: str, settings: OkePools, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    cloud = oci.Provider(f"{name}-oci", region=settings.region)
    outside = pulumi.ResourceOptions(providers=[cloud])
    quotas = oke_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else ()
    called = context.cluster_name(name)
    cluster: OkeGpuCluster | ExistingOkeCluster
    if isinstance(settings, OkeCluster):
        network = settings.network.compartment
        cluster = OkeGpuCluster.typed(name, oke_gpu_cluster_args(name, settings, context, quotas), outside)
    elif isinstance(settings, settings_of_existing.ExistingOkeCluster):
        network = settings.existing.network_compartment
        cluster = ExistingOkeCluster(name, ExistingOkeClusterArgs(settings, called, context.tags), opts=outside)
    else:
        raise TypeError(f"{name}: nothing here builds a cluster of {type(settings).__name__}; add it here")
    iam = cluster.home_provider or cloud
    pools = {
        pool_name: OkeGpuPool(
            f"{name}-{pool_name}",
            OkeGpuPoolArgs(
                cluster=name,
                cluster_id=cluster.cluster_id,
                compartment=settings.compartment,
                kubernetes_version=settings.kubernetes,
                pool_name=pool_name,
                flavor=settings.flavor_of(pool_name),
                pool=pool,
                image=settings.node_images[pool.image].id,
                zones=pool.zones or settings.zones,
                subnet_id=cluster.node_subnet_id,
                group_id=cluster.node_security_group_id,
                oke_plugin=settings.enablement == GPU_PLUGIN_ADDON,
                tags=context.tags,
                iam=iam,
                ready=cluster.before_nodes,
            ),
            opts=outside,
        )
        for pool_name, pool in settings.pools.items()
    }
    if pools and AUTOSCALER not in settings.provided:
        OkeAutoscaler(
            f"{name}-autoscaler",
            OkeAutoscalerArgs(
                cluster_id=cluster.cluster_id,
                compartment=settings.compartment,
                network=network or settings.compartment,
                pools=[ScaledPool(pools[pool_name].node_pool_id, pool.nodes) for pool_name, pool in settings.pools.items()],
                idle_delay=settings.idle_delay,
                version=settings.addon_versions.get(AUTOSCALER_ADDON),
                tags=context.tags,
                iam=iam,
                ready=cluster.ready,
                node_selector=settings.system_selector,
                by_priority=bool(settings.pool_orders),
            ),
            opts=outside,
        )
        if settings.pool_orders:
            # Git cannot have the ids of pools that do not exist yet.
            ids = {pool_name: pool.node_pool_id for pool_name, pool in pools.items()}
            text = pulumi.Output.all(**ids).apply(lambda known: oke_priorities(settings, known))
            PriorityExpander(
                f"{name}-expander",
                PriorityExpanderArgs(text, cluster.ready, grant=True),
                opts=pulumi.ResourceOptions(providers=[cluster.kubernetes_provider]),
            )

    backings: Mapping[str, Backing] = {}
    images: tuple[pulumi.Resource, ...] = ()
    machine_set: MachineSet | None = None
    kubeconfig: pulumi.Output[str] | None = None
    outputs: OkeOutputs = {
        "provider": "oke",
        "clusterId": cluster.cluster_id,
        "region": settings.region,
        "nodeSubnetId": cluster.node_subnet_id,
        "nodePoolIds": {pool_name: [pool.node_pool_id] for pool_name, pool in pools.items()},
        "runnerSets": {},
    }
    if isinstance(settings, OkeCluster) and isinstance(cluster, OkeGpuCluster):
        machine_set = partial(
            _machine_set, name, settings, context, cluster, cloud, _gateway(name, settings, context, cluster, cloud)
        )
        kubeconfig, outputs["clusterName"], outputs["vcnId"] = cluster.kubeconfig, called, cluster.vcn_id
        if settings.registry is not None and settings.tenancy is not None:
            held = OkeRunnerImageArgs(settings.registry, called, settings.tenancy, settings.compartment, context.tags, iam)
            images = (OkeRunnerImage(f"{name}-registry", held, opts=outside),)
        if settings.caches:
            args = OkeCachesArgs(
                settings=settings,
                cluster_id=cluster.cluster_id,
                vcn_id=cluster.vcn_id,
                subnet_id=cluster.node_subnet_id,
                workers_id=cluster.node_security_group_id,
                tags=context.tags,
                iam=iam,
                ready=cluster.ready,
            )
            backings = OkeCaches(f"{name}-caches", args, opts=outside).backings
    inside = Inside(
        name,
        settings,
        (*cluster.ready, *images),
        from_registry(settings.mirror, [cluster.kubernetes_provider]),
        backings,
        physical_name=called,
        disk_tags=fixed_tags(context.stack, name),
    )
    outputs["runnerSets"] = install(inside, fleet, private_key, machine_set)
    return Built(outputs, kubeconfig)


def _gateway(
    name: str, settings: OkeCluster, context: Context, cluster: OkeGpuCluster, cloud: oci.Provider
) -> MetricsGateway | None:
    """The gateway to which machines push metrics; None if none of them can."""
    found = gateway(settings)
    if found is None:
        return None
    args = MetricsGatewayArgs(
        gateway=found,
        cluster=context.cluster_name(name),
        compartment=settings.compartment,
        vcn_id=cluster.vcn_id,
        workers_id=cluster.node_security_group_id,
        ready=cluster.ready,
        tags=context.tags,
    )
    opts = from_registry(settings.mirror, [cloud, cluster.kubernetes_provider])
    return MetricsGateway(f"{name}-metrics-gateway", args, opts=opts)


def _machine_set(
    name: str,
    settings: OkeCluster,
    context: Context,
    cluster: OkeGpuCluster,
    cloud: oci.Provider,
    metrics: MetricsGateway | None,
    set_name: str,
    runner: MachineRunner,
    arc: Arc,
) -> OciGpuRunner:
    """The runner set `set_name`, whose runners are machines."""
    made = arc.installed(machine_set(settings, context.cluster_name(name), context, set_name, runner, arc.github))
    after, pushes = [*arc.after, *cluster.before_machines], None
    if metrics is not None and set_name in metrics.set_group_ids:
        made, pushes = made.model_copy(update={"metrics_url": metrics.gateway.url(set_name)}), metrics.set_group_ids[set_name]
        after += metrics.rules
    args = Read(made, *arc.app, cluster.cluster_id, cluster.node_subnet_id, cluster.machine_security_group_id or "", pushes)
    opts = pulumi.ResourceOptions.merge(
        from_registry(settings.mirror, [cloud, cluster.kubernetes_provider]), pulumi.ResourceOptions(depends_on=after)
    )
    return OciGpuRunner.typed(f"{name}-{set_name}", args, opts)
