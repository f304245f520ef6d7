"""Runner classes, workloads and flavors that no pool can run, or that a pool could run only with nodes that never come."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from fleet.facts.groups import grouped
from fleet.facts.nested import part
from fleet.facts.offer import allocatable
from fleet.facts.requests import requests_of
from fleet.facts.scheduling import is_gpu_resource
from fleet.prove import reach
from fleet.prove.pod import SPECS, Pod
from fleet.prove.stranded import Job, Node, compare
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.homes import answer, homes, pod_in, prove
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import RunnerClass, Seen, gpus_of

_WORKLOADS = ("Pod", "Deployment", "StatefulSet", "Job", "CronJob")
_ALL = [{"operator": "Exists"}]
_DEFAULT = "default-scheduler"
_NODES, _DISK = 10, 200 * 1024
"""Nodes of a pool without a maximum in the comparison, and MiB of a disk that limits nothing."""
_ANY_REGION = "us-east-1"
"""For pools whose files name no region: the comparison is about the ratio."""


def unreachable(seen: Seen, _: date) -> Iterator[Finding]:
    """Classes without a pool, with the shortest chain of reasons, and the fix that the proof tried."""
    for one in seen.classes:
        if (found := answer(one, seen)) is not None and _concerned(one, found):
            # The template of a job in a container is in another file.
            yield from _refused("no-pool.class", one.at, one.name, found, one.values, one.pod_at if one.job is None else None)


def _concerned(one: RunnerClass, found: reach.Reach) -> bool:
    """Whether the pools are about a class: it asks for a GPU or names a label of theirs. Others may run on nodes of no file."""
    labels = {key for verdict in found.verdicts for node in verdict.pool.nodes for key in node.labels}
    return bool(gpus_of(one)) or not labels.isdisjoint(part(one.where, "nodeSelector"))


def workloads(seen: Seen, _: date) -> Iterator[Finding]:
    """Objects with a pod that asks for GPUs, and that no pool runs."""
    for keys in seen.of_kind(*_WORKLOADS) if seen.pools else ():
        pod = pod_in(keys)
        if pod is not None and any(amount and is_gpu_resource(name) for name, amount in pod.requests().items()):
            at = next(path[:-1] for path in SPECS if part(keys.value, *path) == pod.spec)
            yield from _refused("no-pool.workload", keys, pod.label, prove(pod, keys.file.path, seen), keys, at)


def flavors(seen: Seen, _: date) -> Iterator[Finding]:
    """Flavors of Kueue whose labels the nodes of no pool have: jobs get quota of them and then no node."""
    for keys in seen.of_kind("ResourceFlavor"):
        labels = {key: str(value) for key, value in keys.mapping("spec", "nodeLabels").items()}
        if labels and seen.pools:
            pod = Pod(
                "ResourceFlavor", keys.text("metadata", "name"), "", {"nodeSelector": labels, "tolerations": _ALL}, "", 1, False
            )
            yield from _refused("no-pool.flavor", keys, pod.name, prove(pod, keys.file.path, seen), keys, None)


def mixes(seen: Seen, _: date) -> Iterator[Finding]:
    """What classes of several sizes strand of a pool if the default scheduler spreads them, and what filling nodes would save."""
    homes_of = grouped((home.pool.name, (one, home)) for one in seen.classes for home in homes(one, seen)[:1] if home.held)
    for pool, pairs in homes_of.items():
        machine, sizes = pairs[0][1].machine, {gpus_of(one) or 0 for one, _ in pairs}
        price = pairs[0][1].node_price(_ANY_REGION)
        fills = any(one.where.get("schedulerName", _DEFAULT) != _DEFAULT for one, _ in pairs)
        if machine is None or machine.gpus < 2 or len(sizes) < 2 or fills:
            continue
        offer = allocatable(machine, _DISK)
        jobs = [_job(one) for one, _ in pairs if gpus_of(one)]
        found = compare(
            jobs, Node(offer.gpus, offer.cpu, offer.memory, price.usd), pairs[0][1].pool.maximum or _NODES, arrivals=400
        )
        wide, full = found["spread"], found["fill"]
        if wide.stranded > full.stranded and wide.usd_per_useful > full.usd_per_useful:
            facts: dict[str, Any] = {"pool": pool, "names": ", ".join(one.name for one, _ in pairs), "machine": machine.name}
            facts |= {"lost": wide.stranded / wide.paid, "dear": wide.usd_per_useful, "cheap": full.usd_per_useful}
            yield said("stranded.mix", pairs[0][1].pool.at, pool, **facts)


def _job(one: RunnerClass) -> Job:
    """A class as the comparison takes it. What share of the jobs it has is not in the files: each class has the same."""
    asks = requests_of(one.where)
    cpu, memory = int(asks.get("cpu", 0) * 1000), int(asks.get("memory", 0) / 2**20)
    return Job(one.name, gpus_of(one) or 0, cpu, memory)


def _refused(
    case: str, at: Keys, subject: str, found: reach.Reach, values: Keys, pod_at: tuple[str, ...] | None
) -> Iterator[Finding]:
    if found.runs or found.nearest is None:
        return
    near = found.nearest
    why = ", and ".join(reason.text for reason in near.reasons)
    fix = ", and ".join(edit.words for edit in found.fix) or "no change of it or of a pool is enough; use another machine"
    facts: dict[str, Any] = {"pool": near.pool.name, "its": near.pool.place, "outcome": near.text, "why": why, "fix": fix}
    edits = (
        [] if pod_at is None else [Edit(values, (*pod_at, *_path(row, found)), row.value) for row in found.fix if row.on == "pod"]
    )
    # Of a pool the words say the fix: each tool writes it in its own way.
    yield said(case, at, subject, edits if len(edits) == len(found.fix) else (), **facts)


def stranded(seen: Seen, _: date) -> Iterator[Finding]:
    """Nodes that are full of a class and have GPUs left."""
    for one in seen.classes:
        for home in homes(one, seen)[:1]:
            if home.stranded and home.machine is not None and home.held:
                facts: dict[str, Any] = {"pool": home.pool.name, "machine": home.machine.name, "gpus": home.machine.gpus}
                yield said("stranded.node", one.at, one.name, held=home.held, idle=home.stranded, **facts)


def _path(edit: reach.Edit, found: reach.Reach) -> tuple[str | int, ...]:
    """The path of a change of the pod, with the index of what it adds to a list."""
    return tuple(_index(found, edit.path[:at]) if step == "-" else step for at, step in enumerate(edit.path))


def _index(found: reach.Reach, path: tuple[str | int, ...]) -> int:
    """Where a new entry of a list goes."""
    value: object = {"spec": found.pod.spec}
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return len(value) if isinstance(value, list) else 0
