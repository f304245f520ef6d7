"""stack-cost-ceiling: the worst hour of the whole stack, and an hour without jobs, cost no more than the agreed limits.

Counted (`cost.py`): groups of machines at their maximum and minimum with their disks. The machines that run for waiting runners,
placeholders, warm pools and other pods that always run. The nodes that a cloud adds while it replaces some, control planes with
their logs, NAT gateways with addresses, and the images that new nodes pull. Volumes of claims whose class is in the stack.
Machines that a launcher boots for one job are not resources: the annotations of the launcher's pod name the machine, and
`maxRunners` is their number. A reservation always counts with all its machines. Spot without a price counts as on-demand, which
is the most that it can cost. Machines that the user owns do not count. An hour without jobs is the average of a week with the
windows of all schedules; an hour inside a window costs more.

In a preview on the engine the minimum of an OKE pool is its size as last read, because OKE has no minimum.
"""

from collections.abc import Iterable

from fleet.facts.pricing import Line, Money, rounded_up
from fleet.facts.quantities import quantity

from .cost import HOURS, SUPPORT_ENDED, UNITS, Item, bill, sums
from .groups import MACHINES, SHOWN, TIMES, Group, either, several
from .read import Later
from .rule import NOTHING, Stack, StackRule, Violations, facts, setting


def _check(stack: Stack, later: Later) -> Violations:
    items = bill(stack.resources, stack.as_of, later)
    for item in items:
        if item.fault:
            yield item.fault, item.group.urn if item.group is not None else None
    mean, worst = sums(items)
    if Money(worst.usd).exceeds(limit := _limit(stack, "worstUsdPerHour")):
        yield f"worst hour {rounded_up(worst.usd):.2f} USD is above {limit:.2f}: {_spenders(items, 1, 'worstUsdPerHour')}", None
    if Money(mean.usd).exceeds(limit := _limit(stack, "idleUsdPerHour")):
        amount = f"{rounded_up(mean.usd):.2f} USD ({mean.usd * HOURS:.0f} a month)"
        yield f"hour without jobs {amount} is above {limit:.2f}: {_spenders(items, 0, 'idleUsdPerHour')}", None


def _limit(stack: Stack, name: str) -> float:
    return float(quantity(stack.config.get(name)) or 0)


def _side(line: Line, way: int) -> tuple[float, Money]:
    """Count and cost of a line: on average without jobs (0), or at worst (1)."""
    return ((line.usual, line.mean), (line.most, line.worst))[way]


def _spenders(items: Iterable[Item], way: int, limit: str) -> str:
    """The items of the sum, largest first, and the settings that lower the listed ones."""
    paying = sorted((item for item in items if _side(item.line, way)[1].usd), key=lambda item: -_side(item.line, way)[1].usd)
    parts = []
    for item in paying:
        count, money = _side(item.line, way)
        parts.append(f"{item.line.item} {round(count, 3):g} {TIMES} {_usd(item.line.dear.usd)} = {money.usd:.2f}")
    settings = either(_lowered(item.group, way) for item in paying[:SHOWN] if item.group is not None)
    upgrade = ", or upgrade kubernetesVersion" if any(item.line.item == SUPPORT_ENDED for item in paying) else ""
    return f"{several(parts)}; lower {settings or 'the number'} of one of these{upgrade}, or raise {setting(limit)}"


def _lowered(group: Group, way: int) -> str:
    return "the reservation's count" if group.reserved is not None else group.settings[way]


def _usd(price: float) -> str:
    return f"{price:.2f}" if price >= 1 else f"{price:.2g}"


RULE = StackRule(**facts(__name__), types=MACHINES | UNITS, check=_check, in_manifests=NOTHING)
