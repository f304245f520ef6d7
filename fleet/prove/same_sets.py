"""Runner sets that are one class in several clusters: sets with the same labels, of which GitHub may give a job to any.

GitHub does not document how it chooses one of them, and the choice has no setting (actions-runner-controller#4004). A set also
takes jobs that its cluster cannot place, because its maximum is a fixed number (actions-runner-controller#4515). So every
assignment must be acceptable, also one of all jobs to one cluster.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain

from fleet.charts.container_jobs import own_runner
from fleet.facts.flow import taken
from fleet.facts.hardware import SPOT
from fleet.facts.pricing import span
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.prove.placement import Host, fit, pool_hosts
from fleet.prove.runner_pods import runner_ask
from fleet.providers.fleet import Fleet
from fleet.providers.installed import runner_prices
from fleet.settings.cluster import Cluster
from fleet.settings.pod_template import PodFields
from fleet.settings.runner import PodRunner, Runner


class Set(Record):
    """A runner set of pods, with the name and the settings of its cluster."""

    cluster: str
    settings: Cluster
    name: str
    runner: PodRunner

    @property
    def called(self) -> str:
        """The set as `sameAs` names it."""
        return f"{self.cluster}/{self.name}"

    @property
    def spot_pools(self) -> list[str]:
        """Its pools of spot machines, in order."""
        return [name for name in self.runner.ordered if self.settings.pools[name].capacity == SPOT]


def pod_sets(fleet: Fleet) -> dict[str, Set]:
    """Every runner set of pods, by cluster/set."""
    return {
        f"{cluster}/{name}": Set(cluster, settings, name, runner)
        for cluster, settings in fleet.clusters_by_name()
        for name, runner in settings.pod_runners.items()
    }


def classes(fleet: Fleet) -> dict[str, tuple[Set, ...]]:
    """The sets of each class that several clusters have, in order, by the set that the others name. That set is the first."""
    sets = pod_sets(fleet)
    by_first: dict[str, tuple[Set, ...]] = {}
    for member in sorted(sets.values(), key=lambda member: (member.runner.same_as_order or math.inf, member.cluster)):
        if (first := member.runner.same_as) in sets:
            by_first[first] = (*by_first.get(first, (sets[first],)), member)
    return by_first


def class_of(set_name: str, runner: Runner) -> str:
    """The set that stands for all sets of a class, as cluster/set. `called` is the runner's own set."""
    return (runner.same_as or set_name) if isinstance(runner, PodRunner) else set_name


def difference(fleet: Fleet, ours_set: Set, their_set: Set) -> str:
    """The first property in which two sets of a class differ and which a job may notice, in words. Empty if there is none."""
    ours, theirs = _properties(fleet, ours_set), _properties(fleet, their_set)
    texts = (f"{name} is {ours[name]} here and {theirs[name]} there" for name in ours if ours[name] != theirs[name])
    return next(chain(texts, _pod_differences(ours_set.runner, their_set.runner)), "")


def _pod_differences(ours: PodFields, theirs: PodFields) -> Iterator[str]:
    """What the pods of two sets have not in common. An error line shows no value, because one may be private."""
    mine, other = (fields.model_dump(by_alias=True, include=set(PodFields.model_fields)) for fields in (ours, theirs))
    for name in mine:
        if mine[name] != other[name]:
            here, there = (value if isinstance(value, Mapping) else {} for value in (mine[name], other[name]))
            keys = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
            yield f"{name} is not the same here and there{': compare ' if keys else ''}{', '.join(keys)}"


def _properties(fleet: Fleet, member: Set) -> dict[str, str]:
    runner = member.settings.with_image(member.runner)
    pools = [member.settings.pools[name] for name in member.runner.ordered]
    return {
        "label list": ", ".join(sorted(map(str.lower, runner.labels))) or "none",
        "GitHub scope": fleet.scope_of(member.cluster, runner).url,
        "group": fleet.group_of(member.cluster, runner),
        # Providers differ in what isolates jobs: OKE enforces no network policies.
        "provider": member.settings.provider,
        "privateEgress": ", ".join(map(str, sorted(member.settings.private_egress))) or "none",
        "BuildKit's namespace": ", ".join(member.settings.builders_of(member.name)) or "none",
        "GPU": ", ".join(sorted({machine.gpu.name for pool in pools for machine in pool.machines if machine.gpu})) or "none",
        "gpus": str(runner.gpus),
        "sharing": ", ".join(sorted({"whole GPUs" if pool.sharing is None else pool.sharing.unit for pool in pools})),
        "cpu": f"{cpu_text(runner.cpu.request)} to {cpu_text(runner.cpu.limit)}",
        "memory": f"{memory_text(runner.memory.request)} to {memory_text(runner.memory.limit)}",
        "shm": memory_text(runner.shm),
        "scratch": memory_text(runner.scratch),
        "image": runner.image or "the default",
        "containers": runner.containers,
        "podSecurity": runner.pod_security,
        "services": f"{runner.services.most} of {cpu_text(runner.services.cpu)} and {memory_text(runner.services.memory)}",
        "cloud role": runner.cloud_role or "none",
        # Who can read a job depends on it, and how long the job lasts.
        "keepFailed": f"{keep.time}s for {keep.group}" if (keep := runner.keep_failed) is not None else "none",
        "role": "release" if any(pool.role == "release" for pool in pools) else "burst",
        "capacity": "spot" if any(pool.capacity == "spot" for pool in pools) else "not spot",
    }


def shortfalls(sets: Iterable[Set], *, alone: bool = False) -> Iterator[tuple[Set, int, int]]:
    """(set, nodes that its maximum needs, nodes that its pools always leave it) of each set for which these are fewer.

    The other sets of its pools may be anywhere in their own pools, so they take as many of its nodes as they can: a maximum flow.
    A runner takes its part of a node of the type that holds the fewest. A set that fits on no node has its own error. With
    `alone` the other sets take nothing. The own pods of runners whose jobs run in containers take their part of their pool.
    """
    nodes: dict[str, dict[str, Fraction]] = {}
    for member in sets:
        # The own pods of runners whose jobs run in containers may share a pool without GPUs with jobs.
        own = {f"{name} (runners)": own_runner(row) for name, row in member.settings.pod_runners.items() if row.runner_pool}
        users = {**member.settings.pod_runners, **own}
        if member.cluster not in nodes:
            hosts = pool_hosts(member.settings)
            nodes[member.cluster] = {name: _nodes(runner, hosts) for name, runner in users.items()}
        needed = nodes[member.cluster][member.name]
        room = {name: Fraction(member.settings.pools[name].nodes.max) for name in member.runner.ordered}
        # Sets that share the same of these pools take the same part, so a flow has one demand for each distinct list of pools.
        demand: dict[str, Fraction] = {}
        pools: dict[str, list[str]] = {}
        beside = users if not alone else users.keys() & {f"{member.name} (runners)"}
        for name, runner in ((name, users[name]) for name in beside):
            if name != member.name and (shared := [pool for pool in runner.ordered if pool in room]):
                key = " ".join(sorted(shared))
                pools[key] = shared
                demand[key] = demand.get(key, Fraction(0)) + nodes[member.cluster][name]
        all_nodes = sum(room.values())
        if needed + sum(demand.values()) > all_nodes:
            available = all_nodes - sum(taken(demand, room, pools).values())
            if needed > available:
                yield member, math.ceil(needed), math.floor(available)


def _nodes(runner: PodRunner, hosts: Mapping[str, Host]) -> Fraction:
    """The nodes that the most runners of a set take."""
    ask = runner_ask(runner)
    rooms = (fit(ask, machine, hosts[pool]).count for pool in runner.ordered for machine in hosts[pool].machines)
    return Fraction(runner.span.max, room) if (room := min(rooms)) else Fraction(0)


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for each class: the runners that every assignment of GitHub gives, and the prices."""
    for sets in classes(fleet).values():
        least = min(sets, key=lambda member: member.runner.span.max)
        most = sum(member.runner.span.max for member in sets)
        each_price = ", ".join(f"{member.cluster} {_price(member)}" for member in sets)
        names = " and ".join(member.called for member in sets)
        yield (
            f"{names} have the same labels ({', '.join(least.runner.labels)}), and GitHub may give all jobs to "
            f"{least.cluster}: count on {least.runner.span.max}, not {most} runners "
            f"(docs/fallback.md#several-clusters); in order, for the action choose-runner: labels: "
            f"{' '.join(member.name for member in sets)}; a runner-hour costs {_price(*sets)} USD ({each_price})"
        )


def _price(*sets: Set) -> str:
    """USD an hour of a runner of any of the sets, over all pools of their orders."""
    low, high = span(price for member in sets for price in runner_prices(member.settings, member.runner))
    return str(high) if low == high else f"{low} to {high}"
