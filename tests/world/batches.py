"""One batch of random fleets in a real control plane: nodes from zero until nothing changes any more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from fleet.facts.scheduling import POOL_LABEL
from fleet.render.sweeps.quarantine import NODES
from gpu_ci.world import autoscaler
from gpu_ci.world.cloud import Cloud
from gpu_ci.world.parts import Parts
from gpu_ci.world.plane import control_plane
from gpu_ci.world.processes import Processes
from tests.world.fleets import Sample, Seen, objects, pods, seen

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
    "max-nodes-per-scaleup": "1000",
    "address": "127.0.0.1:0",
}
"""Those of the program's chart that decide which node comes; scaling down would take nodes that other pods still need."""
_QUIET, _PATIENCE = 45, 600
"""Seconds without a change after which nothing more comes: the autoscaler waits 30 for pods with GPUs."""


def run(batch: Sequence[Sample], parts: Parts, folder: Path) -> dict[str, Seen]:
    """What each fleet of a batch has in the end."""
    stop = Event()
    with Processes(folder) as processes:
        plane = control_plane(processes, parts)
        api = plane.api
        for entry in objects(batch):
            plane.apply(entry)
        cloud = Cloud(api, {name: group for sample in batch for name, group in sample.groups().items()}, factor=200)
        cloud.start(stop)
        config, end = autoscaler.serve(cloud, folder)
        flags = {**_FLAGS, "cloud-config": config, "kubeconfig": plane.kubeconfig()}
        plane.run("cluster-autoscaler", flags)
        for sample in batch:
            for pod in pods(sample):
                plane.apply(pod)
        last: object = None
        began = changed = time.monotonic()
        while time.monotonic() - changed < _QUIET and time.monotonic() - began < _PATIENCE:
            time.sleep(1)
            processes.require_alive()
            state = (sum("nodeName" in pod["spec"] for pod in api.list("/api/v1/pods")), {**cloud.sizes})
            if state != last:
                last, changed = state, time.monotonic()
        nodes = {}
        for node in api.list(NODES):
            one = cloud.instances[node["metadata"]["name"]]
            nodes[one.name] = (one.group.pool, one.group.price(one.at).usd)
        runners = [pod for pod in api.list("/api/v1/pods") if "class" in pod["metadata"].get("labels", {})]
        stop.set()
        end()
        return {sample.name: seen(sample, nodes, runners) for sample in batch}
