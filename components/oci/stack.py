"""Builds one OKE cluster of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from components.oci.autoscaler import OkeAutoscaler, OkeAutoscalerArgs
from components.oci.caches import OkeCaches, OkeCachesArgs
from components.oci.existing_oke_cluster import ExistingOkeCluster, ExistingOkeClusterArgs
from components.oci.in_cluster import InCluster
from components.oci.metrics_gateway import MetricsGateway, MetricsGatewayArgs
from components.oci.oci_gpu_runner import OciGpuRunner, Read
from components.oci.oke_gpu_cluster import OkeGpuCluster
from components.oci.oke_gpu_pool import OkeGpuPool, OkeGpuPoolArgs
from components.oci.runner_image import OkeRunnerImage, OkeRunnerImageArgs
from components.outputs import Built, OkeOutputs
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.providers.fleet import Fleet
from fleet.providers.oke import existing as settings_of_existing
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.fallback import oke_priorities
from fleet.providers.oke.push import gateway
from fleet.providers.oke.quotas import oke_quotas
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.providers.tags import fixed_tags


def build(name: str, settings: OkePools, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    here = _cluster(name, settings, fleet, context)
    cluster = here.cluster
    pools = {
        pool_name: OkeGpuPool(f"{name}-{pool_name}", OkeGpuPoolArgs(here, pool_name), opts=here.opts)
        for pool_name in settings.pools
    }
    if pools and AUTOSCALER not in settings.provided:
        _autoscale(here, {pool_name: pool.node_pool_id for pool_name, pool in pools.items()})
    outputs: OkeOutputs = {
        "provider": "oke",
        "clusterId": cluster.cluster_id,
        "region": settings.region,
        "nodeSubnetId": cluster.node_subnet_id,
        "nodePoolIds": {pool_name: [pool.node_pool_id] for pool_name, pool in pools.items()},
        "runnerSets": {},
    }
    new = _New()
    if isinstance(settings, OkeCluster) and isinstance(cluster, OkeGpuCluster):
        new = _of_new_cluster(here, settings, cluster)
        outputs["clusterName"], outputs["vcnId"] = here.physical_name, cluster.vcn_id
    inside = Inside(
        name,
        settings,
        (*cluster.ready, *new.images),
        from_registry(settings.mirror, [cluster.kubernetes_provider]),
        new.backings,
        physical_name=here.physical_name,
        disk_tags=fixed_tags(context.stack, name),
    )
    outputs["runnerSets"] = install(inside, fleet, private_key, new.machine_set)
    return Built(outputs, new.kubeconfig)


@dataclass(frozen=True, slots=True)
class _New:
    """What only a new cluster has: storage of caches, a registry, sets of machines, and a kubeconfig."""

    backings: Mapping[str, Backing] = field(default_factory=dict)
    images: tuple[pulumi.Resource, ...] = ()
    machine_set: MachineSet | None = None
    kubeconfig: pulumi.Output[str] | None = None


def _cluster(name: str, settings: OkePools, fleet: Fleet, context: Context) -> InCluster:
    """The cluster, new or existing. Raises TypeError for settings that nothing here builds."""
    cloud = oci.Provider(f"{name}-oci", region=settings.region)
    opts = pulumi.ResourceOptions(providers=[cloud])
    quotas = oke_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else ()
    cluster: OkeGpuCluster | ExistingOkeCluster
    if isinstance(settings, OkeCluster):
        network = settings.network.compartment
        cluster = OkeGpuCluster.typed(name, oke_gpu_cluster_args(name, settings, context, quotas), opts)
    elif isinstance(settings, settings_of_existing.ExistingOkeCluster):
        network = settings.existing.network_compartment
        cluster = ExistingOkeCluster(name, ExistingOkeClusterArgs(settings, context.cluster_name(name), context.tags), opts=opts)
    else:
        raise TypeError(f"{name}: nothing here builds a cluster of {type(settings).__name__}; add it here")
    return InCluster(name, settings, context, cluster, network or settings.compartment, cloud)


def _autoscale(here: InCluster, ids: Mapping[str, pulumi.Output[str]]) -> None:
    """The autoscaler of the pools, and the order in which it prefers them. `ids` are OCIDs by pool."""
    OkeAutoscaler(f"{here.name}-autoscaler", OkeAutoscalerArgs(here, ids), opts=here.opts)
    if here.settings.pool_orders:
        # Git cannot have the ids of pools that do not exist yet.
        text = pulumi.Output.all(**ids).apply(lambda ocids: oke_priorities(here.settings, ocids))
        PriorityExpander(
            f"{here.name}-expander",
            PriorityExpanderArgs(text, here.cluster.ready, grant=True),
            opts=pulumi.ResourceOptions(providers=[here.cluster.kubernetes_provider]),
        )


def _of_new_cluster(here: InCluster, settings: OkeCluster, cluster: OkeGpuCluster) -> _New:
    images: tuple[pulumi.Resource, ...] = ()
    backings: Mapping[str, Backing] = {}
    gateway = _gateway(here, settings, cluster)
    if settings.registry is not None and settings.tenancy is not None:
        args = OkeRunnerImageArgs(here, settings.registry, settings.tenancy)
        images = (OkeRunnerImage(f"{here.name}-registry", args, opts=here.opts),)
    if settings.caches:
        backings = OkeCaches(f"{here.name}-caches", OkeCachesArgs(here, settings, cluster), opts=here.opts).backings
    return _New(backings, images, partial(_machine_set, here, settings, cluster, gateway), cluster.kubeconfig)


def _gateway(here: InCluster, settings: OkeCluster, cluster: OkeGpuCluster) -> MetricsGateway | None:
    """The gateway to which machines push metrics; None if none of them can."""
    receiver = gateway(settings)
    if receiver is None:
        return None
    opts = from_registry(settings.mirror, [here.cloud, cluster.kubernetes_provider])
    return MetricsGateway(f"{here.name}-metrics-gateway", MetricsGatewayArgs(here, receiver, cluster.vcn_id), opts=opts)


def _machine_set(
    here: InCluster,
    settings: OkeCluster,
    cluster: OkeGpuCluster,
    metrics: MetricsGateway | None,
    set_name: str,
    runner: MachineRunner,
    arc: Arc,
) -> OciGpuRunner:
    """The runner set `set_name`, whose runners are machines."""
    machines = arc.installed(machine_set(settings, here.physical_name, here.context, set_name, runner, arc.github))
    after, pushes = [*arc.after, *cluster.before_machines], None
    if metrics is not None and set_name in metrics.set_group_ids:
        machines, pushes = (
            machines.model_copy(update={"metrics_url": metrics.gateway.url(set_name)}),
            metrics.set_group_ids[set_name],
        )
        after += metrics.rules
    args = Read(machines, *arc.app, cluster.cluster_id, cluster.node_subnet_id, cluster.machine_security_group_id or "", pushes)
    opts = pulumi.ResourceOptions.merge(
        from_registry(settings.mirror, [here.cloud, cluster.kubernetes_provider]), pulumi.ResourceOptions(depends_on=after)
    )
    return OciGpuRunner.typed(f"{here.name}-{set_name}", args, opts)
