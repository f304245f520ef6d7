"""The manifests of every kind of workload."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import per_node_annotation
from fleet.prove.image_fit import with_pinned_image
from fleet.prove.room import fits
from fleet.providers.registry import PROVIDERS
from fleet.providers.target import pool_target
from fleet.render.isolation import homes
from fleet.render.workloads.kinds import MAKERS
from fleet.render.workloads.parts import Meta
from fleet.settings.cluster import Cluster
from fleet.settings.workloads import CoralWorkload, PoolWorkload, Workload


def workload_objects(cluster: Cluster, name: str) -> tuple[Manifest, ...]:
    """The manifests of one workload of a cluster, without its namespace, in the order to apply them in."""
    workload: Workload = cluster.workloads[name]
    meta = Meta(name, workload.namespace, workload.kind)
    make = MAKERS[workload.kind]
    if isinstance(workload, PoolWorkload):
        documents = make(meta, with_pinned_image(cluster, workload), pool_target(cluster, workload.pool))
        if workload.stands and (annotation := per_node_annotation(fits(cluster, workload))):
            for document in documents:
                if document["kind"] == "Deployment":
                    document["spec"]["template"]["metadata"]["annotations"] = annotation
        return documents
    if isinstance(workload, CoralWorkload) and workload.pool is not None:
        return make(meta, workload, PROVIDERS[cluster.provider].profile.pod_tolerations(cluster.pools[workload.pool].capacity))
    return make(meta, workload)


def objects(cluster: Cluster) -> Iterator[Manifest]:
    """Every manifest of a cluster's workloads. Their namespaces with the network policies come first."""
    used = {workload.namespace for workload in cluster.workloads.values()}
    for name, home in homes(cluster).items():
        if name in used:
            yield from home.manifests
    for name in cluster.workloads:
        yield from workload_objects(cluster, name)
