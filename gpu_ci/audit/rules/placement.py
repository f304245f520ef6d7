"""Pools that classes of several sizes share, pools of one machine type, and the pods of the kubernetes modes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from fleet.facts.groups import grouped
from fleet.facts.hardware import RESERVED, find
from fleet.facts.nested import items, part, parts
from fleet.facts.places import leaves
from fleet.prove import reach
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.formats.manifests import HOOK_TEMPLATE
from gpu_ci.audit.homes import answer, proved
from gpu_ci.audit.model import Pool, RunnerClass, Seen, container, gpus_of, variables
from gpu_ci.audit.rules.pools import most_gpus, reached

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
    """Classes that fit a node alone, and not with what runs beside their jobs: the figures that their project counted."""
    for one in seen.classes:
        found = answer(one, seen)
        if found is None or not found.runs or not one.overheads:
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
            edits = (
                [Edit(one.values, (*(one.pod_at or ()), *place), {"name": _KUBE_SCHEDULER, "value": "true"})] if runner else []
            )
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
            facts = {"pool": moving[0].name, "its": moving[0].at.place, "annotation": _NO_DISRUPT}
            yield said("disruption.moves", one.at, one.name, (edit,), **facts)
