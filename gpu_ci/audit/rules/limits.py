"""Limits that are lower, or higher, than what they limit: maxRunners, quotas of namespaces, of clouds and of Kueue, and
capacity reservations, whose ends and sizes only an answer of describe-capacity-reservations says.
"""

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Any

from fleet.facts.day import parsed as day_of
from fleet.facts.groups import grouped
from fleet.facts.hardware import find, quota_code, quota_units
from fleet.facts.lifecycle import NOTICE
from fleet.facts.nested import parts, text_at
from fleet.facts.places import leaves
from fleet.facts.quantities import quantity
from fleet.facts.requests import requests_of
from fleet.facts.scheduling import is_gpu_resource
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.homes import pools_near
from gpu_ci.audit.model import Keys, Pool, RunnerClass, Seen, gpus_of
from gpu_ci.audit.rules.pools import most_gpus, reached

_APART = ("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def maxima(seen: Seen, _: date) -> Iterator[Finding]:
    """maxRunners of nothing, and below what the fixed nodes of a class hold."""
    for one in seen.classes:
        if one.maximum == 0 and one.values.whole("maxRunners") == 0:
            yield said("max-runners.zero", one.values.get("maxRunners"), one.name, (Edit(one.values, ("maxRunners",), 1),))
    # Several classes share their nodes in ways that no file says.
    asking = [one for one in seen.classes if gpus_of(one)]
    for one in asking if len(asking) == 1 else ():
        pools, wanted, at = reached(one, seen), gpus_of(one) or 1, one.values.get("maxRunners")
        if not pools or one.maximum is None or any(pool.minimum != pool.maximum for pool in pools):
            continue
        nodes, each = sum(pool.minimum for pool in pools), min(map(most_gpus, pools)) // wanted
        alone = any(text_at(term, "topologyKey") == "kubernetes.io/hostname" for term in parts(one.where, *_APART)) and each > 1
        if one.maximum < nodes * each:
            edits = [Edit(one.values, ("maxRunners",), nodes * each)]
            edits += [Edit(one.values, (*(one.pod_at or ()), "spec", *_APART[:2]), None)] if alone and one.job is None else []
            why = f"maxRunners is {one.maximum}{', and podAntiAffinity allows one a node' if alone else ''}"
            yield said("max-runners.low", at, one.name, edits, why=why, nodes=nodes, fit=nodes * each)


def namespaces(seen: Seen, _: date) -> Iterator[Finding]:
    """A ResourceQuota that all runners of its namespace together exceed: they fail instead of waiting."""
    for keys in seen.of_kind("ResourceQuota"):
        space, hard = keys.text("metadata", "namespace") or "default", keys.get("spec", "hard")
        for resource, text in hard.mapping().items():
            asked = [(one, each) for one in seen.classes if one.namespace == space and (each := _asks(one, resource))]
            if not asked or (limit := quantity(text)) is None:
                continue
            what = "job" if any(one.mode.startswith("kubernetes") for one, _ in asked) else "runner"
            names = ", ".join(one.name for one, _ in asked)
            facts: dict[str, Any] = {"resource": resource, "hard": text, "space": space, "what": what}
            if open_ := [one for one, _ in asked if one.maximum is None]:
                yield said("quota.open", hard.get(resource), open_[0].name, **facts)
                continue
            if (total := sum((each * (one.maximum or 0) for one, each in asked), Fraction(0))) > limit:
                edit = Edit(hard, (resource,), _text(total, str(text)))
                yield said("quota.full", hard.get(resource), names, (edit,), total=_text(total, str(text)), **facts)


def _asks(one: RunnerClass, resource: str) -> Fraction:
    """What one runner and its job take of a resource of a quota."""
    if resource in ("pods", "count/pods"):
        # A job of a kubernetes mode has a pod of its own.
        return Fraction(2 if one.mode.startswith("kubernetes") else 1)
    specs = [spec for spec in (one.pod, one.job) if spec]
    return sum((requests_of(spec).get(resource.removeprefix("requests."), Fraction(0)) for spec in specs), Fraction(0))


def _text(amount: Fraction, like: str) -> str:
    """An amount in the unit of another one, rounded up."""
    unit = like.lstrip("0123456789.")
    return f"{-(-amount // (quantity(f'1{unit}') or 1))}{unit}"


def clouds(seen: Seen, _: date) -> Iterator[Finding]:
    """A limit of the cloud below what a pool may grow to: then no machine comes, and none of another type is tried."""
    limits: dict[str, tuple[Fraction, Keys]] = {}
    for kind, name, value in (("Quota", "QuotaCode", "Value"), ("Limit", "name", "value")):
        limits |= {keys.text(name): (quantity(keys.whole(value)) or Fraction(0), keys) for keys in seen.of_kind(kind)}
    for pool in seen.pools:
        machine = next(filter(None, map(find, pool.types)), None)
        if machine is None or not machine.gpus or (code := quota_code(machine, pool.capacities[-1])) not in limits:
            continue
        nodes = pool.maximum if pool.maximum is not None else pool.most_gpus // machine.gpus if pool.most_gpus else None
        most, keys = limits[str(code)]
        if nodes is not None and (units := nodes * quota_units(machine)) > most:
            yield said("cloud-limit.low", pool.at, pool.name, on=machine, nodes=nodes, code=code, most=most, units=units, by=keys)


def queues(seen: Seen, _: date) -> Iterator[Finding]:
    """Kueue's quotas of GPUs against the pools of their flavors."""
    labels = {keys.text("metadata", "name"): keys.mapping("spec", "nodeLabels") for keys in seen.of_kind("ResourceFlavor")}
    for queue in seen.of_kind("ClusterQueue"):
        near = pools_near(queue.file.path, seen.pools, seen)
        checks = queue.whole("spec", "admissionChecks") or queue.whole("spec", "admissionChecksStrategy")
        for flavor in queue.each("spec.resourceGroups[].flavors[]"):
            wanted = labels.get(flavor.text("name")) or {}
            pools = [pool for pool in near if wanted and wanted.items() <= pool.labels.items() and most_gpus(pool)]
            for resource in flavor.items("resources"):
                quota, at = resource.count("nominalQuota"), resource.get("nominalQuota")
                if not pools or quota is None or not is_gpu_resource(resource.text("name")):
                    continue
                most, least = (_held(pools, field) for field in ("maximum", "minimum"))
                names, name = ", ".join(pool.name for pool in pools), queue.text("metadata", "name")
                facts: dict[str, Any] = {"quota": quota, "flavor": flavor.text("name"), "pools": names}
                if most is not None and quota > most:
                    yield said("queue.above", at, name, (Edit(resource, ("nominalQuota",), most),), most=most, **facts)
                elif least is not None and quota > least and not checks:
                    yield said("queue.absent", at, name, least=least, **facts)


def _held(pools: list[Pool], field: str) -> int | None:
    """The GPUs of pools at their maximum or minimum; None without a limit."""
    counts = [None if (nodes := getattr(pool, field)) is None else nodes * most_gpus(pool) for pool in pools]
    known = [pool.most_gpus if count is None else count for count, pool in zip(counts, pools, strict=True)]
    return None if None in known else sum(count or 0 for count in known)


_GONE = ("expired", "cancelled", "cancelling", "failed", "payment-failed", "unsupported", "unavailable")
"""States of EC2 in which a reservation gives no machine (CapacityReservationState)."""


def reservations(seen: Seen, day: date) -> Iterator[Finding]:
    """Each reservation that a pool names, then what the pools want of those that live."""
    answers = {one.text("CapacityReservationId"): one for one in seen.of_kind("CapacityReservation")}
    naming = grouped((reserved, pool) for pool in seen.pools for reserved in pool.reservations if reserved.startswith("cr-"))
    counts: dict[str, int] = {}
    for reserved, pools in naming.items():
        at, name, edits = pools[0].at, pools[0].name, _removal(seen, reserved)
        facts: dict[str, Any] = {"id": reserved, "pools": ", ".join(pool.name for pool in pools)}
        if (answer := answers.get(reserved)) is None:
            case, edits = ("missing", edits) if answers else ("open", iter(()))
            yield said(f"reservation.{case}", at, name, edits, **facts)
            continue
        end, state = day_of(answer.text("EndDate")[:10]), answer.text("State")
        if (end is not None and end < day) or state in _GONE:
            when = f"ended on {end}" if end is not None and end < day else f"is {state}"
            yield said("reservation.ended", at, name, edits, when=when, **facts)
            continue
        counts[reserved] = answer.count("TotalInstanceCount") or 0
        if end is not None and (end - day).days <= NOTICE:
            yield said("reservation.ends", at, name, end=end, **facts)
        wanted = [pool.minimum for pool in pools if pool.minimum and len(pool.reservations) == 1]
        if sum(wanted) > counts[reserved]:
            sizes = " + ".join(map(str, wanted))
            yield said("reservation.short", at, name, sizes=sizes, count=counts[reserved], **facts)
    yield from _above(seen, counts)


def _above(seen: Seen, counts: dict[str, int]) -> Iterator[Finding]:
    """Classes whose runners could take more GPUs than the reservations of their pools hold."""
    for one in seen.classes:
        pools, each = reached(one, seen), gpus_of(one)
        ids = {reserved for pool in pools for reserved in pool.reservations if reserved in counts}
        # A pool that also buys machines outside its reservations has no such bound.
        if not each or not ids or one.maximum is None or any(pool.capacities[1:] or not pool.reservations for pool in pools):
            continue
        held = sum(counts[reserved] for reserved in ids) * max(map(most_gpus, pools))
        if one.maximum * each > held:
            at, edit = one.values.get("maxRunners"), Edit(one.values, ("maxRunners",), held // each)
            names = ", ".join(sorted(ids))
            yield said("reservation.above", at, one.name, (edit,), one=one, each=each, held=held, ids=names)


def _removal(seen: Seen, value: str) -> Iterator[Edit]:
    """The items of lists that hold a value, removed, in each file with a pool or a node class."""
    for file in {one.file: None for one in (*(pool.at for pool in seen.pools), *seen.of_kind("EC2NodeClass", "NodeClass"))}:
        for path, leaf in leaves(file.document.value):
            items = [depth for depth, key in enumerate(path) if isinstance(key, int)]
            if leaf == value and items:
                yield Edit(Keys(file, file.document.value), path[: items[-1] + 1], None)


RULES = (reservations, maxima, namespaces, clouds, queues)
