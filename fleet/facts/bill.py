"""The bill of an hour, from a description of machines and pods. The plan describes its settings, the policies describe resources.

*Idle*: no job runs. A pool has the nodes of its minimum, or more for runners that wait and for placeholders. *Average*: the mean
of a week without jobs, with the windows of schedules. *Worst*: each pool and set of machines at its maximum, on its most
expensive type, and what may exist beyond that. So idle ≤ average ≤ worst, and no larger minimum, maximum or window costs less.

Runners that wait, and what else always runs, such as placeholders, fill nodes as Cluster Autoscaler plans them: the largest part
of a node first (`BinpackingNodeEstimator`, kubernetes/autoscaler). Where a class has several pools, its waiting runners have
nodes of their own in the most expensive pools with room. Standard library only: the policy pack contains this module.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from fleet.facts import hardware
from fleet.facts.flow import taken
from fleet.facts.pricing import Line, Money, quoted, units
from fleet.facts.record import Record
from fleet.facts.tables import rows

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY, _WEEK = 24 * 60, 7 * 24 * 60
_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
"""Start of the week in which windows of several time zones are compared: no clock changes in it."""
_DISKS = {"gp3-gb": "gp3, GiB", "oci-volume-gb": "boot volumes, balanced, GB"}
Share = tuple[int, int]
"""How many pods always run, and how many of them a node holds."""


@cache
def assumption(name: str) -> float:
    """An amount that no setting and no resource has, of `data/assumptions.csv`."""
    return next(float(row["amount"]) for row in rows("assumptions.csv") if row["name"] == name)


class Window(Record):
    """`count` nodes or runners on days of the week (Monday is 0), from a local minute of a day to a later one within 24 hours."""

    count: int
    days: tuple[int, ...]
    start: int
    end: int
    zone: str


def window(count: int, days: Iterable[str], start: str, end: str, zone: str) -> Window:
    """A window as people write it: mon, 09:00. Raises ValueError for anything else."""
    opens, closes = (60 * int(hour) + int(minute) for hour, minute in (clock.split(":") for clock in (start, end)))
    ZoneInfo(zone)
    return Window(count, tuple(map(WEEKDAYS.index, days)), opens, closes, zone)


def written(windows: Iterable[Window]) -> str:
    """Windows of one time zone as the value of a tag: Europe/Berlin 5 mon+tue 09:00-18:00."""
    spans = list(windows)
    clocks = (f"{span.start // 60:02}:{span.start % 60:02}-{span.end // 60:02}:{span.end % 60:02}" for span in spans)
    days = ("+".join(WEEKDAYS[day] for day in span.days) for span in spans)
    parts = (f"{span.count} {on} {at}" for span, on, at in zip(spans, days, clocks, strict=True))
    return " ".join((spans[0].zone, *parts)) if spans else ""


def read(text: str) -> tuple[Window, ...]:
    """The windows of a tag. Raises ValueError if it is none of `written`."""
    zone, *parts = text.split() or [""]
    if not parts or len(parts) % 3:
        raise ValueError(text)
    rows = zip(map(int, parts[::3]), parts[1::3], (clocks.partition("-") for clocks in parts[2::3]), strict=True)
    return tuple(window(count, days.split("+"), start, end, zone) for count, days, (start, _, end) in rows)


class Warm(Record):
    """An EC2 warm pool: at least `least` machines wait, and with the nodes in the cluster they are `prepared`."""

    least: int
    prepared: int
    running: bool

    def machines(self, nodes: int, groups: int) -> int:
        """The machines that wait beside so many nodes. Nodes and machines are split over the groups as evenly as possible."""
        parts = ([part(total, groups, at) for total in (self.least, self.prepared, nodes)] for at in range(groups))
        return sum(max(least, prepared - joined) for least, prepared, joined in parts)


class Paid(Record, kw_only=True):
    """A pool of nodes or a set of machines. `line` has the prices of one and, as its counts, the smallest and largest number.

    `name` is unique in the line's cluster. `disk` has the units of one disk. `groups` is how many node groups the pool is split
    into. `prepaid` is how many machines a reservation pays for. `spare` is how many more the cloud may start while it replaces
    some. `pulls`: a new machine pulls images of jobs through a NAT gateway that the stack pays for.
    """

    name: str
    line: Line
    region: str
    disk: Mapping[str, float] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    warm: Warm | None = None
    groups: int = 1
    prepaid: int | None = None
    spare: float = 0
    pulls: bool = False

    @property
    def hour(self) -> Money:
        """USD an hour of the most expensive machine with its disk."""
        disk = (quoted(hardware.unit_price(unit, self.region)).times(count) for unit, count in self.disk.items())
        return sum(disk, self.line.dear)

    @property
    def rank(self) -> tuple[bool, int, float, str]:
        """Sort key: what one more node costs. An unknown price is the highest, and nodes of a reservation cost nothing more."""
        return self.prepaid is None, self.hour.unknown, self.hour.usd, self.name


class Waiting(Record, kw_only=True):
    """Runners of a class that wait for jobs, or pods that always run: `least`, or more in a window. A node holds `per_node`."""

    cluster: str
    pools: tuple[str, ...]
    least: int
    per_node: int = 1
    windows: tuple[Window, ...] = ()


def bill(paid: Sequence[Paid], waiting: Sequence[Waiting] = ()) -> Iterator[Line]:
    """The lines of machines, of their disks, of the nodes of updates and of the traffic of cold starts."""
    for cluster in dict.fromkeys(row.line.cluster for row in paid):
        pools = [row for row in paid if row.line.cluster == cluster]
        yield from _cluster(pools, [row for row in waiting if row.cluster == cluster])


def _cluster(pools: Sequence[Paid], waiting: Sequence[Waiting]) -> Iterator[Line]:
    first, disks = pools[0], dict[tuple[str, str], list[float]]()
    week = list(_week(pools, waiting))
    for at, pool in enumerate(pools):
        nodes = (week[0][1][at], sum(share * counts[at] for share, counts in week), float(pool.line.most))
        machines = nodes if pool.prepaid is None else (pool.prepaid,) * 3
        yield replace(pool.line, least=machines[0], average=machines[1], most=machines[2])
        beside = (0.0, 0.0, 0.0)
        if (warm := pool.warm) is not None:
            waits = [warm.machines(counts[at], pool.groups) for _, counts in week]
            mean = sum(share * count for (share, _), count in zip(week, waits, strict=True))
            beside = (waits[0], mean, warm.machines(int(pool.line.most), pool.groups))
            if warm.running:
                item = f"warm {pool.line.item}"
                yield replace(pool.line, item=item, least=beside[0], average=beside[1], most=beside[2])
        for unit, amount in pool.disk.items():
            total = disks.setdefault((unit, pool.region), [0.0, 0.0, 0.0])
            total[:] = (sum_ + amount * (base + more) for sum_, base, more in zip(total, nodes, beside, strict=True))
    for (unit, region), (least, average, most) in disks.items():
        item = "disks" if unit.endswith("-gb") else f"disks, {unit}"
        yield replace(units(first.line.cluster, item, _DISKS.get(unit, unit), unit, region, least, most), average=average)
    if replaced := [pool for pool in pools if pool.spare and pool.line.most]:
        last = max(replaced, key=lambda pool: (pool.hour.unknown, pool.hour.usd * pool.spare, pool.name))
        what = f"nodes of {last.line.item} while the cloud replaces some"
        yield replace(last.line, item="update", what=what, least=0, most=last.spare, cheap=last.hour, dear=last.hour)
    if cold := sum(pool.line.most for pool in pools if pool.pulls):
        gigabytes = cold * assumption("pull-gb")
        yield units(first.line.cluster, "NAT traffic", "images of new nodes, GB", "nat-gateway-gb", first.region, 0, gigabytes)


def _week(pools: Sequence[Paid], waiting: Sequence[Waiting]) -> Iterator[tuple[float, Sequence[int]]]:
    """The nodes of each pool while no window is open, with the share 0, then in each part of the week with its share of it."""
    opened = [entry for windows in (*(row.windows for row in pools), *(row.windows for row in waiting)) for entry in windows]
    spans = [span for entry in opened for span in _spans(entry)]
    edges = sorted({edge % _WEEK for begin, length in spans for edge in (begin, begin + length)})
    yield float(not edges), _nodes(pools, waiting, None)
    for begin, end in pairwise((*edges, *(edge + _WEEK for edge in edges[:1]))):
        yield (end - begin) / _WEEK, _nodes(pools, waiting, begin)


@cache
def _spans(window: Window) -> tuple[tuple[int, int], ...]:
    """First minute and length of each time that a window is open, in a week of UTC."""
    monday, length = _MONDAY.replace(tzinfo=ZoneInfo(window.zone)), (window.end - window.start) % _DAY
    starts = ((monday + timedelta(days=day, minutes=window.start)).astimezone(UTC) - _MONDAY for day in window.days)
    return tuple((int(start.total_seconds()) // 60 % _WEEK, length) for start in starts)


def _now(least: float, windows: Iterable[Window], minute: int | None) -> int:
    """The count at a minute of the week; without a minute while no window is open."""
    counts = (
        entry.count
        for entry in windows
        if minute is not None and any((minute - begin) % _WEEK < length for begin, length in _spans(entry))
    )
    return max((int(least), *counts))


def _nodes(pools: Sequence[Paid], waiting: Sequence[Waiting], minute: int | None) -> list[int]:
    """The nodes of each pool while no job runs."""
    names = {pool.name for pool in pools}
    shared: dict[str, list[Share]] = {}
    moving: list[tuple[tuple[str, ...], int]] = []
    for runners in waiting:
        count = _now(runners.least, runners.windows, minute)
        if len(within := tuple(name for name in runners.pools if name in names)) == 1:
            shared.setdefault(within[0], []).append((count, runners.per_node))
        elif within:
            moving.append((within, -(-count // runners.per_node)))
    busy = {pool.name: min(packed(shared.get(pool.name, ())), int(pool.line.most)) for pool in pools}
    moved = _moved(sorted(pools, key=lambda pool: pool.rank, reverse=True), busy, moving)
    least = (min(_now(pool.line.least, pool.windows, minute), int(pool.line.most)) for pool in pools)
    return [max(floor, busy[pool.name] + moved[pool.name]) for floor, pool in zip(least, pools, strict=True)]


def packed(shares: Iterable[Share]) -> int:
    """The nodes that hold pods of several sizes, the largest first."""
    full, free = 0, list[Fraction]()
    for count, per_node in sorted(shares, key=lambda share: share[1]):
        size = Fraction(1, per_node)
        for _ in range(count):
            if (at := next((at for at, room in enumerate(free) if room >= size), len(free))) == len(free):
                free.append(Fraction(1))
            free[at] -= size
            if not free[at]:
                del free[at]
                full += 1
    return full + len(free)


def _moved(pools: Sequence[Paid], busy: Mapping[str, int], demands: Sequence[tuple[tuple[str, ...], int]]) -> dict[str, int]:
    """The nodes that asks of several pools have in each, so that the first pools have the most."""
    room = {str(at): Fraction(count) for at, (_, count) in enumerate(demands)}
    able = {pool.name: [str(at) for at, (names, _) in enumerate(demands) if pool.name in names] for pool in pools}
    most = {pool.name: Fraction(int(pool.line.most) - busy[pool.name]) for pool in pools}
    return {name: int(count) for name, count in taken(most, room, able).items()}


def part(total: int, groups: int, at: int) -> int:
    """The part of a total that one of several groups has: equal parts, and one more for the first ones."""
    size, more = divmod(total, groups)
    return size + (at < more)
