"""Ways to fill nodes, measured: one stream of jobs on a pool for each way, with the real scheduler and the real autoscaler.

`python -m tests.world.filling --ways default,fillNodes,scheduler --seed 1` needs the programs of `gpu-ci world` on PATH, and
prints the rows of docs/stranded.md. A job is a pod with the spec of its class's runners. It ends when its time is over.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from fleet.charts.cluster_autoscaler import AUTOSCALER, PRIORITIES
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import EPHEMERAL_LABEL, GPU_RESOURCE, HOST_LABEL
from fleet.loading.config import load
from fleet.prove.stranded import Job, Rest, fragment
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from fleet.settings.namespaces import runner_namespace
from gpu_ci.world import autoscaler
from gpu_ci.world.cloud import Cloud, groups
from gpu_ci.world.parts import find
from gpu_ci.world.plane import Followed, Plane, control_plane, delete, path_of
from gpu_ci.world.processes import Processes, free_port
from tests import builders
from tests.fleet.conformance import cluster_charts

WAYS = ("default", "fillNodes", "byGpus", "scheduler")
"""Nothing; the setting; a preference that counts a runner by its GPUs; a second kube-scheduler with `MostAllocated`."""
CLASSES = {1: (0.50, 1800), 2: (0.25, 1800), 4: (0.15, 3600), 8: (0.10, 3600)}
"""Share of all jobs and mean seconds of a class, by its GPUs."""
CPU, MEMORY, NODE = 22, 80, (191_000, 727_000)
"""CPUs and Gi of a job for each GPU; millicores and MiB that a node has for jobs."""
_FILL = {
    "type": "MostAllocated",
    "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU_RESOURCE)],
}


@dataclass
class Way:
    """What one way did: times by job, and node-hours, GPU-hours in use and stranded, most nodes."""

    made: dict[int, float] = field(default_factory=dict)
    placed: dict[int, tuple[float, str, str]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    nodes: float = 0
    useful: float = 0
    stranded: float = 0
    peak: int = 0


def clusters(ways: list[str], least: int, most: int) -> Fleet:
    """A fleet with a pool for each way, and a class for each number of GPUs."""
    span = {"nodes": {"min": least, "max": most}, "disk": "400Gi"}
    pools = {way.lower(): {"instanceTypes": ["g5.48xlarge"], "capacity": "on-demand", "role": "burst", **span} for way in ways}
    runners = {}
    for way in ways:
        for gpus in CLASSES:
            cpu, memory = (dict.fromkeys(("request", "limit"), size) for size in (CPU * gpus, f"{MEMORY * gpus}Gi"))
            size = {"gpus": gpus, "cpu": cpu, "memory": memory, "scale": {"max": most * 8 // gpus}}
            runners[f"{way.lower()}-{gpus}"] = {"pool": way.lower(), **size, "fillNodes": way == "fillNodes"}
    zones = ["us-west-2a", "us-west-2b", "us-west-2c"]
    return load(builders.config(clusters={"w": builders.cluster(zones=zones, pools=pools, runners=runners)}))


def template(fleet: Fleet, name: str) -> Mapping[str, Any]:
    """The template of the pods of a class, as the program makes it."""
    settings = fleet.clusters["w"]
    made: Mapping[str, Any] = pod_set(settings, name, settings.pod_runners[name], fleet.github).values["template"]
    return made


def by_gpus() -> Object:
    """The affinity of the way byGpus."""
    terms = []
    for gpus in CLASSES:
        near = {"labelSelector": {"matchLabels": {"gpus": str(gpus)}}, "namespaceSelector": {}, "topologyKey": HOST_LABEL}
        terms.append({"weight": 10 * gpus, "podAffinityTerm": near})
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def pod(way: str, number: int, template: Mapping[str, Any]) -> Object:
    """The pod of a job."""
    spec = template["spec"]
    chosen = {key: spec[key] for key in ("affinity", "nodeSelector", "tolerations") if key in spec}
    if way == "byGpus":
        chosen["affinity"] = by_gpus()
    if way == "scheduler":
        chosen["schedulerName"] = "fill"
    containers = [{"name": each["name"], "image": "none", "resources": each["resources"]} for each in spec["containers"]]
    gpus = str(spec["containers"][0]["resources"]["limits"][GPU_RESOURCE])
    labels = {EPHEMERAL_LABEL: "True", "way": way, "gpus": gpus}
    metadata = {"name": f"{way.lower()}-{number}", "labels": labels, "annotations": template["metadata"]["annotations"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": chosen | {"containers": containers}}


def second_scheduler(plane: Plane) -> None:
    """A kube-scheduler for the pods that name it."""
    version = "kubescheduler.config.k8s.io/v1"
    arguments = {"apiVersion": version, "kind": "NodeResourcesFitArgs", "scoringStrategy": _FILL}
    content = {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(plane.kubeconfig(plane.tokens["system:kube-scheduler"])),
            "qps": 500,
            "burst": 1000,
        },
        "profiles": [{"schedulerName": "fill", "pluginConfig": [{"name": "NodeResourcesFit", "args": arguments}]}],
    }
    file = plane.folder / "fill.yaml"
    file.write_text(json.dumps(content), encoding="utf-8")
    flags = [f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    plane.processes.start("fill", [plane.parts["kube-scheduler"], *flags], needed=True)


def jobs(given: argparse.Namespace) -> list[tuple[float, int, float]]:
    """When each job comes, its GPUs, and how long it runs, in seconds of the world."""
    dice = random.Random(given.seed)  # noqa: S311 - no secret
    pace = given.load * given.most * 8 / sum(share * gpus * seconds for gpus, (share, seconds) in CLASSES.items())
    stream, at = [], 0.0
    for gpus in dice.choices([*CLASSES], [share for share, _ in CLASSES.values()], k=given.jobs):
        at += dice.expovariate(pace)
        stream.append((at / given.factor, gpus, CLASSES[gpus][1] * dice.uniform(0.5, 1.5) / given.factor))
    return stream


class Measured:
    """A world with a pool for each way."""

    def __init__(self, given: argparse.Namespace, stack: ExitStack) -> None:
        self.given, self.results = given, {way: Way() for way in given.ways.split(",")}
        self.fleet = fleet = clusters([*self.results], given.least, given.most)
        self.settings, self.stream = fleet.clusters["w"], jobs(given)
        sizes = ((gpus, CPU * 1000 * gpus, MEMORY * 1024 * gpus, share) for gpus, (share, _) in CLASSES.items())
        self.lost = fragment([Job(str(gpus), gpus, cpu, memory, share) for gpus, cpu, memory, share in sizes])
        self.threads = stack.enter_context(ThreadPoolExecutor(6))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        self.plane = control_plane(stack.enter_context(Processes(folder)), find())
        self.stop = Event()
        stack.callback(self.stop.set)
        self.cloud = Cloud(self.plane.api, groups("w", self.settings, fleet.github), given.factor)
        self.cloud.start(self.stop)
        self.pods = Followed(self.plane.api, "/api/v1/pods", self.stop)
        file, close = autoscaler.serve(self.cloud, folder)
        stack.callback(close)
        self._prepare()
        self._autoscaler(file)

    def _prepare(self) -> None:
        """Everything that the pods need."""
        data = {"priorities": PROVIDERS["eks"].priorities("w", self.settings)}
        self.plane.apply(manifest("v1", "ConfigMap", PRIORITIES, "kube-system") | {"data": data})
        for name in self.settings.runners:
            self.plane.apply(manifest("v1", "Namespace", runner_namespace(name)))
        # A pod for no node. In every pass the autoscaler waits until the oldest pod with a GPU is 30 s old.
        limits = {"limits": {GPU_RESOURCE: "1000"}}
        spec = {"containers": [{"name": "gpu", "image": "none", "resources": limits}]}
        self.plane.apply(manifest("v1", "Pod", "oldest", "default") | {"spec": spec})
        if "scheduler" in self.results:
            second_scheduler(self.plane)
        # The autoscaler counts a group as unhealthy while its only node starts.
        nodes = Followed(self.plane.api, "/api/v1/nodes", self.stop)
        self.plane.wait(lambda: len([*nodes.values()]) == sum(self.cloud.sizes.values()), "nodes that always run")
        time.sleep(3)

    def _autoscaler(self, file: Path) -> None:
        of_world = {
            "cloud-provider": "externalgrpc",
            "cloud-config": file,
            "kubeconfig": self.plane.kubeconfig(),
            "leader-elect": False,
            "address": "127.0.0.1:0",
            "scan-interval": "500ms",
            "kube-client-qps": 500,
            "kube-client-burst": 1000,
        }
        of_chart = autoscaler.flags(cluster_charts(self.fleet, "w", "filling")[AUTOSCALER].values["extraArgs"], self.given.factor)
        command = [self.plane.parts[AUTOSCALER], *autoscaler.flags(of_world, 1), *of_chart]
        self.plane.processes.start(AUTOSCALER, command, needed=True)
        time.sleep(32)

    def run(self) -> None:
        """Until every job has ended."""
        coming, began, last = deque(enumerate(self.stream)), time.monotonic(), 0.0
        begin, end = self.stream[len(self.stream) // 10][0], self.stream[-1][0]
        while any(len(each.done) < len(self.stream) for each in self.results.values()):
            now = time.monotonic() - began
            while coming and coming[0][1][0] <= now:
                self._submit(coming.popleft()[0], now)
            for each in [*self.pods.values()]:
                if (way := each["metadata"].get("labels", {}).get("way")) and "nodeName" in each["spec"]:
                    number = int(each["metadata"]["name"].rpartition("-")[2])
                    self.results[way].placed.setdefault(number, (now, each["spec"]["nodeName"], path_of(each)))
            hours, last = max(0, min(now, end) - max(last, begin)) * self.given.factor / 3600, now
            for way, result in self.results.items():
                self._count(way, result, now, hours)
            self.plane.processes.require_alive()
            time.sleep(0.1)

    def _submit(self, number: int, now: float) -> None:
        for way, result in self.results.items():
            name = f"{way.lower()}-{self.stream[number][1]}"
            made = pod(way, number, template(self.fleet, name))
            result.made[number] = now
            self.threads.submit(self.plane.api.call, "POST", f"/api/v1/namespaces/{runner_namespace(name)}/pods", made)

    def _count(self, way: str, result: Way, now: float, hours: float) -> None:
        """End jobs whose time is over, and add what the nodes did in these hours."""
        used: defaultdict[str, int] = defaultdict(int)
        for number, (since, node, path) in result.placed.items():
            if number in result.done:
                continue
            if now >= since + self.stream[number][2]:
                result.done.add(number)
                self.threads.submit(delete, self.plane.api, path, gracePeriodSeconds=0)
            else:
                used[node] += self.stream[number][1]
        machines = [one for one in [*self.cloud.instances.values()] if one.group.pool == way.lower()]
        result.nodes += hours * len(machines)
        result.useful += hours * sum(used.values())
        for gpus in (used[one.name] for one in machines if one.made):
            rest = Rest(NODE[0] - CPU * 1000 * gpus, NODE[1] - MEMORY * 1024 * gpus, (0,) * gpus + (1000,) * (8 - gpus), 0)
            result.stranded += hours * self.lost(rest) / 1000
        result.peak = max(result.peak, len(machines))

    def rows(self) -> Iterator[str]:
        """What each way did."""
        for way, result in self.results.items():
            usd = self.settings.pools[way.lower()].price("g5.48xlarge", self.settings.region).usd
            waits: defaultdict[int, list[float]] = defaultdict(list)
            for number, (_, gpus, _) in enumerate(self.stream):
                waits[gpus].append((result.placed[number][0] - result.made[number]) * self.given.factor / 60)
            means = ", ".join(f"{gpus} GPUs {mean(each):.1f}" for gpus, each in sorted(waits.items()))
            yield (
                f"{way}: {result.nodes:.1f} node-hours, {result.useful:.0f} GPU-hours in use, {result.stranded:.1f} stranded, "
                f"{result.nodes * usd / result.useful:.2f} USD per GPU-hour in use, at most {result.peak} nodes; "
                f"mean wait in minutes: {means}; longest for a whole node: {max(waits[8], default=0):.1f}"
            )


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default=",".join(WAYS))
    for name, value in (("seed", 1), ("jobs", 200), ("factor", 60), ("least", 0), ("most", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--load", type=float, default=0.6)
    given = parser.parse_args()
    with ExitStack() as stack:
        measured = Measured(given, stack)
        measured.run()
        for row in measured.rows():
            print(row, flush=True)  # noqa: T201 - the table


if __name__ == "__main__":
    main()
