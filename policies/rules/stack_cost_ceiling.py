"""stack-cost-ceiling: the worst hour of the whole stack, and an hour without jobs, cost no more than the agreed limits.

Counted: groups of machines at their maximum and minimum with their disks. The machines that run for waiting runners,
placeholders, warm pools and other pods that always run. The nodes that a cloud adds while it replaces some, control planes with
their logs, NAT gateways with addresses, and the images that new nodes pull. Volumes of claims whose class is in the stack.
Machines that a launcher boots for one job are not resources: the annotations of the launcher's pod name the machine, and
`maxRunners` is their number. A reservation always counts with all its machines. Spot without a price counts as on-demand, which
is the most that it can cost. Machines that the user owns do not count. An hour without jobs is the average of a week with the
windows of all schedules; an hour inside a window costs more.

The sum holds for the whole program where `known-types` is mandatory: a machine, a service or a commitment of a type that no
component registers is refused there. What the types of that list cost beside this sum is stored data (buckets, registries, logs
of pods) and the builds of images.
A budget is at most the worst hour for a month, because a higher one never rings.

In a preview on the engine the minimum of an OKE pool is its size as last read, because OKE has no minimum.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

from fleet.facts import bill as counting
from fleet.facts.bill import Paid, assumption
from fleet.facts.hardware import price, unit_price
from fleet.facts.pricing import Line, Money, average, bundle, nodes, quoted, rounded_up, total, units
from fleet.facts.quantities import quantity
from fleet.facts.record import Record
from fleet.facts.scheduling import SYSTEM_POOL
from fleet.facts.support import EXTENDED, STANDARD, control_plane

from .always import ALWAYS, always
from .budget_alarm_required import AWS_BUDGET, OCI_BUDGET
from .groups import MACHINES, SHOWN, TIMES, Group, either, groups, region_of, regions_of, several
from .kinds import ADDRESS, CLAIM, EKS_CLUSTER, EKS_COMPONENT, KMS_KEY, NAT_GATEWAY, OKE_CLUSTER, STORAGE_CLASS, UNPRICED, fields
from .read import Later, UndeterminableError, count, line, text, walk
from .record import Resource
from .rule import NOTHING, Stack, StackRule, Violations, facts, said, setting
from .volumes import claimed, claims

HOURS = 730
"""Hours of a month, as clouds count."""
BUDGETS = {AWS_BUDGET: "limitAmount", OCI_BUDGET: "amount"}
_MONTHS = {"DAILY": 1 / 30, "QUARTERLY": 3, "ANNUALLY": 12}
"""Months of the time that a budget of AWS counts."""

_BY_TYPE = {NAT_GATEWAY: "nat-gateway", ADDRESS: "public-ipv4", KMS_KEY: "kms-key"}
UNITS = ALWAYS | UNPRICED | {EKS_CLUSTER, EKS_COMPONENT, OKE_CLUSTER, *_BY_TYPE, CLAIM, STORAGE_CLASS}
"""Resource types billed by the hour that are not machines, and those of pods for which machines run."""

_FLEXIBLE = {"VM.Standard.E5.Flex": ("oci-e5-ocpu", "oci-e5-gb")}
"""Flexible shapes with a price: the units of an OCPU and of a GB."""
_OKE = "oke-enhanced-cluster"
_WORDS = fields("billed")
_ADD = "add it with source and date to fleet/facts/data/prices.csv"


class Item(Record):
    """One line of the bill and its group. `fault` says why the line has no price and how to fix that."""

    line: Line
    group: Group | None = None
    fault: str = ""


def _check(stack: Stack, later: Later) -> Violations:
    items = bill(stack.resources, stack.as_of, later)
    yield from ((item.fault, item.group.urn if item.group is not None else None) for item in items if item.fault)
    mean, worst = sums(items)
    if Money(worst.usd).exceeds(limit := _limit(stack, "worstUsdPerHour")):
        yield f"worst hour {rounded_up(worst.usd):.2f} USD is above {limit:.2f}: {_spenders(items, 1, 'worstUsdPerHour')}", None
    if Money(mean.usd).exceeds(limit := _limit(stack, "idleUsdPerHour")):
        amount = f"{rounded_up(mean.usd):.2f} USD ({mean.usd * HOURS:.0f} a month)"
        yield f"hour without jobs {amount} is above {limit:.2f}: {_spenders(items, 0, 'idleUsdPerHour')}", None
    yield from _budgets(stack, later)


def _budgets(stack: Stack, later: Later) -> Violations:
    for budget in stack.of(*BUDGETS):
        with later:
            usd = quantity(walk(budget.props, BUDGETS[budget.type])) or 0
            most = _limit(stack, "worstUsdPerHour") * HOURS * _MONTHS.get(text(walk(budget.props, "timeUnit")), 1)
            if usd > most and text(walk(budget.props, "budgetType")) in ("", "COST"):
                yield said("deaf_budget", field=BUDGETS[budget.type], usd=float(usd), most=most), budget.urn


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
        (count, money), hourly = _side(item.line, way), item.line.dear.usd
        price_each = f"{hourly:.2f}" if hourly >= 1 else f"{hourly:.2g}"
        parts.append(f"{item.line.item} {round(count, 3):g} {TIMES} {price_each} = {money.usd:.2f}")
    owners = [item.group for item in paying[:SHOWN] if item.group is not None]
    settings = either("the reservation's count" if group.reserved is not None else group.settings[way] for group in owners)
    upgrade = ", or upgrade kubernetesVersion" if any(item.line.item == _WORDS[EXTENDED] for item in paying) else ""
    return f"{several(parts)}; lower {settings or 'the number'} of one of these{upgrade}, or raise {setting(limit)}"


# -- the bill ----------------------------------------------------------------------------------------------------------


def bill(resources: Sequence[Resource], day: date, later: Later) -> tuple[Item, ...]:
    """The items of a stack at the prices of a day, counted by `fleet.facts.bill` like the plan's.

    An item without a price has a fault; it never counts as free.
    A value that is unknown in a preview is left out and goes to `later`, so the sum is a lower bound.
    """
    machine_groups = groups(resources, later)
    return (*_machines(machine_groups, resources, later), *_units(resources, day, later), *_claims(resources, later))


def sums(items: Iterable[Item]) -> tuple[Money, Money]:
    """(average, worst) of a bill: of an hour of a week without jobs, and of the worst hour."""
    lines = [item.line for item in items]
    return average(lines), total(lines)[1]


# -- machines ----------------------------------------------------------------------------------------------------------


def _machines(machine_groups: Sequence[Group], resources: Sequence[Resource], later: Later) -> Iterator[Item]:
    """The lines of groups of machines, of their disks, and of what else depends on how many run."""
    gateways = {item.provider.urn for item in resources if item.type == NAT_GATEWAY} - {""}
    paid: list[Paid] = []
    owners: dict[tuple[str, str], Group] = {}
    for group in machine_groups:
        if group.most is None or (line_ := _counted(group)) is None:
            nothing = Line("", group.name, "", 1, 1, Money(unknown=1), Money(unknown=1), ())
            unbounded = (_limited(group) if group.most is None else None) or nothing
            yield Item(unbounded, group, _fault(group) if unbounded.worst.unknown else "")
            continue
        # The system pool runs no jobs.
        jobs = group.gpus != 0 or group.name.rpartition("/")[2] not in (SYSTEM_POOL, group.name)
        paid.append(_paid(group, line_, pulls=group.cluster in gateways and jobs))
        owners |= {(line_.cluster, f"{warm}{line_.item}"): group for warm in ("", "warm ")}
    for item in counting.bill(paid, list(always(machine_groups, resources, later))):
        owner = owners.get((item.cluster, item.item))
        if not item.worst.unknown or item.item == "update":
            yield Item(item, owner)
        elif owner is not None:
            yield Item(item, owner, _fault(owner))
        else:
            region = next(of.region for of in paid if of.line.cluster == item.cluster)
            yield Item(item, None, f"{item.item}: no price of {line(item.what)} in {line(region)} is known; {_ADD}")


def _paid(group: Group, priced: Line, *, pulls: bool) -> Paid:
    region, disk = (group.regions[0], group.volume or {}) if group.regions else ("", {})
    spare, over_time = 0 if group.reserved is not None else group.spare, {"windows": group.windows, "warm": group.warm}
    of_group: dict[str, Any] = {"groups": group.zones, "prepaid": group.reserved, "spare": spare} | over_time
    return Paid(name=group.urn, line=priced, region=region, disk=disk, pulls=pulls, **of_group)


def _counted(group: Group) -> Line | None:
    """The line of a counted group, in its most expensive region."""
    lines = [_line(group, region) for region in group.regions]
    return max(lines, key=lambda item: (item.dear.unknown, item.dear.usd), default=None)


def _line(group: Group, region: str) -> Line:
    least, most = group.least, group.most or 0
    by_size = _FLEXIBLE.get(group.types[0]) if len(group.types) == 1 else None
    if by_size is None or group.flex is None:
        return nodes(group.cluster, group.name, group.types, region, group.capacity, least, most)
    parts = dict(zip(by_size, group.flex, strict=True))
    return bundle(group.cluster, group.name, group.types[0], parts, region, least, most)


def _limited(group: Group) -> Line | None:
    """The line of a NodePool by its GPU limit, each GPU at the price of the most expensive type per GPU."""
    if group.gpu_limit is None or not group.choices:
        return None
    prices = [
        quoted(price(choice.name, region, group.capacity)).times(1 / choice.gpus) if choice.gpus else Money(unknown=1)
        for choice in group.choices
        for region in group.regions
    ]
    highest = max(prices, key=lambda money: (money.unknown, money.usd), default=Money(unknown=1))
    return Line("", group.name, "GPU", 0, group.gpu_limit, highest, highest, ())


def _fault(group: Group) -> str:
    if group.most is None and group.gpu_limit is None:
        return f"{group.name}: it has no maximum number of machines, so nothing limits its cost; set its maximum"
    if not group.choices:
        return f"{group.name}: no machine type is named, so its price is not known; name its types"
    if not group.regions:
        return f"{group.name}: neither it nor its provider has a region, and prices differ by region; set the provider's region"
    unpriced = [
        f"{line(name)} {group.capacity} in {line(region)}"
        for name in group.types
        for region in group.regions
        if price(name, region, group.capacity) is None
    ]
    subject = unpriced[0] if unpriced else f"{line(group.types[0])} by the GPU"
    return f"{group.name}: no price of {subject} is known; {_ADD}, or use another type"


# -- everything but machines ------------------------------------------------------------------------------------------------


def _units(resources: Sequence[Resource], day: date, later: Later) -> Iterator[Item]:
    counted, logged = Counter[tuple[str, str]](), Counter[str]()
    # On an engine, the component of a control plane has no version, but its child has one. Offline, it has no child.
    doubled = {cluster.parent.urn for cluster in resources if cluster.type == EKS_CLUSTER and cluster.parent is not None}
    for resource in resources:
        if resource.urn in doubled:
            continue
        with later:
            if resource.type in UNPRICED:
                raise UndeterminableError(f"{line(resource.name)}: the table of prices has none of {resource.type}")
            if unit := _unit_of(resource, day):
                counted[unit, _most_expensive_region(unit, _regions(resource, resources))] += 1
            if resource.type in (EKS_CLUSTER, EKS_COMPONENT) and count(walk(resource.props, "enabledClusterLogTypes")):
                logged[_most_expensive_region("log-gb", _regions(resource, resources))] += 1
    for (unit, region), number in counted.items():
        # Each of the first two rotations of a key costs as much as the key.
        yield _unit(_WORDS[unit], unit, region, number, number * (3 if unit == "kms-key" else 1))
    for region, number in logged.items():
        yield _unit("control-plane logs", "log-gb", region, *(number * assumption(name) for name in ("log-gb", "log-gb-worst")))


def _claims(resources: Sequence[Resource], later: Later) -> Iterator[Item]:
    """A volume costs its whole size once it exists. A file system costs its stored data, so its least is 0."""
    spans: dict[tuple[str, str], tuple[float, float]] = {}
    for resource in resources:
        for spec in claims(resource, later):
            with later:
                if (volume := claimed(spec, resource, resources)) is None:
                    continue
                parts, own_region, elastic = volume
                for unit, count in parts.items():
                    region = own_region or _most_expensive_region(unit, regions_of(resources) or ("",))
                    least, most = spans.get((unit, region), (0.0, 0.0))
                    spans[unit, region] = least + (0 if elastic else count), most + count
    yield from (_unit(f"{line(unit)} of claims", unit, region, least, most) for (unit, region), (least, most) in spans.items())


def _unit_of(resource: Resource, day: date) -> str:
    """The unit that prices the resource; "" if it is free or another resource includes its price."""
    token = resource.type
    if token in _BY_TYPE:
        return _BY_TYPE[token]
    if token == OKE_CLUSTER:
        return _OKE if text(walk(resource.props, "type")) == "ENHANCED_CLUSTER" else ""
    if token not in (EKS_CLUSTER, EKS_COMPONENT):
        return ""
    # A cluster without a version gets EKS' default, which is in standard support.
    version = walk(resource.props, "version")
    return STANDARD if version is None else control_plane(text(version), day)


def _regions(resource: Resource, resources: Sequence[Resource]) -> tuple[str, ...]:
    """The regions of a resource. A component's are those of its dependents, or else all AWS regions of the stack."""
    if resource.type != EKS_COMPONENT:
        return (region_of(resource),)
    inside = [dependent for dependent in resources if any(above.urn == resource.urn for above in dependent.dependencies)]
    return regions_of(inside) or regions_of(resources) or ("",)


def _most_expensive_region(unit: str, regions: tuple[str, ...]) -> str:
    prices = {region: quoted(unit_price(unit, region)) for region in regions}
    return max(prices, key=lambda region: (prices[region].unknown, prices[region].usd))


def _unit(words: str, unit: str, region: str, least: float, most: float) -> Item:
    priced, fault = units("", words, "", unit, region, least, most), ""
    if priced.dear.unknown and region:
        fault = f"{words}: no price of {line(unit)} in {line(region)} is known; {_ADD}"
    elif priced.dear.unknown:
        fault = f"{words}: their provider has no region, and prices differ by region; set the provider's region"
    return Item(priced, None, fault)


RULE = StackRule(**facts(__name__), types=MACHINES | UNITS | {*BUDGETS}, check=_check, in_manifests=NOTHING)
