"""Node pools of an earlier generation, or of a pool that the settings do not have: they stay until their jobs end.

OKE's API has no taint. So the nodes are cordoned, and the autoscaler may start none: it removes each once it is idle.
The machines of removed runner classes stay, too, with what they and their launchers need.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci
from pydantic.alias_generators import to_camel

from components.component import Resources
from components.context import Context
from components.generations import logical_name, warn_leaving
from components.kubernetes.leaving import GATEWAY, MACHINES, Objects, declare, removed
from components.kubernetes.provider import from_registry
from components.oci.governance import home_provider
from components.oci.in_cluster import InCluster, NewCluster
from components.oci.oke_gpu_pool import OkeGpuPool
from fleet.facts.remark import said
from fleet.facts.scheduling import LEAVING, MOST_NODES_TAG, POOL_LABEL, STORAGE_TAG, SYSTEM_POOL
from fleet.providers.oke.cluster import OkePools
from fleet.providers.tags import STACK_TAG

if TYPE_CHECKING:
    from pulumi_oci.containerengine.outputs import GetNodePoolsNodePoolResult as LivePool

_GROUP = "oci:Core/networkSecurityGroup:NetworkSecurityGroup"
OfClasses = Mapping[str, Mapping[tuple[str, str], Objects]]
"""What the state has of all components, by removed class whose runners are machines."""
_GONE = ("DELETING", "DELETED")
"""States in which OCI still lists a cluster or a pool."""


def leaving(here: InCluster, pools: Mapping[str, OkeGpuPool]) -> dict[str, LivePool]:
    """The stack's node pools in OCI that are not those of `pools`, by logical name; none if the settings evict.

    One without nodes that an earlier update marked is left out, so that the engine deletes it: no node can have come since.
    Raises RunError if OCI refuses.
    """
    if here.settings.replace_nodes == "evict":
        return {}
    named = {logical_name(pool.name): pool for pool in _live(here)}
    rest = named.keys() - {"", *(pool.logical_name for pool in pools.values())}
    return {name: named[name] for name in sorted(rest) if _size(named[name]) or LEAVING.key not in named[name].freeform_tags}


def leave(here: InCluster, leaves: Mapping[str, LivePool], pools: Mapping[str, OkeGpuPool], after: Resources) -> None:
    """Declare node pools that leave as they are, with the mark, and cordon their nodes.

    The mark says that the autoscaler can start no node, so it comes `after` the autoscaler has its new ranges.
    """
    parents: dict[str, pulumi.Resource] = {**pools}
    for name, pool in leaves.items():
        warn_leaving(name, _size(pool))
        here.context.generations.keep(name)
        if (pool_name := _label(pool)) not in parents:
            # As below the pool before: the type is a part of their URNs.
            parents[pool_name] = pulumi.ComponentResource("gpu-ci:index:OkeGpuPool", f"{here.name}-{pool_name}", {}, here.opts)
        parent = parents[pool_name]
        opts = pulumi.ResourceOptions(parent=parent, depends_on=[here.cluster, *after], ignore_changes=_as_it_is())
        of = {"cluster_id": here.cluster.cluster_id, "compartment_id": pool.compartment_id, "node_shape": pool.node_shape}
        oci.containerengine.NodePool(name, **of, freeform_tags=_marked(pool), opts=opts)
        in_kubernetes = pulumi.ResourceOptions(parent=parent, provider=here.cluster.kubernetes_provider)
        for node in oci.containerengine.get_node_pool(pool.id, opts=_asked(here)).nodes if _size(pool) else ():
            # Any other node is not in Kubernetes yet, or not for long: the patch would make an object without a machine.
            if node.state == "ACTIVE":
                # Kubernetes knows a managed node by its private address.
                cordon: dict[str, Any] = {"metadata": {"name": node.private_ip}, "spec": {"unschedulable": True}}
                kubernetes.core.v1.NodePatch(f"{name}-{node.private_ip}", **cordon, opts=in_kubernetes)


def _live(here: InCluster) -> list[LivePool]:
    """The stack's GPU node pools in the cluster. Another stack may have pools in a cluster that exists already."""
    engine, compartment, opts = oci.containerengine, here.settings.compartment, _asked(here)
    try:
        if isinstance(here, NewCluster):
            there = engine.get_clusters(compartment_id=compartment, name=here.physical_name, opts=opts).clusters or ()
            clusters = [cluster.id for cluster in there if cluster.state not in _GONE]
        else:
            clusters = [here.cluster.cluster_id]
        answers = [engine.get_node_pools(cluster_id=ocid, compartment_id=compartment, opts=opts) for ocid in clusters]
    except Exception as error:
        raise pulumi.RunError(said("unlisted_pools", here=here, error=error, compartment=compartment)) from error
    pools = [pool for answer in answers for pool in answer.node_pools if pool.state not in _GONE]
    return [pool for pool in pools if pool.freeform_tags.get(STACK_TAG) == here.context.stack and _label(pool) != SYSTEM_POOL]


def _asked(here: InCluster) -> pulumi.InvokeOptions:
    return pulumi.InvokeOptions(provider=here.cloud)


def _marked(pool: LivePool) -> dict[str, str]:
    """The tags of a pool that leaves. Policies count its nodes. No node comes that needs the tag of its disk: OCI allows ten."""
    kept = {key: value for key, value in pool.freeform_tags.items() if key != STORAGE_TAG}
    return kept | {MOST_NODES_TAG: str(_size(pool)), LEAVING.key: LEAVING.value}


def _label(pool: LivePool) -> str:
    """The name of the pool in the settings."""
    return next((label.value for label in pool.initial_node_labels if label.key == POOL_LABEL), SYSTEM_POOL)


def _size(pool: LivePool) -> int:
    return cast("int", pool.node_config_details[0].size)


def _as_it_is() -> list[str]:
    """All inputs of a node pool but its tags."""
    return [to_camel(key) for key in inspect.signature(oci.containerengine.NodePoolArgs).parameters if key != "freeform_tags"]


def removed_machines(name: str, settings: OkePools, context: Context) -> OfClasses:
    """The removed classes of machines that the state of cluster `name` has."""
    gone = removed(name, settings.runners, context.generations).items()
    return {of_class: objects for of_class, objects in gone if (MACHINES, f"{name}-{of_class}") in objects}


def keep_groups(here: NewCluster, gone: OfClasses, gateway: pulumi.Resource | None) -> None:
    """Declare the security groups that removed classes have at the gateway: OCI deletes none that is in use.

    They and the group of all machines go in the update after their set.
    """
    name = f"{here.name}-metrics-gateway"
    groups = {
        (_GROUP, group): objects[GATEWAY, name][_GROUP, group]
        for of_class, objects in gone.items()
        if (_GROUP, group := f"{name}-set.{of_class}") in objects.get((GATEWAY, name), {})
    }
    if groups:
        declare(groups, gateway or pulumi.ComponentResource(GATEWAY, name, {}, here.opts), ())


def keep_machines(here: NewCluster, gone: OfClasses, of_class: str) -> tuple[pulumi.ResourceOptions, Resources]:
    """Declare what the machines and launchers of a removed class have in OCI: rights, and the pool of standing machines.

    Returns the options of its set, and what that waits for.
    """
    name, settings = f"{here.name}-{of_class}", here.settings
    opts = from_registry(settings.mirror, [here.cloud, here.cluster.kubernetes_provider])
    runner = pulumi.ComponentResource(MACHINES, name, {}, opts)
    below = pulumi.ResourceOptions(parent=runner)
    in_oci = {at: row for at, row in gone[of_class][MACHINES, name].items() if at[0].startswith("oci:")}
    iam = home_provider(name, settings.home_region, settings.region, below) if in_oci else None
    return below, declare(in_oci, runner, (), iam)
