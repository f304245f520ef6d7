"""Recording rules for costs: USD per hour of nodes, jobs, starting runners, idle GPUs, and everything else of the bill.

A node costs what the bill says for its type. Pods share this cost by the units of the GPU resource that they request. A runner
with a job, and any other pod, is a job. A runner without a job is start. The rest of the node is idle. So
jobs + start + idle = nodes, always. The other lines of the bill have no user. They are one shared part: each at its least count,
and the disks of the nodes that run. The rules run once a minute, so the USD of an hour are `sum_over_time(x[1h]) / 60`.
docs/costs.md explains them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import Any

from fleet.charts.kube_prometheus import sanitized
from fleet.facts import bill as counting
from fleet.facts.pricing import Line, span, total
from fleet.facts.scheduling import INSTANCE_TYPE_LABEL
from fleet.facts.support import EKS_SUPPORT
from fleet.prove.bill import lines
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.render.monitoring.rules.rule import Rule, node_matchers, one_of, record, set_of_space
from fleet.settings.cluster import Cluster
from fleet.settings.github import DEFAULT_SCOPE
from fleet.settings.namespaces import JOBS, runner_namespace
from fleet.settings.pool import Pool

_NODE = "gpu_ci:node_usd_per_hour"
OTHER = "other"
"""The repository of jobs whose repository is not listed, and the team of pods in a namespace of no team."""


def cost_groups(fleet: Fleet, cluster_name: str) -> list[dict[str, Any]]:
    """The rules of one cluster, in the order in which they need each other."""
    cluster = fleet.clusters[cluster_name]
    rules = [rule for name, pool in cluster.pools.items() for rule in _nodes(cluster, name, pool)]
    # Without a series the sum of a cluster of machines alone would be empty, and the alert silent.
    rules += [] if cluster.pools else [record(_NODE, "vector(0)")]
    shared = record("gpu_ci:shared_usd_per_hour", _shared(cluster_name, cluster))
    rules += [*_uses(fleet, cluster), *_teams(fleet, cluster), shared, *_planned(cluster_name, cluster)]
    return [{"name": "gpu-ci-cost", "interval": "1m", "rules": rules}]


def _nodes(cluster: Cluster, name: str, pool: Pool) -> Iterator[Rule]:
    """What each node of a pool costs. A node without a known price has no series."""
    prices = {machine_type: pool.price(machine_type, cluster.region) for machine_type in sorted(pool.instance_types)}
    selector = ",".join(node_matchers(name, pool))
    kind = f"label_{sanitized(INSTANCE_TYPE_LABEL)}"
    _, highest = span(prices.values())

    def rule(types: str, expr: str) -> Rule:
        return record(_NODE, expr, {"pool": name, "instance_type": types, "capacity": pool.capacity})

    all_types = " or ".join(prices)
    choices = {selector: (all_types, highest)}
    if len(set(prices.values())) > 1:
        choices = {f'{selector},{kind}="{machine_type}"': (machine_type, price) for machine_type, price in prices.items()}
        # Own machines have no label with their type. Like the bill, take the most expensive one.
        choices[f'{selector},{kind}!~"{one_of(map(_literal, prices))}"'] = all_types, highest
    for matchers, (types, price) in choices.items():
        if not price.unknown:
            yield rule(types, f"max by (node) (kube_node_labels{{{matchers}}}) * {_number(price.usd)}")
    if pool.reservation is not None and not highest.unknown:
        running = f'(count({_NODE}{{pool="{name}",node!=""}}) or vector(0))'
        # Machines of a reservation are paid for, also without a node.
        yield rule(all_types, f"clamp_min({pool.paid_nodes[0]} - {running}, 0) * {_number(highest.usd)} > 0")


def _uses(fleet: Fleet, cluster: Cluster) -> Iterator[Rule]:
    """What pods, jobs and starting runners cost, and what no pod uses."""
    resources = one_of(dict.fromkeys(sanitized(pool.resource) for pool in cluster.gpu_pools.values()))
    nodes = 'node!=""'
    yield _pods(cluster, resources=resources, nodes=nodes)
    if without := one_of(name for name in cluster.pools if name not in cluster.gpu_pools):
        # Pods on these nodes share the CPUs.
        yield _pods(cluster, resources="cpu", nodes=f'{nodes},pool=~"{without}"')
    own_names, listed = _listed(fleet, cluster), ""
    if own_names:
        jobs = f'kube_customresource_ephemeralrunner_job_info{{repository=~"(?i:{one_of(map(_literal, own_names))})"}}'
        listed = f"{jobs}\nor on (namespace, name) "
    yield record("gpu_ci:job_info", listed=listed, other=OTHER)
    yield from map(record, ("gpu_ci:job_usd_per_hour", "gpu_ci:start_usd_per_hour", "gpu_ci:idle_usd_per_hour"))


def _pods(cluster: Cluster, *, resources: str, nodes: str) -> Rule:
    """What pods cost. The pod of a job in a container has the namespace and the name of its runner, whose job it is."""
    names = one_of(name for name, runner in cluster.runners.items() if runner.needs_container)
    pod = "(.+?)(-workflow|-step-.{8})?" if names else "(.+?)(-workflow)?"
    rule = record("gpu_ci:pod_usd_per_hour", labels={}, pod=pod, resources=resources, nodes=nodes, **set_of_space(cluster))
    if not names:
        return rule
    own = f"({runner_namespace(f'(?:{names})')}){JOBS}"
    return rule | {"expr": f'label_replace({rule["expr"]}, "namespace", "$1", "namespace", "{own}")'}


def _listed(fleet: Fleet, cluster: Cluster) -> tuple[str, ...]:
    """Repositories that keep their name: those of the settings, and those that GitHub scopes of the cluster consist of."""
    scopes = (fleet.github.every[scope].repository for scope in cluster.scopes)
    return tuple(filter(None, scopes)) + (cluster.monitoring.repositories if cluster.monitoring is not None else ())


def _teams(fleet: Fleet, cluster: Cluster) -> Iterator[Rule]:
    """What each team's work costs. A team owns its namespaces (`queues.teams`), and the runner sets of its runner group.

    A runner group and a team with the same name are one team. A group of a named GitHub scope has the scope's name before it,
    because two organizations may have groups of one name. A repository's owner is not a team, because it is the same for all
    repositories of an organization.
    """
    namespaces: defaultdict[str, list[str]] = defaultdict(list)
    for name, runner in cluster.runners.items():
        scope = cluster.scope_of(runner)
        group = runner.group or fleet.github.every[scope].group
        namespaces[group if scope == DEFAULT_SCOPE else f"{scope}/{group}"].append(runner_namespace(name))
    for name, team in (cluster.queues.teams if cluster.queues is not None else {}).items():
        namespaces[name].extend(team.namespaces)
    for name, spaces in namespaces.items():
        yield record("gpu_ci:team_usd_per_hour", labels={"team": name}, matches="=~", spaces=one_of(spaces))
    all_spaces = one_of(space for spaces in namespaces.values() for space in spaces)
    yield record("gpu_ci:team_usd_per_hour", labels={"team": OTHER}, matches="!~", spaces=all_spaces)


def _shared(name: str, cluster: Cluster) -> str:
    """All lines of the bill but those of GPU pools, without GPU nodes, and what each running node adds to them: its disk."""

    of_pools = {f"pool {pool_name}" for pool_name in cluster.pools}

    def of(day: date, one: str = "") -> float:
        paid, fixed = [], []
        for part in PROVIDERS[cluster.provider].bill(name, cluster, day):
            if isinstance(part, Line):
                fixed.append(part)
            elif part.name in cluster.pools:
                # A pool with so many nodes while no job runs.
                paid.append(replace(part, line=replace(part.line, least=int(part.name == one)), windows=()))
            else:
                paid.append(part)
        return total(line for line in (*counting.bill(paid), *fixed) if line.item not in of_pools)[0].usd

    terms = [_over_time(of)]
    for pool in cluster.pools:
        if extra := round(of(date.min, pool) - of(date.min), 9):
            terms.append(f'{_number(extra)} * (count({_NODE}{{pool="{pool}",node!=""}}) or vector(0))')
    return "\n+ ".join(terms)


def _planned(name: str, cluster: Cluster) -> Iterator[Rule]:
    """The totals of the bill: without jobs, and at worst."""
    yield record("gpu_ci:planned_idle_usd_per_hour", _over_time(lambda day: total(lines(name, cluster, day))[0].usd))
    yield record("gpu_ci:planned_worst_usd_per_hour", _over_time(lambda day: total(lines(name, cluster, day))[1].usd))


def _over_time(usd: Callable[[date], float]) -> str:
    """A constant that changes on the days on which a price does: those on which AWS begins to charge for extended support."""
    days = [date.min, *sorted({row.standard_until for row in EKS_SUPPORT.values()})]
    terms = [f"vector({_number(usd(days[0]))})"]
    for before, day in pairwise(days):
        if change := round(usd(day) - usd(before), 9):
            start = int(datetime.combine(day, time(), UTC).timestamp())
            terms.append(f"{_number(change)} * (vector(time()) >= bool {start})")
    return " + ".join(terms)


def _number(usd: float) -> str:
    return f"{usd:.10g}"


def _literal(text: str) -> str:
    """A regular expression for exactly this text. A backslash would need a second one in PromQL."""
    return text.replace(".", "[.]")
