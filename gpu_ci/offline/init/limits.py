"""The policy values of a new stack: its tables for policies/stacks.toml, computed from the fleet that it has."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from fleet.facts.pricing import Money, average, total
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of
from fleet.settings.pool import Pool
from gpu_ci.offline.init.answers import Answers
from gpu_ci.offline.judge import configure
from policies.rules import RULES


def tables(answers: Answers, fleet: Fleet, day: date) -> str:
    """The stack's tables as TOML, with the values that its kind of stack would refuse and with the ceilings of its money."""
    counted = bill.bill(fleet, day)
    idle, worst = average(counted), total(counted)[1]
    parts = [f'\n[{answers.stack}]\nkind = "{answers.kind}"\n']
    for policy, values, why in _wanted(answers, fleet, idle, worst):
        rule = next(rule for rule in RULES if rule.id == policy)
        (default,) = configure([rule], {}, day)
        needed = {key: value for key, value in values.items() if _needed(key, value, default.config[key])}
        if needed and rule.levels[answers.kind] != "disabled":
            lines = [f"{key} = {json.dumps(value)}" for key, value in needed.items()]
            parts.append("\n".join((f"\n[{answers.stack}.{policy}]", *lines, f"why = {json.dumps(why)}\n")))
    return "".join(parts)


def _needed(key: str, value: Any, default: Any) -> bool:
    """Whether a value must be set. Ceilings of GPUs, money and types are those of the fleet, also below the defaults."""
    if key in ("maxGpus", "worstUsdPerHour", "idleUsdPerHour", "types"):
        return bool(value)
    # A stack lowers these two, and raises all others.
    return bool(value < default if key in ("minTypes", "minZones") else value > default)


def _wanted(answers: Answers, fleet: Fleet, idle: Money, worst: Money) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """(policy, values, why) of each policy that has a ceiling, as the fleet needs it."""
    clusters = [cluster for _, cluster in fleet.clusters_by_name()]
    pods = [runner for cluster in clusters for runner in cluster.pod_runners.values()]
    bought = [pool for cluster in clusters if provider_of(cluster).cloud for pool in cluster.pools.values()]
    spot = [pool for pool in bought if pool.capacity == "spot"]
    runners = [runner for cluster in clusters for runner in cluster.runners.values()]
    sets = [(runner.span.max, runner.whole_machine) for runner in runners if runner.whole_machine is not None]
    full, machines = sum(map(_gpus, bought)), sum(span * whole.types[0].gpus for span, whole in sets)
    largest_job = max((runner.gpus for runner in pods), default=0)
    largest_set = max((runner.gpus * runner.span.max for runner in pods), default=0)
    yield (
        "gpu-limit-ceiling",
        {"maxPerContainer": largest_job, "maxPerPod": largest_job, "maxPerWorkload": largest_set},
        f"GPUs of the largest job: {largest_job}. GPUs of all runners of the largest set: {largest_set}.",
    )
    similar = ", ".join(dict.fromkeys(kind for pool in spot for kind in pool.instance_types))
    zones = min((len(cluster.node_zones) for cluster in clusters if cluster.node_zones), default=len(answers.zones))
    yield (
        "spot-diversified",
        {"minTypes": min((len(pool.instance_types) for pool in spot), default=2), "minZones": zones if spot else 2},
        f"Zones of {answers.region}: {zones}. Types with these GPUs and of similar size: {similar}.",
    )
    most, largest = max(map(_gpus, bought), default=0), max((span * whole.types[0].gpus for span, whole in sets), default=0)
    yield (
        "gpu-pool-max-size",
        {"maxGpusPerPool": most, "maxGpusPerMachineSet": largest},
        f"The largest pool has {most} GPUs" + (f", and the VMs of a runner set {largest}." if largest else "."),
    )
    if bought or sets:
        yield (
            "stack-gpu-ceiling",
            {"maxGpus": full + machines},
            " and ".join([f"Full pools have {full} GPUs"] * bool(full) + [f"VMs of jobs have {machines} GPUs"] * bool(machines))
            + ".",
        )
        ceiling = answers.budget if answers.budget is not None else math.ceil(worst.usd)
        origin = f"The budget is {ceiling:.2f}" if answers.budget is not None else f"The ceiling is {ceiling}"
        yield (
            "stack-cost-ceiling",
            {"worstUsdPerHour": round(ceiling, 2), "idleUsdPerHour": math.ceil(idle.usd * 10) / 10},
            f"{origin} USD an hour: the worst hour costs {worst.usd:.2f} USD, and an hour without jobs {idle.usd:.2f}.",
        )
    rooms = [provider_of(cluster).system_machines(cluster) for cluster in clusters]
    system = [machine.name for room in rooms if room is not None for machine in room[0]]
    shapes = [machine.name for _, whole in sets for machine in whole.types]
    types = dict.fromkeys([*(kind for pool in bought for kind in pool.instance_types), *shapes, *system])
    yield "instance-type-allowed", {"types": list(types)}, "The instance types of this fleet. No other type may be bought."


def _gpus(pool: Pool) -> int:
    return pool.nodes.max * max(machine.gpus for machine in pool.machines)
