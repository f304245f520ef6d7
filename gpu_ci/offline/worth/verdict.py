"""What jobs would have cost on GitHub's GPU runners, on a VM for each job and on a fleet, and which is the cheapest.

Every amount is a range (low, high) of USD: at the low end types and spot are as cheap and starts as short as any source says, at
the high end as expensive and as long. A way that cannot run a job pays a VM on demand for it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date
from functools import cache
from typing import Any, NamedTuple

from fleet.facts import bill as counting, hardware, spot
from fleet.facts.errors import InputError, instead
from fleet.facts.groups import grouped
from fleet.facts.hardware import ON_DEMAND, SPOT, Machine
from fleet.facts.pricing import average, quoted
from fleet.facts.tables import beside
from fleet.prove.bill import bill
from fleet.prove.placement import Placement
from fleet.prove.runner_pods import runner_ask
from fleet.prove.runs_on import RunsOn
from fleet.prove.start import starts
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.budget import MONTH
from fleet.settings.runner import PodRunner
from gpu_ci.offline.why.causes import Stack
from gpu_ci.offline.worth.history import Past
from gpu_ci.offline.worth.replay import Ask, Class, Played, Pool

_TABLES = beside(__file__, "worth.toml")
_ANSWERS, _GITHUB, _REASONS, _WAYS, _NOTES = (_TABLES[key] for key in ("answers", "github", "reasons", "ways", "notes"))
Range = tuple[float, float]
_STARTS: Range = (_TABLES["start-s"]["low"], _TABLES["start-s"]["high"])
_FREE: Range = (0, 0)
_TIMES = [2.0**power for power in range(-10, 13)]
"""How often each job comes, to find from which number of GPU hours a fleet is cheaper."""
_MOST_JOBS = 100_000
"""The most jobs that such a search replays at once."""


class Way(NamedTuple):
    """One way to run the jobs, with its USD of the period.

    `waits` are the median, 95 % and the longest, in seconds, and `late` is how many jobs wait for longer than asked; empty if
    that is not known. `lacks` counts the jobs that it cannot run, by reason. `rival`: whether the answer may name it. `above` are
    the GPU hours a month from which the fleet is cheaper, on full nodes and as these jobs came; None for no number, empty for the
    fleet.
    """

    name: str
    usd: Range
    waits: tuple[Range, ...]
    late: tuple[int, ...]
    lacks: Mapping[str, int]
    rival: bool
    above: tuple[float | None, ...]


class _Part(NamedTuple):
    """Jobs of one class, with their `hours` of work. `full` is USD of an hour of its `gpus` on full nodes.

    `costs` is what they cost elsewhere, and `no` says why a way cannot run them.
    """

    name: str
    places: tuple[Placement, ...]
    jobs: list[Past]
    hours: float
    gpus: int
    full: float
    costs: Mapping[str, Range]
    no: Mapping[str, str]


class Comparison:
    """A fleet on a day beside the other ways. `aliases`: the runner set that stands for a label. Raises InputError."""

    def __init__(self, fleet: Fleet, day: date, aliases: Mapping[str, str]) -> None:
        names = {name for _, name, _ in fleet.runner_sets()}
        if wrong := [name for name in aliases.values() if name not in names]:
            fix = instead(wrong[0], names, f"its sets are {', '.join(sorted(names))}")
            raise InputError(f"--map: the stack has no runner set {wrong[0]}; {fix}")
        self._fleet, self._stack, self._bill = fleet, Stack("", fleet, day), bill(fleet, day)
        self._aliases = {label.lower(): name for label, name in aliases.items()}
        parts = [(name, part) for name, one in fleet.clusters_by_name() for part in PROVIDERS[one.provider].bill(name, one, day)]
        self._paid = {(name, part.name): part for name, part in parts if isinstance(part, counting.Paid)}
        self._idle = {(line.cluster, line.item): line.least for line in self._bill}
        self._starts = {(one.cluster, one.runner_set): one for one in starts(fleet, day)}
        self._spot = any(place.host.capacity == SPOT for place in self._stack.placements)
        self._minute = hardware.unit_price("github-gpu-minute", "*")
        source = f"{self._minute.source}, {self._minute.date}" if self._minute else ""
        self._sources = {f"{_WAYS['github']}: {quoted(self._minute)} USD a minute, {source}": None}
        self._set = cache(self._set_of)

    def verdict(self, jobs: Sequence[Past], others: Mapping[str, int], days: int | None, late: float) -> dict[str, Any]:
        """The answer for jobs in whole days of UTC, and what it compares. Raises InputError.

        `answer` is us, not us or undecided, and `why` says why. `jobs` with `hours` of GPUs in the `days` from `first` waited
        `waits`. `left` counts the jobs that the comparison leaves out, by reason, `others` among them. A job is late after `late`
        seconds.
        """
        moments = [moment.astimezone(UTC).date() for job in jobs for moment in (job.created_at, job.completed_at) if moment]
        shown = (max(moments) - min(moments)).days + 1 if moments else 1
        if days is not None and days < shown:
            raise InputError(f"--period: the history has jobs of {shown} days; write {shown} or more; got {days}")
        left, parts = Counter(others), list[_Part]()
        keys = ((self._set(job.labels, job.runner_group_name), job.container) for job in jobs)
        for (key, container), alike in grouped(zip(keys, jobs, strict=True)).items():
            part = self._part(key, alike, container) if isinstance(key, tuple) else None
            why = str(key) if part is None else "" if part.gpus else _REASONS["cpu"].format(name=part.name)
            if part is not None and part.no.keys() >= {"github", ON_DEMAND, "fleet"}:
                why = why or _REASONS["nothing"].format(reasons=", ".join(part.no.values()))
            left.update({why: len(alike)} if why else {})
            parts += [part] if part is not None and not why else []
        ways = tuple(self._ways(parts, days or shown, late)) if parts else ()
        answer, why = self._answer(ways, days or shown, late) if ways else ("undecided", _ANSWERS["nothing"])
        asked = [job for part in parts for job in part.jobs]
        minutes = sum(math.ceil(job.took / 60) for job in asked)
        charge = _NOTES["charge"].format(minutes=minutes, usd=minutes * _TABLES["charge"]["usd-per-minute"])
        fleet = sorted({f"{_WAYS['fleet']}: {source}" for line in self._bill for source in line.sources})
        hours, notes = math.fsum(part.hours * part.gpus for part in parts), [*map(_NOTES.get, ("range", "gaps", "out")), charge]
        of_jobs = {"jobs": len(asked), "hours": hours, "waits": _ranks([job.waited for job in asked]), "left": left}
        head = {"answer": answer, "why": why, "first": str(min(moments, default="")), "days": days or shown}
        return {**head, **of_jobs, "ways": ways, "notes": notes, "sources": (*self._sources, *fleet)}

    def _set_of(self, labels: tuple[str, ...], group: str | None) -> tuple[str, str] | str:
        """The runner set of a `runs-on`, or why there is none."""
        named = [self._aliases[label.lower()] for label in labels if label.lower() in self._aliases]
        if sets := self._stack.sets((named[0],) if named else labels):
            return min(sets, key=lambda key: self._fleet.group_of(key[0], sets[key]) != group)
        reason = "hosted" if RunsOn(labels).hosted else "unserved" if labels else "group"
        return str(_REASONS[reason].format(labels=", ".join(labels)))

    def _part(self, key: tuple[str, str], jobs: list[Past], container: bool) -> _Part:
        places = tuple(one for one in self._stack.placements if (one.cluster, one.runner_set) == key and not one.of_runners)
        runner, host, machine = places[0].runner, places[0].host, places[0].worst.machine
        gpus, cpu, memory, fits = machine.gpus, machine.vcpus * 1000, machine.memory_mib, host.machines
        if isinstance(runner, PodRunner):
            ask = runner_ask(runner)
            gpus = math.ceil(ask.gpus * machine.gpus / max(host.units(machine), 1))
            cpu, memory = ask.cpu.request, ask.memory.request
            fits = tuple(one for one in hardware.machines(machine.cloud) if _fits(one, machine, gpus, cpu, memory))
        paid, no, region = [self._paid[_pool_of(one)] for one in places], dict[str, str](), self._fleet.clusters[key[0]].region
        t4 = machine.gpu is not None and (machine.gpu.name, gpus) == (_GITHUB["gpu"], _GITHUB["gpus"])
        if not t4 or cpu > _GITHUB["cpu"] or memory > _GITHUB["memory-mib"]:
            no["github"] = _REASONS["github"]
        wrong = "container" if container and not runner.runs_containers else "plain" if runner.needs_container > container else ""
        wrong = "maximum" if not runner.span.max or not any(one.line.most for one in paid) else wrong
        if why := next((one.error for one in places if one.error), _REASONS[wrong].format(name=key[1]) if wrong else ""):
            no["fleet"] = why
        costs: dict[str, Range] = {"github": (sum(math.ceil(job.took / 60) for job in jobs) * quoted(self._minute).usd,) * 2}
        bought = SPOT if host.capacity == SPOT or not self._spot else ON_DEMAND
        for way, capacities in ((ON_DEMAND, (ON_DEMAND,)), (SPOT, (bought, ON_DEMAND))):
            offers = (self._cheapest(fits, region, capacity) for capacity in capacities)
            if (offer := next(filter(None, offers), None)) is None:
                no[way] = _REASONS["vm"].format(name=key[1])
                continue
            *hours, least = offer
            disk = paid[0].hour.usd - paid[0].line.dear.usd
            low, high = (
                sum(max(least, boot + job.took) for job in jobs) * (usd + disk) / 3600
                for boot, usd in zip(_STARTS, hours, strict=True)
            )
            costs[way] = low, high
        node = 0.0 if paid[0].prepaid is not None else _seen(host.machines, region, host.capacity, paid[0].line.cheap.usd)
        full = node / max(1, *(row.count for row in places[0].fits))
        return _Part(key[1], places, jobs, sum(job.took for job in jobs) / 3600, gpus, full, costs, no)

    def _cheapest(self, machines: Iterable[Machine], region: str, capacity: str) -> tuple[float, float, float] | None:
        """Least and most USD an hour of the cheapest machine, and the seconds that it costs at least; None without a price."""
        sold = (one for one in machines if capacity == ON_DEMAND or hardware.preemptible(one))
        offers = [(price, one) for one in sold if (price := hardware.price(one.name, region, capacity)) is not None]
        if not offers:
            return None
        price, one = min(offers, key=lambda offer: (offer[0].usd_per_hour, offer[1].name))
        low = _seen([one], region, capacity, price.usd_per_hour)
        seen = f", seen at {low:g}, {'; '.join(sorted(spot.history(one.name, region).sources))}" * (low < price.usd_per_hour)
        self._sources[f"{one.name} {capacity}: {quoted(price)} USD an hour, {price.source}, {price.date}{seen}"] = None
        return low, price.usd_per_hour, _TABLES["least-s"][f"{one.cloud}{'-metal' * one.bare_metal}"]

    def _ways(self, parts: Sequence[_Part], days: int, late: float) -> Iterator[Way]:
        own = [part for part in parts if "fleet" not in part.no]
        (low, fast), (high, slow) = (self._fleet_at(own, days, end) for end in (0, 1))
        count, hours = sum(len(part.jobs) for part in parts), sum(part.hours * part.gpus for part in parts) or 1e-9
        waits: dict[str, list[list[float]]] = {"github": [], "fleet": [fast, slow]}
        fixed, usd = average(self._bill).usd, dict[str, Range]()
        for way in ("fleet", "github", ON_DEMAND, SPOT):
            mine = [(low, high)] if way == "fleet" else [part.costs[way] for part in parts if way not in part.no]
            usd[way] = _sum([*mine, *(part.costs.get(ON_DEMAND, _FREE) for part in parts if way in part.no)])
        full = (sum(part.hours * part.full for part in own) + usd["fleet"][0] - low) / hours
        each = cache(
            lambda times: (high if times == 1 else self._fleet_at(own, days, 1, times)[0] / times) + usd["fleet"][1] - high
        )
        for way in ("github", ON_DEMAND, SPOT, "fleet"):
            lacks = Counter[str]()
            for part in (part for part in parts if way in part.no):
                lacks[part.no[way]] += len(part.jobs)
            able = any(way not in part.no for part in parts) and not any({way, ON_DEMAND} <= part.no.keys() for part in parts)
            ends = waits.get(way, [[start] * count for start in _STARTS])
            ranks, over = tuple(zip(*map(_ranks, ends), strict=True)), tuple(sum(wait > late for wait in end) for end in ends)
            saved, rate = usd[way][0] / hours - full, hours / days / 24 * MONTH
            best = fixed * MONTH / saved if saved > 0 else None
            tried = (times for times in _TIMES if best is not None and rate * times >= best and 1 <= count * times <= _MOST_JOBS)
            above = (best, next((rate * times for times in tried if each(times) <= usd[way][1]), None))
            name = _WAYS["no-spot" if way == SPOT and not self._spot else way]
            yield Way(name, usd[way], ranks, over, lacks, able and (self._spot or way != SPOT), () if way == "fleet" else above)

    def _fleet_at(self, parts: Sequence[_Part], days: int, end: int, times: float = 1) -> tuple[float, list[float]]:
        """USD of the fleet, and the waits of the jobs that it runs, at the low (0) or the high end (1) of prices and starts.

        Each job comes so many `times`, spread over an hour; below 1, jobs are left out.
        """
        placed = {_pool_of(place): place.host for part in parts for place in part.places}
        hosts = [{_pool_of(place): (max, min)[end](one.count for one in place.fits) for place in part.places} for part in parts]
        used = list(dict.fromkeys(key for host in hosts for key in host))
        rooms = {key: math.lcm(*(host[key] for host in hosts if key in host)) for key in used}
        classes, pools, asks, boots = list[Class](), list[Pool](), list[Ask](), list[float]()
        for at, (part, host) in enumerate(zip(parts, hosts, strict=True)):
            start = self._starts[part.places[0].cluster, part.name]
            cold, warm = ((one.low, one.high)[end] for one in (start.cold, start.warm))
            parts_of = {used.index(key): rooms[key] // count for key, count in host.items()}
            classes.append(Class(part.places[0].runner.span.max, parts_of, warm))
            some = part.jobs[:: max(round(1 / times), 1)]
            late = [copy * 3600 / times for copy in range(max(round(times), 1))]
            asks += [Ask(job.came + more, job.took, at) for job in some for more in late]
            boots.append(max(cold - warm, 0))
        for key in used:
            paid, cluster = self._paid[key], self._fleet.clusters[key[0]]
            idle = paid.line.least if paid.prepaid is not None else self._idle[key[0], paid.line.item]
            delay = cluster.idle_delay_of(key[1]) if key[1] in cluster.pools else 0
            boot = (min, max)[end](boot for boot, host in zip(boots, hosts, strict=True) if key in host)
            most = int(paid.line.most)
            pools.append(Pool(rooms[key], min(int(idle), most), most, delay, boot))
        played, usd = Played(sorted(asks), classes, pools, spread=bool(end)), average(self._bill).usd * days * 24
        for at, key in enumerate(used):
            paid, region = self._paid[key], self._paid[key].region
            cheap = _seen(placed[key].machines, region, placed[key].capacity, paid.line.cheap.usd)
            hour = 0 if paid.prepaid is not None else paid.hour.usd - (0 if end else paid.line.dear.usd - cheap)
            pull = quoted(hardware.unit_price("nat-gateway-gb", region)).usd * counting.assumption("pull-gb") * paid.pulls * end
            # Runners that wait and placeholders keep their nodes beside those of jobs, at most while jobs run.
            busy = min(days * 24, times * sum(part.hours for part, host in zip(parts, hosts, strict=True) if key in host))
            beside = (pools[at].least - paid.line.least) * busy * end
            usd += (played.hours[at] + beside) * hour + played.launches[at] * pull
        return usd, played.waits

    def _answer(self, ways: Sequence[Way], days: int, late: float) -> tuple[str, str]:
        fleet, rivals = ways[-1], [way for way in ways[:-1] if way.rival]
        if not rivals:
            return "undecided", _ANSWERS["alone"].format(fleet=month(fleet.usd, days))
        rival = min(rivals, key=lambda way: way.usd)
        paid = [self._paid[_pool_of(place)] for place in self._stack.placements]
        (best, here), unknown = rival.above, average(self._bill).unknown + sum(one.hour.unknown for one in paid)
        us = not unknown and all(fleet.usd[end] <= way.usd[end] for way in rivals for end in (0, 1))
        more = any(all(way.usd[end] < fleet.usd[end] for end in (0, 1)) for way in rivals)
        answer = "us" if us else "not us" if more else "undecided"
        above = _ANSWERS["never" if best is None else "full" if here is None else "above"].format(best=best, here=here)
        words = {"fleet": month(fleet.usd, days), "rival": rival.name, "usd": month(rival.usd, days), "above": above}
        words |= {"unknown": unknown, "late": fleet.late[-1], "minutes": late / 60}
        parts = [answer, *["unknown"] * bool(unknown), *["late"] * bool(fleet.late[-1])]
        return answer, "".join(_ANSWERS[part].format(**words) for part in parts)


def _fits(one: Machine, like: Machine, gpus: int, cpu: int, memory: int) -> bool:
    """Whether a machine with the same GPU has what a job asks for."""
    same = one.gpu == like.gpu and one.gpu_memory_mib >= like.gpu_memory_mib
    return same and one.gpus >= gpus and one.vcpus * 1000 >= cpu and one.memory_mib >= memory


def _seen(machines: Iterable[Machine], region: str, capacity: str, usd: float) -> float:
    """The lowest USD an hour that a source has for one of machines: a listed price of spot may be that on demand."""
    names = (one.name for one in machines if capacity == SPOT)
    return min([usd, *(each.usd for name in names for each in spot.history(name, region).sightings if each.usd)])


def _pool_of(place: Placement) -> tuple[str, str]:
    """The cluster and the name of a class's pool or machines in the bill."""
    return place.cluster, place.host.name if isinstance(place.runner, PodRunner) else f"machines {place.runner_set}"


def _ranks(waits: Iterable[float]) -> tuple[float, ...]:
    """Median, 95 % and longest by nearest rank; empty without waits."""
    ordered = sorted(waits)
    return tuple(ordered[max(math.ceil(part * len(ordered)) - 1, 0)] for part in (0.5, 0.95, 1)) if ordered else ()


def _sum(ranges: Iterable[Range]) -> Range:
    low, high = zip(_FREE, *ranges, strict=True)
    return math.fsum(low), math.fsum(high)


def month(amounts: Range, days: int) -> str:
    """An amount of some days as one of a month: "268-271"."""
    low, high = (amount / days / 24 * MONTH for amount in amounts)
    return span(low, high)


def span(low: float, high: float) -> str:
    """A range of amounts in words."""
    return "-".join(dict.fromkeys(f"{amount:.0f}" if high >= 100 else f"{amount:.2f}" for amount in (low, high)))
