"""A cluster whose classes run jobs in containers, as the program installs it, with a node for each type of its pools."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.loading.config import load
from fleet.prove.nodes import cluster_nodes
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set_of
from fleet.render.container_jobs import container_jobs
from fleet.render.isolation import namespace
from fleet.render.sweeps.api import Api, Object
from fleet.settings.runner import PodRunner
from tests import builders
from tests.hooks.kubelet import CRD, Nodes, tools
from tests.hooks.runner import Runner
from tests.kwok.server import ServerApi, api_server, apply, free_port, running

CLUSTER, CLASS = "usw2", "gpu-t4"
HOME, JOBS = f"runners-{CLASS}", f"runners-{CLASS}-jobs"
EXAMPLE = "examples/Pulumi.container-jobs.yaml"


def example(**changes: Any) -> Fleet:
    """The fleet of the example, with `changes` of its class."""
    config = builders.read_stack(builders.ROOT / EXAMPLE)
    config["clusters"][CLUSTER]["runners"][CLASS] |= changes
    return load(config)


def sets_of(fleet: Fleet) -> dict[str, PodSet]:
    """What the classes with containers are made of, by their names."""
    cluster = fleet.clusters[CLUSTER]
    rows = {name: row for name, row in cluster.runners.items() if isinstance(row, PodRunner) and row.in_containers}
    return {name: pod_set_of(cluster, name, row, fleet.github) for name, row in rows.items()}


@dataclass
class World:
    """The cluster. `sets` are its classes with containers, and `hooks` is the file with GitHub's hooks."""

    api: ServerApi
    nodes: Nodes
    folder: Path
    hooks: Path
    sets: Mapping[str, PodSet]
    numbers: Iterator[int] = field(default_factory=partial(count, 1))

    @contextmanager
    def runner(self, name: str = CLASS, files: Mapping[str, str] = MappingProxyType({})) -> Iterator[Runner]:
        """A runner for one job of a class, as ARC makes it from the values of the scale set's chart, and deletes it."""
        pods = self.sets[name]
        own, template = f"{name}-x7k2p-runner-{next(self.numbers):05}", pods.chart.values["template"]
        pod = manifest("v1", "Pod", own, pods.home) | {"spec": template["spec"]}
        pod["metadata"] |= template.get("metadata", {})
        path = f"/api/v1/namespaces/{pods.home}/pods"
        self.api.call("POST", path, pod)
        path += f"/{pod['metadata']['name']}"
        yield Runner(self.nodes, self.until(lambda: self._running(path)), self.hooks, files)
        self.api.call("DELETE", path, {"gracePeriodSeconds": 0})

    @property
    def left(self) -> list[str]:
        """The pods and Secrets of the jobs' namespaces."""
        places = [(kind, pods.jobs_home) for pods in self.sets.values() for kind in ("pods", "secrets")]
        return [f"{kind}/{one['metadata']['name']}" for kind, home in places for one in self.objects(kind, home)]

    def objects(self, kind: str, namespace: str = JOBS) -> list[Object]:
        """The objects of a kind in a namespace."""
        return list(self.api.list(f"/api/v1/namespaces/{namespace}/{kind}"))

    def as_pod(self, runner: Runner) -> Api:
        """The API server as the process in a runner's pod reaches it."""
        (mount,) = (row for row in runner.pod["spec"]["containers"][0]["volumeMounts"] if "serviceaccount" in row["mountPath"])
        folder = self.nodes.folder / runner.pod["metadata"]["uid"] / "volumes" / mount["name"]
        return Api(f"https://{self.nodes.server[0]}:{self.nodes.server[1]}", folder / "token", folder / "ca.crt")

    def until(self, ready: Callable[[], Any], seconds: float = 30) -> Any:
        """What `ready` returns once it is true. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while not (value := ready()):
            if self.nodes.error:
                raise self.nodes.error
            if time.monotonic() > end:
                raise TimeoutError(
                    f"not ready after {seconds} seconds: {[one.get('status') for one in self.api.list('/api/v1/pods')]}"
                )
            time.sleep(0.1)
        return value

    def _running(self, path: str) -> Object | None:
        pod = self.api.call("GET", path)
        return pod if pod.get("status", {}).get("phase") == "Running" else None


@contextmanager
def world(folder: Path, hooks: Path, fleet: Fleet) -> Iterator[World]:
    """The cluster of a fleet. It ends with the block."""
    sets = sets_of(fleet)
    port = free_port()
    kwok = [
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={folder}/apiserver.crt",
        f"--tls-private-key-file={folder}/apiserver.key",
    ]
    with api_server(folder, ("TaintNodesByCondition",), [*kwok, "--enable-crds=Exec"], tools(folder / "tools"), [CRD]) as api:
        own = {"value": RUNNER_PRIORITY.value, "preemptionPolicy": "Never"}
        apply(api, [manifest("scheduling.k8s.io/v1", "PriorityClass", RUNNER_PRIORITY.name) | own])
        for pods in sets.values():
            app = manifest("v1", "Secret", pods.github_secret, pods.home)
            apply(api, [namespace(pods.home, pods.chart.pod_security), app, *container_jobs(pods)])
        for node in _nodes(cluster_nodes(CLUSTER, fleet.clusters[CLUSTER], fleet.github), port):
            api.call("POST", "/api/v1/nodes", node)
            api.call(
                "PATCH",
                f"/api/v1/nodes/{node['metadata']['name']}/status",
                {"status": node["status"]},
                "application/merge-patch+json",
            )
        scheduler = [f"--kubeconfig={folder}/kubeconfig", "--leader-elect=false", "--secure-port=0"]
        server = ("127.0.0.1", api.port, folder / "apiserver.crt")
        (folder / "nodes").mkdir()
        with running(folder, "kube-scheduler", *scheduler), Nodes(api, folder / "nodes", server).working() as nodes:
            yield World(api, nodes, folder, hooks, sets)


def _nodes(pools: Iterable[Any], port: int) -> Iterator[Object]:
    """A node of each machine type of each pool."""
    for pool in pools:
        for index, machine in enumerate(pool.host.machines):
            labels = {key: min(values) if values else "x" for key, values in pool.labels[index].items()}
            gpus = {"nvidia.com/gpu": str(machine.gpus)} if machine.gpus else {}
            size = {
                "cpu": str(machine.vcpus),
                "memory": f"{machine.memory_mib}Mi",
                "pods": "58",
                "ephemeral-storage": "200Gi",
            } | gpus
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"{pool.host.name}-{machine.name.replace('.', '-')}", "labels": labels},
                "spec": {"taints": [{"key": one.key, "value": one.value, "effect": str(one.effect)} for one in pool.taints]},
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Simulated"}],
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                },
            }
