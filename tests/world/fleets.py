"""Random fleets: what their plan says of the nodes that jobs get, and what a real scheduler and Cluster Autoscaler do with them.

Many fleets share one control plane. Each has pools and nodes of its own, so none changes what another one gets.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from fleet.charts.cluster_autoscaler import PRIORITIES
from fleet.facts import hardware
from fleet.facts.errors import FleetError
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import PLACEHOLDER_PRIORITIES, POOL_LABEL, RUNNER_PRIORITY, SYSTEM_POOL
from fleet.loading.config import load
from fleet.prove.placement import Placement, node_price, place, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set_of
from fleet.providers.registry import PROVIDERS
from fleet.render.sweeps.api import Object
from fleet.settings.runner import PodRunner
from gpu_ci.world.cloud import Group, groups
from tests import builders

_MACHINES = [
    machine
    for machine in hardware.machines("aws")
    if machine.arch == "x86_64" and (machine.gpu is None or (machine.gpus and machine.gpu.vendor == "nvidia"))
]
_ALIKE: dict[tuple[object, ...], list[hardware.Machine]] = defaultdict(list)
for _machine in _MACHINES:
    _ALIKE[_machine.gpu, _machine.gpus].append(_machine)


@dataclass(frozen=True, eq=False)
class Sample:
    """A fleet with one cluster of these settings, and the runners that it gets by class."""

    name: str
    settings: Mapping[str, Any]
    fleet: Fleet
    asked: Mapping[str, int]

    @property
    def cluster(self) -> Any:
        """Its cluster."""
        return self.fleet.clusters[self.name]

    def groups(self) -> dict[str, Group]:
        """The node groups of its pools."""
        every = groups(self.name, self.cluster, self.fleet.github)
        return {name: group for name, group in every.items() if group.pool != SYSTEM_POOL}


def samples(count: int, seed: int, first: int = 0) -> list[Sample]:
    """Random valid fleets."""
    dice, made = random.Random(seed), list[Sample]()  # noqa: S311 - no secret
    while len(made) < count:
        name = f"f{first + len(made)}"
        settings = _cluster(dice, name)
        with suppress(FleetError):
            fleet = loaded(name, settings)
            made.append(Sample(name, settings, fleet, _asked(dice, fleet.clusters[name].pod_runners)))
    return made


def loaded(name: str, settings: Mapping[str, Any]) -> Fleet:
    """The fleet of one cluster. Raises FleetError."""
    return load(builders.config(clusters={name: builders.cluster(**settings)}))


def _cluster(dice: random.Random, name: str) -> dict[str, Any]:
    zones = [f"us-west-2{zone}" for zone in "abc"[: dice.randint(2, 3)]]
    pools: dict[str, Any] = {}
    # Nodes that always run take runners before the first pool does, so only classes with one pool have them.
    warm = dice.random() < 0.2
    for index in range(dice.randint(1, 3)):
        kind = _ALIKE[None, 0] if dice.random() < 0.15 and (None, 0) in _ALIKE else dice.choice([*_ALIKE.values()])
        spot = dice.random() < 0.5
        types = dice.sample(kind, min(len(kind), dice.randint(1, 3)))
        pools[f"{name}-p{index}"] = {
            "instanceTypes": [machine.name for machine in types],
            "capacity": "spot" if spot else "on-demand",
            "role": "burst",
            "nodes": {"min": int(warm and dice.random() < 0.5), "max": dice.randint(1, 4)},
            "disk": f"{dice.choice([100, 200, 400])}Gi",
        }
        if kind[0].gpus and dice.random() < 0.15:
            pools[f"{name}-p{index}"]["sharing"] = {"strategy": "time-slicing", "replicas": dice.choice([2, 4])}
    runners = {f"{name}-c{index}": _runner(dice, pools, warm=warm) for index in range(dice.randint(1, 2))}
    return {"zones": zones, "pools": pools, "runners": runners, "kubernetesVersion": "1.36"}


def _runner(dice: random.Random, pools: Mapping[str, Any], *, warm: bool) -> dict[str, Any]:
    chosen = dice.sample([*pools], 1 if warm else dice.randint(1, len(pools)))
    cpu, memory = dice.choice([1, 2, 3, 4, 6, 7, 8, 12, 15, 24]), dice.choice([4, 8, 14, 16, 28, 30, 48, 60, 96])
    most = {"cpu": {"request": cpu, "limit": cpu}, "memory": {"request": f"{memory}Gi", "limit": f"{memory}Gi"}}
    scratch = {"scratch": f"{dice.choice([20, 40, 60, 120])}Gi"}
    first = pools[chosen[0]]
    plain = hardware.machine(first["instanceTypes"][0]).gpus == 0
    gpus = 0 if plain else 1 if "sharing" in first else dice.choice([1, 1, 1, 2, 4, 8])
    place = {"pools": chosen} if len(chosen) > 1 else {"pool": chosen[0]}
    return place | most | scratch | {"gpus": gpus, "scale": {"min": 0, "max": dice.randint(1, 12)}}


def _asked(dice: random.Random, runners: Mapping[str, PodRunner]) -> dict[str, int]:
    """A number of runners of each class whose pools no earlier one uses."""
    asked: dict[str, int] = {}
    taken: set[str] = set()
    for name, runner in runners.items():
        if not taken & {*runner.ordered}:
            taken |= {*runner.ordered}
            asked[name] = dice.randint(1, runner.scale.max)
    return asked


# -- what the plan says --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """(least, most) nodes of each pool, (least, most) runners that run of each class and pool, and USD an hour at most."""

    nodes: Mapping[str, tuple[int, int]]
    runners: Mapping[tuple[str, str], tuple[int, int]]
    most_usd: float


def expected(sample: Sample) -> Expected:
    """The plan's word on a fleet's nodes, if all its runners are asked for at once."""
    placements: dict[str, list[Placement]] = defaultdict(list)
    for placement in place(sample.fleet):
        placements[placement.runner_set].append(placement)
    nodes = {name: (pool.nodes.min, pool.nodes.min) for name, pool in sample.cluster.pools.items()}
    runners: dict[tuple[str, str], tuple[int, int]] = {}
    for name, count in sample.asked.items():
        least = most = count
        for one in sorted(placements[name], key=lambda placement: placement.choice):
            sizes = [fitted.count for fitted in one.fits]
            # The plan refuses a set that one of the types cannot hold. A node that runs anyway may be of a larger type.
            worst, best = 0 if one.error else min(sizes), max(sizes)
            pool, room = one.host.name, one.host.count
            # The autoscaler counts by the smallest type, and the cloud may give a larger one.
            warm = sample.cluster.pools[pool].nodes.min
            high = max(warm, min(room, -(-most // worst)) if worst else 0)
            low = max(warm, min(room, -(-least // best)) if worst else 0)
            nodes[pool] = (low, high)
            runners[name, pool] = (min(least, low * worst), min(most, high * best))
            most -= min(most, low * worst)
            least -= min(least, high * best)
    usd = sum(
        math.inf if (price := node_price(sample.cluster, host)).unknown else price.times(nodes[pool][1]).usd
        for pool, host in pool_hosts(sample.cluster).items()
        if nodes[pool][1]
    )
    return Expected(nodes, runners, usd)


# -- what the world does -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Nodes of each pool by machine type, and running runners of each class and pool."""

    nodes: Mapping[str, Mapping[str, int]]
    runners: Mapping[tuple[str, str], int]

    def usd(self, sample: Sample) -> float:
        """USD an hour of the nodes that the cloud gave; 0 for those without a price."""
        pools, region = sample.cluster.pools, sample.cluster.region
        return math.fsum(
            pools[pool].price(machine, region).times(count).usd
            for pool, types in self.nodes.items()
            for machine, count in types.items()
        )


def objects(batch: Iterable[Sample]) -> Iterable[Object]:
    """What a control plane needs before the runners: priorities, namespaces, the DaemonSets of nodes, the autoscaler's order."""
    for priority in (RUNNER_PRIORITY, *PLACEHOLDER_PRIORITIES):
        yield manifest("scheduling.k8s.io/v1", "PriorityClass", priority.name) | {"value": priority.value}
    order: dict[int, list[str]] = defaultdict(list)
    for sample in batch:
        yield manifest("v1", "Namespace", sample.name)
        for level, names in (yaml.safe_load(PROVIDERS["eks"].priorities(sample.name, sample.cluster)) or {}).items():
            order[level] += names
        hosts = {group.pool: group.of.host for group in sample.groups().values()}
        for pool, host in hosts.items():
            yield from (_daemonset(pool, number, one) for number, one in enumerate(host.daemonsets))
    yield manifest("v1", "ConfigMap", PRIORITIES, "kube-system") | {"data": {"priorities": yaml.safe_dump(dict(order))}}


def _daemonset(pool: str, number: int, pod: Any) -> Object:
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    labels = {"of": f"{pool}-{number}"}
    spec = {
        "nodeSelector": {POOL_LABEL: pool},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "containers": [{"name": "agent", "image": "example.com/agent:1", "resources": {"requests": requests}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return manifest("apps/v1", "DaemonSet", labels["of"], "kube-system") | {
        "spec": {"selector": {"matchLabels": labels}, "template": template}
    }


def pods(sample: Sample) -> Iterable[Object]:
    """The runners' pods, as ARC makes them of the chart's template."""
    for name, count in sample.asked.items():
        runner = sample.cluster.pod_runners[name]
        template = pod_set_of(sample.cluster, name, runner, sample.fleet.github).chart.values["template"]
        for number in range(count):
            made = manifest("v1", "Pod", f"{name}-{number}", sample.name)
            made["metadata"]["labels"] = {"class": name}
            made["metadata"]["annotations"] = template["metadata"]["annotations"]
            yield made | {"spec": json.loads(json.dumps(template["spec"])) | {"restartPolicy": "Never"}}


def seen(sample: Sample, nodes: Mapping[str, tuple[str, str]], all_pods: Iterable[Object]) -> Seen:
    """What a fleet has. `nodes` are pool and machine type by the node's name."""
    count: dict[str, Counter[str]] = defaultdict(Counter)
    for pool, machine in nodes.values():
        if pool in sample.cluster.pools:
            count[pool][machine] += 1
    placed = Counter[tuple[str, str]]()
    for pod in all_pods:
        node = pod["spec"].get("nodeName", "")
        if pod["metadata"]["namespace"] == sample.name and node in nodes:
            placed[pod["metadata"]["labels"]["class"], nodes[node][0]] += 1
    return Seen(count, placed)


def differences(sample: Sample, plan: Expected, world: Seen) -> list[str]:
    """Where the world does not do what the plan says."""
    count = {pool: sum(types.values()) for pool, types in world.nodes.items()}
    wrong = [
        f"{pool}: {count.get(pool, 0)} nodes, the plan says {least} to {most}"
        for pool, (least, most) in plan.nodes.items()
        if not least <= count.get(pool, 0) <= most
    ]
    for key in sorted({*plan.runners, *world.runners}):
        least, most = plan.runners.get(key, (0, 0))
        if not least <= world.runners.get(key, 0) <= most:
            wrong.append(f"{key}: {world.runners.get(key, 0)} runners, the plan says {least} to {most}")
    if (usd := world.usd(sample)) > plan.most_usd + 0.001:
        wrong.append(f"{usd:.3f} USD an hour are above {plan.most_usd:.3f}")
    return [f"{sample.name}: {text}; asked {dict(sample.asked)}" for text in wrong]


# -- records -------------------------------------------------------------------------------------------------------------


def recorded(sample: Sample, world: Seen) -> Object:
    """A fleet and what it had in the end, as JSON."""
    runners = [[*key, count] for key, count in sorted(world.runners.items())]
    nodes = {pool: {**types} for pool, types in sorted(world.nodes.items())}
    return {"name": sample.name, "settings": sample.settings, "asked": {**sample.asked}, "nodes": nodes, "runners": runners}


def replayed(entry: Object) -> tuple[Sample, Seen]:
    """What was recorded."""
    sample = Sample(entry["name"], entry["settings"], loaded(entry["name"], entry["settings"]), entry["asked"])
    return sample, Seen(entry["nodes"], {(one, pool): count for one, pool, count in entry["runners"]})
