"""Capacity reservations: their ends and sizes, which only an answer of describe-capacity-reservations says."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from fleet.facts.groups import grouped
from fleet.facts.lifecycle import NOTICE, day_of
from fleet.facts.places import leaves
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import Seen, gpus_of
from gpu_ci.audit.rules.pools import most_gpus, reached

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
            facts: dict[str, Any] = {"maximum": one.maximum, "each": each, "held": held, "ids": ", ".join(sorted(ids))}
            edit = Edit(one.values, ("maxRunners",), held // each)
            yield said("reservation.above", one.values.get("maxRunners"), one.name, (edit,), **facts)


def _removal(seen: Seen, value: str) -> Iterator[Edit]:
    """The items of lists that hold a value, removed, in each file with a pool or a node class."""
    for file in {one.file: None for one in (*(pool.at for pool in seen.pools), *seen.of_kind("EC2NodeClass", "NodeClass"))}:
        for path, leaf in leaves(file.document.value):
            items = [depth for depth, key in enumerate(path) if isinstance(key, int)]
            if leaf == value and items:
                yield Edit(Keys(file, file.document.value), path[: items[-1] + 1], None)
