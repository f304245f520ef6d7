"""Where classes, workloads and flavors run: those that no pool can run or only with nodes that never come, pools that classes of
several sizes share, pools of one machine type, and the pods of the kubernetes modes.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from fleet.facts.groups import grouped
from fleet.facts.hardware import RESERVED, find
from fleet.facts.nested import items, part, parts
from fleet.facts.offer import allocatable
from fleet.facts.places import leaves
from fleet.facts.requests import requests_of
from fleet.facts.scheduling import is_gpu_resource
from fleet.prove import reach
from fleet.prove.pod import SPECS, Pod
from fleet.prove.stranded import Job, Node, compare
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.formats.manifests import HOOK_TEMPLATE
from gpu_ci.audit.homes import answer, homes, pod_in, prove, proved
from gpu_ci.audit.model import Keys, Pool, RunnerClass, Seen, container, gpus_of, variables
from gpu_ci.audit.rules.pools import most_gpus, reached

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
    """Whether the pools are about a class: it asks for a GPU or names one of their labels. Others may run on nodes of no file."""
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
            spec = {"nodeSelector": labels, "tolerations": _ALL}
            pod = Pod("ResourceFlavor", keys.text("metadata", "name"), "", spec, "", 1, False)
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
        node = Node(offer.gpus, offer.cpu, offer.memory, price.usd)
        found = compare(jobs, node, pairs[0][1].pool.maximum or _NODES, arrivals=400)
        wide, full = found["spread"], found["fill"]
        if wide.stranded > full.stranded and wide.usd_per_useful > full.usd_per_useful:
            names, lost = ", ".join(one.name for one, _ in pairs), wide.stranded / wide.paid
            yield said("stranded.mix", pairs[0][1].pool.at, pool, names=names, on=machine, lost=lost, wide=wide, full=full)


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
    of_pod = [row for row in found.fix if row.on == "pod" and pod_at is not None]
    edits = [Edit(values, (*(pod_at or ()), *_path(row, found)), row.value) for row in of_pod]
    # Of a pool the words say the fix: each tool writes it in its own way.
    yield said(case, at, subject, edits if len(edits) == len(found.fix) else (), near=near, why=why, fix=fix)


def stranded(seen: Seen, _: date) -> Iterator[Finding]:
    """Nodes that are full of a class and have GPUs left."""
    for one in seen.classes:
        for home in homes(one, seen)[:1]:
            if home.stranded and home.machine is not None and home.held:
                yield said("stranded.node", one.at, one.name, home=home)


def _path(edit: reach.Edit, found: reach.Reach) -> tuple[str | int, ...]:
    """The path of a change of the pod, with the index of what it adds to a list."""
    return tuple(_index(found, edit.path[:at]) if step == "-" else step for at, step in enumerate(edit.path))


def _index(found: reach.Reach, path: tuple[str | int, ...]) -> int:
    """Where a new entry of a list goes."""
    value: object = {"spec": found.pod.spec}
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return len(value) if isinstance(value, list) else 0


_KUBE_SCHEDULER = "ACTIONS_RUNNER_USE_KUBE_SCHEDULER"
"""With it the container hooks give the pod of a job to the scheduler; without it they bind it to the runner's node."""
_NO_DISRUPT = "karpenter.sh/do-not-disrupt"


def shared(seen: Seen, _: date) -> Iterator[Finding]:
    """Classes of different sizes on one pool: whole nodes that small jobs take, and NUMA nodes that they fill in parts."""
    here: dict[int, dict[str, int]] = {id(pool): {} for pool in seen.pools}
    for one in seen.classes:
        for pool in reached(one, seen) if gpus_of(one) else ():
            here[id(pool)][one.name] = gpus_of(one) or 0
    for pool in seen.pools:
        size, asked = most_gpus(pool), here[id(pool)]
        small = ", ".join(sorted(name for name, wanted in asked.items() if wanted < size))
        for name, wanted in asked.items():
            if small and wanted == size > 1:
                yield said("shared.whole", pool.at, name, size=size, pool=pool.name, small=small)
        if pool.topology == "single-numa-node" and len({*asked.values()}) > 1:
            mixed = ", ".join(f"{name} ({wanted})" for name, wanted in sorted(asked.items(), key=lambda item: item[1]))
            paths = [path for path, leaf in leaves(pool.at.value) if leaf == pool.topology]
            edits = [Edit(pool.at, path, "best-effort") for path in paths]
            yield said("shared.numa", pool.at, pool.name, edits, mixed=mixed)


def overheads(seen: Seen, _: date) -> Iterator[Finding]:
    """Classes that fit a node alone, and not beside the sidecars of their jobs: the figures that their project counted."""
    for one in seen.classes:
        if (found := answer(one, seen)) is None or not found.runs or not one.overheads:
            continue
        missing = []
        for over in one.overheads:
            spec = replace(found.pod, spec=over.beside(one.where))
            proofs = (proved(pool, spec, Seen() if over.daemon_sets else seen) for pool in reached(one, seen))
            if all(reach.judge(spec, pool).reasons for pool in proofs):
                missing.append(f"{over.name} ({over.cpu}m, {over.memory}Mi)")
        if missing:
            case = "all" if len(missing) == len(one.overheads) else "some"
            names = ", ".join(pool.name for pool in reached(one, seen))
            yield said(f"overhead.{case}", one.at, one.name, overheads=" and ".join(missing), pools=names)


def types(seen: Seen, _: date) -> Iterator[Finding]:
    """Jobs that one machine type alone can run, and pools of which only the weight makes one the fallback of another."""
    users = [reached(one, seen) for one in seen.classes if gpus_of(one) and not one.machines]
    # Without a class in the files, a type that requirements happen to leave alone is one that its people did not choose.
    alone = [[pool] for pool in seen.pools if most_gpus(pool) and not seen.classes and not _chosen(pool)]
    for pools in users or alone:
        bought = [pool for pool in pools if pool.scaler == "karpenter" and {*pool.capacities} - {RESERVED}]
        kinds = {kind for pool in bought for kind in pool.types}
        if len(kinds) == 1 and len(bought) == len(pools) and not any(pool.open_types for pool in bought):
            yield said("types.one", bought[0].at, bought[0].name, type=kinds.pop())
        ranked = sorted(bought, key=lambda pool: -pool.weight)
        if len({pool.weight for pool in ranked}) > 1 and (what := _only(ranked[0], ranked[1])):
            yield said("types.weight", ranked[0].at, ranked[0].name, what=what, next=ranked[1].name)
    for one in seen.classes:
        if len(one.machines) == 1 and one.ephemeral and (machine := find(one.machines[0])) and machine.gpus:
            yield said("types.given-back", one.at, one.name, type=machine.name)


def _chosen(pool: Pool) -> bool:
    return any(leaf in pool.types for _, leaf in leaves(pool.at.file.document.value))


def _only(first: Pool, second: Pool) -> str:
    """What a pool buys alone, so that only its weight leads to the next pool."""
    if len(first.types) == 1:
        return first.types[0]
    return f"{first.capacities[0]} machines" if len(first.capacities) == 1 and first.capacities != second.capacities else ""


def modes(seen: Seen, _: date) -> Iterator[Finding]:
    """What the kubernetes modes need for the pod of a job."""
    for one in seen.classes:
        if not one.mode.startswith("kubernetes"):
            continue
        at = one.values.get("containerMode", "type")
        shaped = [key for key in ("nodeSelector", "tolerations", "affinity") if one.pod.get(key)]
        shaped += [key for key in part(container(one.pod), "resources", "limits") if "/" in str(key)]
        if not one.hook_template and shaped:
            yield said("job-pod.shapeless", at, one.name, keys=", ".join(shaped), variable=HOOK_TEMPLATE)
        # Without a shared volume the hooks bind no pod.
        if one.job and one.mode.endswith("kubernetes") and variables(one.pod).get(_KUBE_SCHEDULER, "").lower() != "true":
            runner = [number for number, entry in enumerate(parts(one.pod, "containers")) if entry.get("name") == "runner"]
            place: tuple[str | int, ...] = ("spec", "containers", *runner[:1], "env", len(items(container(one.pod), "env")))
            variable = {"name": _KUBE_SCHEDULER, "value": "true"}
            edits = [Edit(one.values, (*(one.pod_at or ()), *place), variable)] if runner else []
            yield said("job-pod.bound", at, one.name, edits, variable=_KUBE_SCHEDULER)
    # A runner whose own pod needs no GPU starts although no node for its job exists.
    waiting = grouped((_family(one, seen), one) for one in seen.classes if one.job and gpus_of(one))
    for family, sets in waiting.items():
        if family:
            yield said("advertised.family", sets[0].at, ", ".join(sorted(one.name for one in sets)), family=family)


def _family(one: RunnerClass, seen: Seen) -> str:
    """The only family of machines that runs a class and of which several types are bought; empty if there are more."""
    kinds = {name for pool in reached(one, seen) for name in pool.types if pool.scaler != "none" and not pool.reservations}
    families = {name.partition(".")[0] for name in kinds}
    return families.pop() if len(families) == 1 and len(kinds) > 1 else ""


def disruption(seen: Seen, _: date) -> Iterator[Finding]:
    """Runner pods that Karpenter may move: five deletions end a runner for good."""
    for one in seen.classes:
        annotations = one.values.mapping("template", "metadata", "annotations")
        moving = [pool for pool in reached(one, seen) if pool.scaler == "karpenter" and pool.consolidates]
        if moving and one.job is None and str(annotations.get(_NO_DISRUPT)).lower() != "true":
            edit = Edit(one.values, ("template", "metadata", "annotations", _NO_DISRUPT), "true")
            yield said("disruption.moves", one.at, one.name, (edit,), pool=moving[0], annotation=_NO_DISRUPT)


RULES = (unreachable, workloads, flavors, stranded, mixes, shared, overheads, types, modes, disruption)
