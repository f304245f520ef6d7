"""The policy values that a fleet needs, with headroom and reasons: of a new stack, and of one that grows.

`CEILINGS` are a quarter above what the fleet has, so that a small change needs no new agreement. All other values are exact.
A `why` has a part for each value, "maxGpus: Full pools have 8 GPUs …". So the reason of a changed value goes, and no other one.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple

from fleet.facts.hardware import ON_DEMAND, SPOT
from fleet.facts.pricing import Money, average, rounded_up, total
from fleet.facts.tables import rows
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.workloads import PoolWorkload
from gpu_ci.offline.judge import configure
from gpu_ci.offline.plan import Plan
from policies.rules import RULES
from policies.rules.instance_type_allowed import allows
from policies.rules.read import gpus

HEADROOM = 25
"""Percent."""
CEILINGS = dict.fromkeys(("maxPerWorkload", "maxGpusPerPool", "maxGpusPerMachineSet", "maxGpus", "worstUsdPerHour"), 1.0)
CEILINGS["idleUsdPerHour"] = 0.1
"""The values with headroom, and the step to which each is rounded up."""
_OF_FLEET = ("maxGpus", "worstUsdPerHour", "idleUsdPerHour")
"""Ceilings that a new stack has also where its fleet needs less than the default."""
_FLOORS = ("minTypes", "minZones")
"""What a fleet needs lower; it needs all others higher."""

_REGISTRY = re.compile(r'add "([^"]+)" to \S+ \S*\bextraRegistries')
"""How the message of a policy names a registry that its list lacks (`policies.rules.rule.entry`)."""

Entry = Mapping[str, Any]


class Need(NamedTuple):
    """What a fleet needs of one value of a policy: the exact number, or the entries that a list has to have."""

    policy: str
    key: str
    least: Any
    why: str
    limit: float | None = None
    """A limit that a person chose, which replaces the headroom."""

    @property
    def value(self) -> Any:
        """The value to write."""
        step = CEILINGS.get(self.key)
        if self.limit is not None or step is None:
            return self.least if self.limit is None else self.limit
        return _plain(math.ceil(round(self.least * (1 + HEADROOM / 100) / step, 6)) * step)

    @property
    def reason(self) -> str:
        """The part of `why` for this value."""
        room = f", and {HEADROOM} % more are headroom" if self.limit is None and self.key in CEILINGS else ""
        return f"{self.why}{room}."


def new_entries(fleet: Fleet, kind: str, day: date, budget: float | None = None) -> dict[str, Entry]:
    """The entries of a new stack of this kind, by policy: the values that its policies would refuse, its ceilings, and `why`.

    `budget` is the ceiling of the worst hour in USD; None for that of the fleet with headroom.
    """
    enabled = {rule.id for rule in RULES if rule.levels[kind] != "disabled"}
    chosen: dict[str, list[Need]] = {}
    for need in needs(fleet, day, budget):
        default = _defaults(need.policy, day)[need.key]
        needed = need.key in _OF_FLEET or (need.value < default if need.key in _FLOORS else need.value > default)
        if need.policy in enabled and need.value and needed:
            chosen.setdefault(need.policy, []).append(need)
    return {policy: _entry({}, of_policy) for policy, of_policy in chosen.items()}


def grown(plan: Plan, entries: Mapping[str, Any] | None = None) -> dict[str, Entry]:
    """The new entries of the policies that refuse a plan and lack what its fleet needs, each as a whole.

    `entries` are those of the stack today, if they are to keep what they have.
    """
    if not (refused := {verdict.rule for verdict in (*plan.blocked(), *plan.late())}):
        return {}
    today = {configured.policy.id: configured.config for configured in plan.policies}
    chosen: dict[str, list[Need]] = {}
    for need in (*needs(plan.fleet, plan.as_of, types=_types(today["instance-type-allowed"], plan.as_of)), *_registries(plan)):
        now = today[need.policy][need.key]
        lacking = need.least and (need.least < now if need.key in _FLOORS else isinstance(now, list | tuple) or need.least > now)
        if need.policy in refused and lacking:
            chosen.setdefault(need.policy, []).append(need)
    return {policy: _entry((entries or {}).get(policy, {}), of_policy) for policy, of_policy in chosen.items()}


def _registries(plan: Plan) -> Iterator[Need]:
    """The repositories of images that are in no allowed registry."""
    found = [name for verdict in plan.blocked() if verdict.rule == "images-pinned" for name in _REGISTRY.findall(verdict.message)]
    if lacking := list(dict.fromkeys(found)):
        yield Need("images-pinned", "extraRegistries", lacking, f"Images of the stack come from {', '.join(lacking)}")


def needs(fleet: Fleet, day: date, budget: float | None = None, types: Collection[str] | None = None) -> Iterator[Need]:
    """What a fleet needs of each value that its size decides. `types` are the machine types that are allowed already."""
    clusters = [cluster for _, cluster in fleet.clusters_by_name()]
    buying = ((name, cluster) for name, cluster in fleet.clusters_by_name() if provider_of(cluster).cloud)
    bought = {f"{name}/{pool}": held for name, cluster in buying for pool, held in cluster.pools.items()}
    runners = {f"{name}/{runner}": held for name, one in fleet.clusters_by_name() for runner, held in one.runners.items()}
    sets = {name: (runner.span.max, runner.whole_machine) for name, runner in runners.items()}
    machines = {name: span * whole.types[0].gpus for name, (span, whole) in sets.items() if whole is not None}
    yield from _of_jobs(clusters)
    yield from _of_spot(clusters, bought)
    yield from _of_idle(bought, {name: runner.span.min for name, runner in runners.items() if _takes_gpus(runner)})
    pools = {name: _gpus(pool) for name, pool in bought.items()}
    for key, sizes, words in (("maxGpusPerPool", pools, "pool"), ("maxGpusPerMachineSet", machines, "set of VMs")):
        if sizes:
            largest = max(sizes, key=lambda name: sizes[name])
            yield Need("gpu-pool-max-size", key, sizes[largest], f"The largest {words}, {largest}, has {gpus(sizes[largest])}")
    if pools or machines:
        every = {"Full pools have": sum(pools.values()), "VMs of jobs have": sum(machines.values())}
        parts = ". ".join(f"{words} {gpus(count)}" for words, count in every.items() if count)
        yield Need("stack-gpu-ceiling", "maxGpus", sum(every.values()), parts)
        counted = bill.bill(fleet, day)
        idle, worst = average(counted), total(counted)[1]
        origin = "" if budget is None else f", and the budget is {budget:.2f}"
        limit = None if budget is None else round(budget, 2)
        yield Need("stack-cost-ceiling", "worstUsdPerHour", worst.usd, f"The worst hour costs {_usd(worst)} USD{origin}", limit)
        yield Need("stack-cost-ceiling", "idleUsdPerHour", idle.usd, f"An hour without jobs costs {_usd(idle)} USD")
    rooms = [provider_of(cluster).system_machines(cluster) for cluster in clusters]
    names = [name for pool in bought.values() for name in pool.instance_types]
    names += [machine.name for _, whole in sets.values() if whole is not None for machine in whole.types]
    names += [machine.name for room in rooms if room is not None for machine in room[0]]
    allowed = tuple(_types({}, day) if types is None else types)
    if lacking := [name for name in dict.fromkeys(names) if not allows(allowed, name)]:
        yield Need("instance-type-allowed", "extraTypes", lacking, f"Pools, machines or controllers use {', '.join(lacking)}")


def _of_jobs(clusters: Collection[Cluster]) -> Iterator[Need]:
    pods = [runner for cluster in clusters for runner in cluster.pod_runners.values()]
    works = [work.units for cluster in clusters for work in cluster.workloads.values() if isinstance(work, PoolWorkload)]
    largest = max((*(runner.gpus for runner in pods), *works), default=0)
    for key in ("maxPerContainer", "maxPerPod"):
        yield Need("gpu-limit-ceiling", key, largest, f"The largest job takes {gpus(largest)}")
    together = max((runner.gpus * runner.span.max for runner in pods), default=0)
    yield Need("gpu-limit-ceiling", "maxPerWorkload", together, f"All runners of the largest set take {gpus(together)}")


def _of_spot(clusters: Collection[Cluster], bought: Mapping[str, Pool]) -> Iterator[Need]:
    if not (spot := [pool for pool in bought.values() if _on_spot(pool)]):
        return
    similar = min((pool.instance_types for pool in spot), key=len)
    types = f"The types with these GPUs and of similar size are {', '.join(similar)}"
    yield Need("spot-diversified", "minTypes", len(similar), types)
    in_region = {row["region"]: len(row["zones"].split()) for row in rows("zones.csv")}
    zones = min(len(cluster.node_zones) or in_region.get(cluster.region, 2) for cluster in clusters)
    yield Need("spot-diversified", "minZones", zones, f"Zones of the nodes: {zones}")
    behind = max(map(_behind, clusters))
    yield Need("spot-with-fallback", "maxFallback", behind, f"Nodes of the largest fallback pool: {behind}")


def _behind(cluster: Cluster) -> int:
    """Nodes of the largest fallback: each runner class on spot has its smallest pool on demand as one."""
    named = ([cluster.pools[pool] for pool in runner.ordered] for runner in cluster.pod_runners.values())
    spans = ([pool.nodes.max for pool in pools if pool.capacity == ON_DEMAND] for pools in named if any(map(_on_spot, pools)))
    return max((min(span) for span in spans if span), default=0)


def _on_spot(pool: Pool) -> bool:
    return pool.capacity == SPOT


def _of_idle(bought: Mapping[str, Pool], waiting: Mapping[str, int]) -> Iterator[Need]:
    """Nodes and runners that wait for jobs. Capacity that is paid anyway may wait."""
    unpaid = {name: pool for name, pool in bought.items() if _gpus(pool) and pool.capacity in (SPOT, ON_DEMAND)}
    least = {name: pool.nodes.min for name, pool in unpaid.items()} | dict(waiting)
    if any(least.values()):
        kept = ", ".join(f"{name} {count}" for name, count in least.items() if count)
        yield Need("scale-to-zero", "minAllowed", max(least.values()), f"These keep nodes or runners without jobs: {kept}")


def _takes_gpus(runner: Any) -> bool:
    return runner.whole_machine is not None or bool(getattr(runner, "gpus", 0))


def _gpus(pool: Pool) -> int:
    return pool.nodes.max * max(machine.gpus for machine in pool.machines)


def _types(entry: Any, day: date) -> tuple[str, ...]:
    """The machine types that an entry of instance-type-allowed allows."""
    config = {**_defaults("instance-type-allowed", day), **(entry if isinstance(entry, Mapping) else {})}
    return (*config["types"], *config["extraTypes"])


def _defaults(policy: str, day: date) -> Mapping[str, Any]:
    return configure([rule for rule in RULES if rule.id == policy], {}, day)[0].config


def _usd(money: Money) -> str:
    """Dollars with cents, as a plan shows them: a bound is rounded up."""
    return f"{rounded_up(money.usd) if money.at_most else money.usd:.2f}"


def _plain(number: float) -> float:
    rounded = round(number, 2)
    return int(rounded) if rounded == int(rounded) else rounded


# -- why ---------------------------------------------------------------------------------------------------------------


def _entry(before: Any, needed: Collection[Need]) -> Entry:
    """The entry with the values that are needed and the reasons for them. A list keeps its entries after the new ones."""
    old = before if isinstance(before, Mapping) else {} if before == {} else {"enforcementLevel": before}
    values = {need.key: [*need.value, *old.get(need.key, ())] if isinstance(need.value, list) else need.value for need in needed}
    return {**old, **values, "why": why(old, {need.key: need.reason for need in needed})}


def why(old: Entry, reasons: Mapping[str, str]) -> str:
    """The reasons of an entry after values changed: the new ones, and those of its other values in their old words."""
    others = {key for key in old if key not in (*reasons, "why", "exceptions")}
    key = f"(?:{'|'.join(map(re.escape, (*old, *reasons)))})"
    words, *labeled = re.split(rf"(?:^|\s+)\b({key}(?: and {key})*): ", str(old.get("why", "")))
    parts = [(label.split(" and "), part) for label, part in zip(labeled[::2], labeled[1::2], strict=True)]
    if words:  # of a person, for all values that have no words of their own
        labels = {"why", "exceptions", *(name for names, _ in parts for name in names)}
        parts.insert(0, ([name for name in old if name not in labels], words))
    kept = [(" and ".join(name for name in names if name in others), part) for names, part in parts]
    # The entries that a list had keep their reason.
    lists = {name: part for names, part in parts for name in names if isinstance(old.get(name), list)}
    new = [(name, " ".join(filter(None, (lists.get(name), reason)))) for name, reason in reasons.items()]
    order = [*old, *reasons]
    ordered = sorted((part for part in (*kept, *new) if part[0]), key=lambda part: order.index(part[0].split(" ")[0]))
    return " ".join(f"{label}: {part}" for label, part in ordered)
