"""What a plan says although no setting is wrong: quotas, capacity to ask for, labels, reruns, fallback, room of monitoring."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import permutations

from fleet.charts.chart import Where
from fleet.charts.container_jobs import OWN_POD
from fleet.facts.groups import grouped
from fleet.facts.hardware import Machine
from fleet.facts.offer import Offer
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.remark import Remark, costs, said, todo
from fleet.prove import same_sets, topology
from fleet.prove.launchers import system_room
from fleet.prove.placement import Placement, offered, requested
from fleet.providers.fleet import Fleet
from fleet.providers.installed import monitoring_pods
from fleet.providers.phases import prepare_timeout
from fleet.providers.registry import provider_of
from fleet.settings.runner import PodRunner, Runner

PAGE = "docs/troubleshooting.md#by-name-it-runs-by-labels-it-waits"
_BY_US = "github.run_attempt > {} && github.triggering_actor == 'github-actions[bot]'"
BY_US = _BY_US.format(1)
"""Whether the action rerun-once started this attempt: a person's rerun has the person's name (docs.github.com, github context).
GitHub compares the text `run_attempt` with a number as a number (docs.github.com, expressions)."""
_PLACES: dict[Where, str] = {"system pool": "of the system pool", "all nodes": "of each node", "GPU nodes": "of each GPU node"}


def quotas(fleet: Fleet) -> Iterator[str]:
    """One line for each quota of a cloud that the account has too little of for full pools, or that the settings do not give."""
    for provider, clusters in fleet.by_provider():
        yield from provider.quota_remarks(clusters.values())


def capacity(fleet: Fleet) -> Iterator[str]:
    """Lines with the command that asks a cloud whether it has machines now. No offline source says that."""
    for name, cluster in fleet.clusters_by_name():
        yield from provider_of(cluster).capacity_remarks(name, cluster)


def ways(fleet: Fleet, cluster: str, name: str, runner: Runner) -> Mapping[str, str]:
    """The `runs-on` of a job that reaches a set, as JSON: by its name and, if the set has labels, by all its labels."""
    group = fleet.group_of(cluster, runner)
    by_way: dict[str, str | list[str]] = {"name": name} | ({"labels": list(runner.labels)} if runner.labels else {})
    return {way: json.dumps({"labels": value, "group": group}) for way, value in by_way.items()}


def labels(fleet: Fleet) -> Iterator[str]:
    """A line for all sets with labels of a server, about whether GitHub gives them a job that names several.

    ARC sends the labels of a set to GitHub only when it creates the set (actions-runner-controller gha-runner-scale-set-0.14.2,
    autoscalingrunnerset_controller.go). Whether a job with several labels always reaches the set is disputed: README.md of
    actions/scaleset says so, and actions-runner-controller#4425 and onedr0p/home-ops#11330 report jobs that wait. A job that
    names the set alone always reaches it.
    """
    labeled = ((cluster, name, runner) for cluster, name, runner in fleet.runner_sets() if runner.labels)
    hosts = ((fleet.scope_of(cluster, runner).host, f"{cluster}/{name}") for cluster, name, runner in labeled)
    for host, names in grouped(hosts).items():
        if host == "github.com":
            doubt = "whether github.com gives a set every job that names several of its labels is disputed"
        elif host.endswith(".ghe.com"):
            doubt = "users of GitHub Enterprise report that jobs with labels wait (actions-runner-controller#4425)"
        else:
            doubt = said("labels_of_server")
        yield said("labels", names=" and ".join(names), doubt=doubt, page=PAGE)


def runs_on(name: str, *again: str) -> str:
    """The `runs-on` of a job on set `name` whose interrupted attempts run again on the sets `again`, in order (docs/rerun.md)."""
    order = [f"{_BY_US.format(attempt)} && '{target}' || " for attempt, target in enumerate(again, 1)]
    if again[0] == name:
        del order[0]
    return f"${{{{ {''.join(reversed(order))}'{name}' }}}}"


def reruns(fleet: Fleet) -> Iterator[str]:
    """A line for each set with `rerunOn`: what workflows write so that interrupted jobs run again on the sets that it names."""
    for cluster, settings in fleet.clusters_by_name():
        for name, runner in settings.pod_runners.items():
            if again := runner.reruns_on:
                twice = f"reruns: 2; labels: {' '.join(dict.fromkeys((name, again[0])))}; " if len(again) > 1 else ""
                on, then, woken = runs_on(name, *again), ", then on ".join(again), " ".join(again)
                yield said("reruns", cluster=cluster, name=name, then=then, on=on, twice=twice, woken=woken)


def fallback(fleet: Fleet) -> Iterator[str]:
    """What the fleet does when a pool has no machines.

    A line for each runner class, flavor and job with several pools, and one for each class that several clusters have.
    """
    for cluster, settings in fleet.clusters_by_name():
        for path, order in settings.pool_orders.items():
            when = provider_of(settings).moves(cluster, settings, order)
            yield f"{cluster}/{path.removeprefix('runners.')}: pools in order: {', '.join(order)}; {when}"
    yield from same_sets.remarks(fleet)


def monitoring(fleet: Fleet) -> Iterator[str]:
    """Machines without metrics, what the parts of monitoring request, and whether the system pool must grow for them.

    It must if the pods of all charts do not fit on the smallest system pool, whose nodes the idle price counts. The bill has the
    volume of monitoring.
    """
    for name, cluster in fleet.clusters_by_name():
        yield from (f"{name}: {remark}" for remark in provider_of(cluster).push_remarks(cluster))
        if not (pods := monitoring_pods(cluster)):
            continue
        if cluster.monitoring is not None and cluster.monitoring.cloudwatch:
            yield costs(f"{name}: the bill does not have what CloudWatch charges for its metrics, by GB: the price is not known")
        taken = []
        for on, where in _PLACES.items():
            if there := [pod for pod in pods if pod.on == on]:
                cpu, memory = sum(pod.cpu for pod in there), sum(pod.memory for pod in there)
                taken.append(f"{cpu_text(cpu)} CPU and {memory_text(memory)} {where}")
        full = system_room(name, cluster, fleet.github) == []
        growth = "; the charts of the cluster do not fit on the system pool at its smallest size, so raise system.nodes"
        yield Remark(f"{name}: monitoring requests {', '.join(taken)}{growth if full else ''}", act=full)


def full_pools(fleet: Fleet) -> Iterator[Remark]:
    """A line for each set whose jobs run in containers and whose pools other sets may fill. Its jobs then fail."""
    sets = [entry for entry in same_sets.pod_sets(fleet).values() if entry.runner.in_containers]
    for member, needed, available in same_sets.shortfalls(sets):
        minutes = prepare_timeout(member.settings, member.runner) // 60
        yield todo(said("full_pools", name=member.called, needed=needed, available=available, minutes=minutes))


def kept_jobs(fleet: Fleet) -> Iterator[Remark]:
    """A line for each set that keeps failed jobs: what one costs at most, and whose jobs the group can look into.

    A kept job may be the last on a node of the most expensive type. It takes no node beyond the maximum of its pool.
    """
    for cluster, settings in fleet.clusters_by_name():
        for name, runner in settings.pod_runners.items():
            if (keep := runner.keep_failed) is None:
                continue
            pools = [settings.pools[pool] for pool in runner.ordered]
            prices = [pool.price(machine.name, settings.region) for pool in pools for machine in pool.machines]
            dearest = max(prices, key=lambda price: (price.unknown, price.usd)).times(keep.time / 3600)
            text = said("kept_pod", cluster=cluster, name=name, minutes=keep.time / 60, dearest=dearest, keep=keep)
            open_group = fleet.group_of(cluster, runner).lower() == "default"
            fix = "; in group default every repository may run such jobs, even a public one: give the class a group of its own"
            yield costs(f"{text}{fix if open_group else ''}", act=open_group)


def scopes(fleet: Fleet) -> Iterator[str]:
    """A line for each GitHub scope of several: its runner sets and their groups."""
    for name, scope in fleet.scopes.items() if len(fleet.scopes) > 1 else ():
        sets = [entry for entry in fleet.runner_sets() if fleet.scope_of(entry[0], entry[2]) is scope]
        listed = ", ".join(f"{cluster}/{called} in group {fleet.group_of(cluster, runner)}" for cluster, called, runner in sets)
        yield f"scope {name}: runners of {scope.url}: {listed}"


def renames(fleet: Fleet) -> Iterator[str]:
    """A line on what the stack file calls otherwise than clouds and clusters."""
    if fleet.renames:
        names = ", ".join(f"{'.'.join(path)} was {first}" for path, first in fleet.renames.items())
        yield f"renamed: {names}; clouds, Kubernetes, GitHub, Pulumi and this plan keep the first names (docs/renaming.md)"


def own_pods(fleet: Fleet) -> Iterator[str]:
    """A line for each cluster whose settings do not show whether its system nodes have room for the runners' own pods."""
    for name, cluster in fleet.clusters_by_name():
        sets = [runner_set for runner_set, runner in cluster.pod_runners.items() if runner.on_system_pool]
        if sets and system_room(name, cluster, fleet.github) is None:
            count = sum(cluster.pod_runners[runner_set].span.max for runner_set in sets)
            size = f"{cpu_text(OWN_POD.cpu)} CPU and {memory_text(OWN_POD.memory)}"
            yield said("own_pods", name=name, count=count, sets=" and ".join(sets), size=size)


# -- NUMA nodes --------------------------------------------------------------------------------------------------------

_Strict = tuple[Placement, PodRunner, topology.Aligned]
"""A placement on a pool whose kubelet can reject pods, its runner, and what the runner asks of NUMA nodes."""


def fragmented(placements: Iterable[Placement]) -> Iterator[str]:
    """A line for each set that pods of another set of its pool can keep off a node, with enough room on the node.

    The scheduler does not know NUMA nodes, so kubelet rejects such a runner (pytorch/ci-infra#696: one pool for 1, 2 and 4 GPUs
    under single-numa-node).
    """
    pools: dict[tuple[str, str], list[_Strict]] = {}
    for placement in placements:
        runner, managers, at = placement.runner, placement.host.managers, (placement.cluster, placement.host.name)
        if isinstance(runner, PodRunner) and managers is not None and topology.strict(managers) and not placement.error:
            pools.setdefault(at, []).append((placement, runner, topology.aligned(runner, managers)))
    for sets in pools.values():
        for large, small in permutations(sets, 2):
            yield from _blocks(large, small)


def _blocks(strict: _Strict, beside: _Strict) -> Iterator[str]:
    (large, runner, pod), (small, small_runner, other) = strict, beside
    for fit in large.fits:
        count = _blocking(fit.machine, fit.offer.gpus, pod, other)
        if count and _has_room(runner, small_runner, count, fit.offer):
            yield todo(
                f"{large.cluster}/{large.host.name}: {count} {'runner' if count == 1 else 'runners'} of {small.runner_set} on a "
                f"{fit.machine.name} can make its kubelet reject {large.runner_set} ({topology.ERROR}) with "
                f"{fit.offer.gpus - count * other.gpus} of {fit.offer.gpus} {large.host.counted} free, because the scheduler "
                f"does not know NUMA nodes; give {large.runner_set} a pool of its own, or set topologyManagerPolicy best-effort"
            )


@cache
def _blocking(machine: Machine, units: int, pod: topology.Aligned, other: topology.Aligned) -> int | None:
    """The fewest pods of the one kind on a machine that leave no NUMA node with room for the other. None if they cannot."""
    nodes = topology.empty(machine, units)
    agreed = nodes is not None and {*nodes.sizes(pod).values(), *nodes.sizes(other).values()} == {1}
    return nodes.blocked_by(pod, other) if nodes is not None and agreed else None


def _has_room(large: PodRunner, small: PodRunner, count: int, offer: Offer) -> bool:
    """Whether the scheduler sees room for one large runner beside `count` small ones."""
    rows = zip(offered(offer), requested(small), requested(large), strict=True)
    return all(free - count * small_size >= large_size for free, small_size, large_size in rows)
