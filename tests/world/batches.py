"""Random fleets in a real control plane, some at a time: nodes from zero until nothing changes any more."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from fleet.facts.manifest import manifest
from fleet.facts.scheduling import GPU_RESOURCE, POOL_LABEL
from fleet.render.sweeps.api import Object
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world import autoscaler
from gpu_ci.world.cloud import Cloud
from gpu_ci.world.parts import Parts
from gpu_ci.world.plane import Plane, control_plane
from gpu_ci.world.processes import Processes
from tests.world.fleets import Sample, Seen, objects, pods, seen

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "cluster-autoscaler")
AT_ONCE = 20
"""Fleets at a time. The autoscaler compares every pod with every node group in each of its passes."""
_FLAGS = {
    "cloud-provider": "externalgrpc",
    "expander": "priority,least-waste",
    "balance-similar-node-groups": "true",
    "balancing-label": POOL_LABEL,
    "scan-interval": "200ms",
    "leader-elect": "false",
    "scale-down-enabled": "false",
    "kube-client-qps": "500",
    "kube-client-burst": "1000",
    "address": "127.0.0.1:0",
}
"""Those of the program's chart that decide which node comes; scaling down would take nodes that other pods still need."""
_QUIET, _PATIENCE, _GPU_BUFFER = 12, 400, 30
"""Seconds without a change after which nothing more comes: the scheduler tries a pod again after ten at most. Seconds that a
batch may take. Seconds for which the autoscaler waits for more pods with GPUs (core/static_autoscaler.go at 1.36.1)."""


def run(fleets: Sequence[Sample], parts: Parts, folder: Path) -> Iterator[tuple[Sample, Seen]]:
    """What each fleet has in the end."""
    with Processes(folder) as processes:
        plane = control_plane(processes, parts)
        plane.apply(_oldest())
        began = time.monotonic()
        for first in range(0, len(fleets), AT_ONCE):
            batch = fleets[first : first + AT_ONCE]
            with ThreadPoolExecutor(4) as threads:
                # Objects of one batch need no order but for the namespaces, which are among the first.
                for entry in objects(batch):
                    plane.apply(entry)
                [*threads.map(plane.apply, (pod for sample in batch for pod in pods(sample)))]
            time.sleep(max(0, began + _GPU_BUFFER - time.monotonic()))
            with _cloud(plane, batch) as cloud:
                yield from _settled(plane, cloud, batch).items()
            _clear(plane, batch)


def _oldest() -> dict[str, object]:
    """A pod for no node. The autoscaler waits until the oldest pod with a GPU is 30 s old: so only the first batch waits."""
    container = {"name": "gpu", "image": "example.com/gpu:1", "resources": {"limits": {GPU_RESOURCE: "1000"}}}
    return manifest("v1", "Pod", "oldest", "default") | {"spec": {"containers": [container]}}


@contextmanager
def _cloud(plane: Plane, batch: Sequence[Sample]) -> Iterator[Cloud]:
    """A cloud with the groups of these fleets, and an autoscaler."""
    stop = Event()
    cloud = Cloud(plane.api, {name: group for sample in batch for name, group in sample.groups().items()}, factor=200)
    thread = cloud.start(stop)
    # The autoscaler counts a group as unhealthy while its only node starts, and buys in another zone.
    plane.wait(lambda: sum(map(_ready, plane.api.list(NODES))) == sum(cloud.sizes.values()), "nodes that always run")
    config, end = autoscaler.serve(cloud, plane.folder)
    try:
        plane.run("cluster-autoscaler", {**_FLAGS, "cloud-config": config, "kubeconfig": plane.kubeconfig()})
        yield cloud
    finally:
        plane.processes.stop("cluster-autoscaler", grace=0)
        stop.set()
        thread.join()
        end()


def _ready(node: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))


def _settled(plane: Plane, cloud: Cloud, batch: Sequence[Sample]) -> Mapping[Sample, Seen]:
    """What fleets have when nothing has changed for a while."""
    last: object = None
    began = changed = time.monotonic()
    while time.monotonic() - changed < _QUIET and time.monotonic() - began < _PATIENCE:
        time.sleep(1)
        plane.processes.require_alive()
        listed = [*plane.api.list("/api/v1/pods")]
        state = (
            sum("nodeName" in pod["spec"] for pod in listed),
            {**cloud.sizes},
            sum(one.made for one in [*cloud.instances.values()]),
        )
        if state != last:
            last, changed = state, time.monotonic()
    nodes = {one.name: (one.group.pool, one.group.of.host.machines[one.at].name) for one in cloud.instances.values()}
    runners = [pod for pod in listed if "class" in pod["metadata"].get("labels", {})]
    return {sample: seen(sample, nodes, runners) for sample in batch}


def _clear(plane: Plane, batch: Sequence[Sample]) -> None:
    """Delete what fleets left."""
    now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    system = "/api/v1/namespaces/kube-system/pods"
    places = [f"/api/v1/namespaces/{sample.name}/pods" for sample in batch]
    for path in ("/apis/apps/v1/namespaces/kube-system/daemonsets", *places, NODES, system):
        plane.api.call("DELETE", path, now)
    plane.wait(lambda: not [*plane.api.list(NODES)] and len([*plane.api.list("/api/v1/pods")]) == 1, "clearing")
