"""Plans a new stack from a temporary folder, and then writes its three files, or none.

The policy values of a new stack are its tables for policies/stacks.toml, computed from the fleet that it has.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fleet.facts.errors import InputError
from fleet.facts.pricing import Money, average, total
from fleet.loading.config import read_fleet
from fleet.prove import bill
from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of
from fleet.settings.budget import MONTH
from fleet.settings.pool import Pool
from gpu_ci.offline.init.answers import Answers, gpus
from gpu_ci.offline.init.parts import Found
from gpu_ci.offline.init.text import text
from gpu_ci.offline.judge import configure
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.policyconfig import STACKS, policy_configs, stacks_text
from policies.rules import RULES

_MOST, _USUAL = 20, 4
"""Nodes of the pool for tests: with a budget at most, and without one."""


@dataclass(frozen=True, slots=True)
class New:
    """A planned stack. `files` has the texts by path below the project; `answers` name the chosen GPU."""

    answers: Answers
    files: Mapping[str, str]
    plan: Plan


def require_free(stack: str, root: Path) -> None:
    """Raise InputError if the stack exists: nothing is ever overwritten."""
    existing = [name for name in _names(stack) if (root / name).exists() or (root / name).is_symlink()]
    existing += [f"{STACKS}: [{stack}]"] * (f"policies/config/{stack}.json" in policy_configs(root))
    if existing:
        raise InputError(f"STACK: stack {stack} exists already ({', '.join(existing)}); give another name, or edit these files")


def _names(stack: str) -> tuple[str, str]:
    return f"Pulumi.{stack}.yaml", f"policies/config/{stack}.json"


def prepared(answers: Answers, found: Found | None, root: Path, day: date) -> New:
    """Choose GPU and sizes, and plan the stack. Nothing below `root` changes. Raises InputError if that gives no clean plan."""
    with TemporaryDirectory(prefix="gpu-ci-init-") as name:
        folder = Path(name)
        stack_file, policies = _names(answers.stack)
        answers, fleet = _sized(answers, found, folder / stack_file, root, day)
        (folder / policies).parent.mkdir(parents=True)
        (folder / STACKS).write_text(stacks_text(root) + tables(answers, fleet, day), encoding="utf-8")
        (folder / policies).write_text(policy_configs(folder)[policies], encoding="utf-8")
        plan = make_plan(answers.stack, root, folder / stack_file, as_of=day, policies_of=folder)
        faults = [refusal.error for refusal in plan.refused] + [verdict.message for verdict in plan.blocked()]
        if faults:
            raise InputError(f"the fleet of these answers does not pass its own plan: {faults[0]}; give other answers")
        files = {path: (folder / path).read_text(encoding="utf-8") for path in (stack_file, STACKS, policies)}
    return New(answers, files, plan)


def _sized(answers: Answers, found: Found | None, path: Path, root: Path, day: date) -> tuple[Answers, Fleet]:
    """Write the stack file: (answers with a GPU, the fleet). A budget has the cheapest GPU, and the most nodes that fit."""
    chosen = replace(answers, gpu=answers.gpu or next(iter(gpus(answers.provider, answers.region)), ""))

    def written(most: int, monthly: int) -> Fleet:
        path.write_text(text(chosen, found, most, monthly), encoding="utf-8")
        return read_fleet(answers.stack, path, root)

    most = _USUAL
    if answers.budget is not None:  # more nodes cost more in the worst hour
        most = bisect_right(range(1, _MOST + 1), answers.budget, key=lambda most: total(bill.bill(written(most, 1), day))[1].usd)
    idle, worst = total(bill.bill(written(max(most, 1), 1), day))
    if most:
        # The alarm's budget covers 160 hours of the worst case in a month: those of the working days.
        return chosen, written(most, math.ceil((idle.usd * MONTH + worst.usd * 160) / 100) * 100)
    raise InputError(
        f"--budget: the smallest fleet with {chosen.gpu} that init writes for these jobs costs {worst.usd:.2f} USD in its "
        f"worst hour ({worst.usd * MONTH:.0f} a month); raise the budget, or name fewer --jobs"
    )


def write(new: New, root: Path) -> None:
    """Write the files, all or none. Raises InputError if one appeared meanwhile or if the folder cannot be written."""
    drafts = {name: root / f"{name}.{os.getpid()}.new" for name in new.files}
    written: list[Path] = []
    try:
        require_free(new.answers.stack, root)
        for name, draft in drafts.items():
            draft.parent.mkdir(exist_ok=True)
            draft.write_text(new.files[name], encoding="utf-8")
        for name in _names(new.answers.stack):
            # Unlike a rename, a link never replaces a file.
            (root / name).hardlink_to(drafts[name])
            written.append(root / name)
        drafts[STACKS].replace(root / STACKS)
    except BaseException as error:
        for path in written:
            path.unlink()
        if isinstance(error, OSError):
            raise InputError(f"STACK: cannot be written ({error.strerror or error}); make the folder writable") from error
        raise
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


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
