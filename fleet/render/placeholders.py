"""Placeholder pods: each keeps a node of a pool free for runners. A runner that finds no other node ends one and takes its place.

Afterwards the placeholder waits, and the autoscaler starts another node for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.facts.pods import CONFINED
from fleet.facts.scheduling import PLACEHOLDER_PRIORITY
from fleet.facts.versions import RUNNER_IMAGE
from fleet.prove.placement import fit, pool_host
from fleet.providers.target import pool_target
from fleet.render.manifest import Manifest
from fleet.render.workloads import parts
from fleet.settings.cluster import Cluster
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE


def placeholders(cluster: Cluster) -> dict[str, Manifest]:
    """The Deployment of each pool that has placeholders, by the name of the pool."""
    return {name: _deployment(cluster, name) for name, pool in cluster.pools.items() if pool.placeholders}


def _deployment(cluster: Cluster, name: str) -> Manifest:
    """As many pods as placeholders. Each takes all GPUs of a node, so none shares a node with a runner or another placeholder.

    A placeholder requests what the runners of the first set request that a node holds. Its containers have the images of the
    pool's sets, so that a node has them before the first job.
    """
    pool, host = cluster.pools[name], pool_host(cluster, name)
    runners = list(cluster.pod_sets(name).values())
    count = max(1, min(fit(runners[0], machine, host).count for machine in host.machines))
    amounts = {"cpu": cpu_text(runners[0].cpu.request * count), "memory": memory_text(runners[0].memory.request * count)}
    disk = {"ephemeral-storage": memory_text(runners[0].scratch * count)}
    gpus = {pool.resource: min(map(pool.units, pool.machines))}
    first, *others = dict.fromkeys(cluster.with_image(each).image or RUNNER_IMAGE for each in runners)
    resources = {"requests": amounts | disk | gpus, "limits": amounts | gpus}
    holder = _container("placeholder", first, ["sleep", "infinity"], resources)
    pod = parts.gpu_pod(pool_target(cluster, name), holder, (), PLACEHOLDER_PRIORITY) | {"terminationGracePeriodSeconds": 0}
    if others:
        small = {"cpu": "10m", "memory": "32Mi"}
        resources = {"requests": small | {"ephemeral-storage": "16Mi"}, "limits": small}
        pod["initContainers"] = [_container(f"image-{each}", image, ["true"], resources) for each, image in enumerate(others, 1)]
    return parts.deployment(parts.Meta(name, PLACEHOLDER_NAMESPACE, "placeholder"), pod, pool.placeholders)


def _container(name: str, image: str, command: list[str], resources: Mapping[str, Mapping[str, str | int]]) -> Manifest:
    return {"name": name, "image": image, "command": command, "resources": resources, "securityContext": CONFINED}
