"""Builds one OKE cluster of a fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pulumi
import pulumi_oci as oci

from components.context import Context, PrivateKeys
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import MachineSet, install
from components.kubernetes.leaving import Owner
from components.kubernetes.priorities import PriorityExpander
from components.kubernetes.provider import from_registry
from components.kubernetes.scale_set import Arc
from components.oci.autoscaler import OkeAutoscaler
from components.oci.caches import OkeCaches
from components.oci.in_cluster import ExistingOkeCluster, InCluster, NewCluster
from components.oci.leaving import OfClasses, keep_groups, keep_machines, leave, leaving, removed_machines
from components.oci.metrics_gateway import MetricsGateway
from components.oci.oci_gpu_runner import OciGpuRunner, Read
from components.oci.oke_gpu_cluster import OkeClusterSettings, OkeGpuCluster, Read as ClusterRead
from components.oci.oke_gpu_pool import OkeGpuPool
from components.oci.runner_image import OkeRunnerImage
from components.outputs import Built, OkeOutputs
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.facts.scheduling import OKE_PROFILE
from fleet.providers.fleet import Fleet
from fleet.providers.oke import existing as settings_of_existing
from fleet.providers.oke.addons import PLUGIN_ADDON
from fleet.providers.oke.bill import oke_quotas
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.fallback import oke_priorities
from fleet.providers.oke.gateway import gateway
from fleet.providers.oke.launcher_set import machine_set_of
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.providers.tags import fixed_tags
from fleet.settings.enablement import GPU_PLUGIN_ADDON


def build(name: str, settings: OkePools, fleet: Fleet, context: Context, private_keys: PrivateKeys) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    gone = removed_machines(name, settings, context)
    here = _cluster(name, settings, fleet, context, gone)
    cluster = here.cluster
    pools = {pool_name: OkeGpuPool(f"{name}-{pool_name}", here.opts, here, pool_name) for pool_name in settings.pools}
    leaves, autoscaler = leaving(here, pools), list[pulumi.Resource]()
    if (pools or leaves) and AUTOSCALER not in settings.provided:
        ids = {pool_name: pool.node_pool_id for pool_name, pool in pools.items()}
        autoscaler.append(_autoscale(here, ids, [pool.id for pool in leaves.values()]))
    leave(here, leaves, pools, autoscaler)
    outputs: OkeOutputs = {
        "provider": "oke",
        "clusterId": cluster.cluster_id,
        "region": settings.region,
        "nodeSubnetId": cluster.node_subnet_id,
        "nodePoolIds": {pool_name: [pool.node_pool_id] for pool_name, pool in pools.items()},
        "runnerSets": {},
    }
    machine_set: MachineSet | None = None
    owner: Owner | None = None
    opts, tags = from_registry(settings.mirror, [cluster.kubernetes_provider]), fixed_tags(context.stack, name)
    called, generations = here.physical_name, context.generations
    inside = Inside(name, settings, cluster.ready, opts, physical_name=called, disk_tags=tags, generations=generations)
    if isinstance(here, NewCluster):
        outputs["clusterName"], outputs["vcnId"] = here.physical_name, here.cluster.vcn_id
        metrics = _gateway(here)
        keep_groups(here, gone, metrics)
        machine_set, owner = partial(_machine_set, here, metrics), partial(keep_machines, here, gone)
        inside = _stored(inside, here)
    outputs["runnerSets"] = install(inside, fleet, private_keys, machine_set, owner)
    return Built(outputs, cluster.kubeconfig)


def _cluster(name: str, settings: OkePools, fleet: Fleet, context: Context, gone: OfClasses) -> InCluster:
    """The cluster, new or existing. Raises TypeError for settings that nothing here builds."""
    cloud = oci.Provider(f"{name}-oci", region=settings.region)
    opts = pulumi.ResourceOptions(providers=[cloud])
    quotas = oke_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else ()
    if isinstance(settings, OkeCluster):
        network = settings.network.compartment or settings.compartment
        made = OkeGpuCluster.typed(name, _cluster_args(name, settings, context, quotas, gone), opts)
        return NewCluster(name, settings, context, made, network, cloud)
    if isinstance(settings, settings_of_existing.ExistingOkeCluster):
        network = settings.existing.network_compartment or settings.compartment
        return InCluster(name, settings, context, ExistingOkeCluster(name, opts, settings, context), network, cloud)
    raise TypeError(f"{name}: nothing here builds a cluster of {type(settings).__name__}; add it here")


def _cluster_args(name: str, settings: OkeCluster, context: Context, quotas: Sequence[str], gone: OfClasses) -> ClusterRead:
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
        machine_security_group=bool(gone) or any(runner.booted_here for _, runner in settings.machine_runners()),
        quotas=tuple(quotas),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    of_network = {"vcnId": network.vcn, "endpointSubnetId": network.endpoint_subnet, "nodeSubnetId": network.node_subnet}
    image, watched = settings.node_images["system"].id, budget.compartment if budget is not None else None
    existing = {key: ocid for key, ocid in of_network.items() if ocid is not None}
    return ClusterRead(of_cluster, settings.compartment, image, settings.tenancy, watched, existing)


def _autoscale(here: InCluster, ids: Mapping[str, pulumi.Output[str]], leaving: Sequence[str]) -> OkeAutoscaler:
    """The autoscaler of the pools, and the order in which it prefers them. `ids` are OCIDs by pool."""
    autoscaler = OkeAutoscaler(f"{here.name}-autoscaler", here.opts, here, ids, leaving)
    if here.settings.pool_orders:
        # Git cannot have the ids of pools that do not exist yet.
        text = pulumi.Output.all(**ids).apply(lambda ocids: oke_priorities(here.settings, ocids))
        opts = pulumi.ResourceOptions(providers=[here.cluster.kubernetes_provider])
        PriorityExpander(f"{here.name}-expander", opts, text, here.cluster.ready, AUTOSCALER)
    return autoscaler


def _stored(inside: Inside, here: NewCluster) -> Inside:
    """The contents of a new cluster, with its registry and the storage of its caches."""
    settings = here.settings
    if settings.registry is not None and settings.tenancy is not None:
        registry = OkeRunnerImage(f"{here.name}-registry", here.opts, here, settings.registry, settings.tenancy)
        inside = replace(inside, ready=(*inside.ready, registry))
    if settings.caches:
        inside = replace(inside, backings=OkeCaches(f"{here.name}-caches", here.opts, here).backings)
    return inside


def _gateway(here: NewCluster) -> MetricsGateway | None:
    """The gateway to which machines push metrics; None if none of them can."""
    if (receiver := gateway(here.settings)) is None:
        return None
    opts = from_registry(here.settings.mirror, [here.cloud, here.cluster.kubernetes_provider])
    return MetricsGateway(f"{here.name}-metrics-gateway", opts, here, receiver)


def _machine_set(here: NewCluster, metrics: MetricsGateway | None, name: str, runner: MachineRunner, arc: Arc) -> OciGpuRunner:
    """The runner set `name`, whose runners are machines."""
    settings, cluster = here.settings, here.cluster
    more: dict[str, Any] = {
        "home_region": settings.home_region,
        "network_compartment_ids": tuple(dict.fromkeys([settings.compartment, here.network])),
        "tags": here.context.owner_tags,
        "stack_tag": here.context.stack,
    }
    after, pushes = [*arc.after, *cluster.before_machines], None
    if metrics is not None and name in metrics.set_group_ids:
        more["metrics_url"], pushes = metrics.gateway.url(name), metrics.set_group_ids[name]
        after += metrics.rules
    made, scope = machine_set_of(settings, here.physical_name, name, runner, arc.github), settings.scope_of(runner)
    machines = arc.installed(made.model_copy(update=more), scope)
    group, generations = cluster.machine_security_group_id or "", here.context.generations
    app, subnet = arc.app(scope), cluster.node_subnet_id
    args = Read(machines, *app, cluster.cluster_id, subnet, group, pushes, generations=generations)
    waits = pulumi.ResourceOptions(depends_on=after)
    opts = pulumi.ResourceOptions.merge(from_registry(settings.mirror, [here.cloud, cluster.kubernetes_provider]), waits)
    return OciGpuRunner.typed(f"{here.name}-{name}", args, opts)
