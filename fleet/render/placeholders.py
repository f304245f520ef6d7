"""Placeholder pods: each keeps a node of a pool free for runners. A runner that finds no other node ends one and takes its place.

Afterwards the placeholder waits, and the autoscaler starts another node for it.
"""

from collections.abc import Mapping

from fleet.facts.manifest import Manifest
from fleet.facts.pods import CONFINED
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.scheduling import PLACEHOLDER_PRIORITY
from fleet.facts.versions import RUNNER_IMAGE
from fleet.prove.room import placeholder
from fleet.providers.installed import pool_target
from fleet.render.workloads import parts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE


def placeholders(cluster: Cluster) -> dict[str, Manifest]:
    """The Deployment of each pool that has placeholders, by the name of the pool."""
    return {name: _deployment(cluster, name) for name, pool in cluster.pools.items() if pool.placeholders}


def _deployment(cluster: Cluster, name: str) -> Manifest:
    """As many pods as placeholders, each with the requests of `fleet.prove.room.placeholder`.

    Its containers have the images of the pool's sets, so that a node has them before the first job.
    """
    pool, ask = cluster.pools[name], placeholder(cluster, name)
    amounts = {"cpu": cpu_text(ask.cpu.request), "memory": memory_text(ask.memory.request)}
    disk = {"ephemeral-storage": memory_text(ask.scratch)}
    gpus = {pool.resource: ask.gpus}
    first, *others = dict.fromkeys(cluster.with_image(runner).image or RUNNER_IMAGE for runner in cluster.pod_sets(name).values())
    resources = {"requests": amounts | disk | gpus, "limits": amounts | gpus}
    holder = _container("placeholder", first, ["sleep", "infinity"], resources)
    pod = parts.gpu_pod(pool_target(cluster, name), holder, (), PLACEHOLDER_PRIORITY) | {"terminationGracePeriodSeconds": 0}
    if others:
        small = {"cpu": "10m", "memory": "32Mi"}
        least = {"requests": small | {"ephemeral-storage": "16Mi"}, "limits": small}
        pod["initContainers"] = [_container(f"image-{nth}", image, ["true"], least) for nth, image in enumerate(others, 1)]
    return parts.deployment(parts.Meta(name, PLACEHOLDER_NAMESPACE, "placeholder"), pod, pool.placeholders)


def _container(name: str, image: str, command: list[str], resources: Mapping[str, Mapping[str, str | int]]) -> Manifest:
    return {"name": name, "image": image, "command": command, "resources": resources, "securityContext": CONFINED}
