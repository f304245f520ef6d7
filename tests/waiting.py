"""Fleets with every kind of capacity that waits, and a slow simulation of what each of their hours costs.

The simulation reads the stack file alone. Of the product it takes the prices of single units, and counts by itself: it starts and
stops each node, splits pools over zones by turns, and tries every way to place classes that have several pools.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from fleet.facts import hardware
from tests.builders import cluster, config, existing_eks, oke_cluster, oke_pool, oke_runner, pool, runner, vm_per_job

OREGON, SAN_JOSE = "us-west-2", "us-sanjose-1"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
OFFSETS = {"Etc/UTC": 0, "America/Los_Angeles": -8, "Asia/Tokyo": 9}
"""Hours of each time zone before UTC's in January."""
TYPES = {"g4dn.2xlarge": 1, "g4dn.12xlarge": 4, "g5.2xlarge": 1, "g6.12xlarge": 4, "VM.GPU.A10.1": 1, "BM.GPU.A10.4": 4}
"""GPUs of each machine type. Runners are so small that nothing else limits how many fit."""


# -- fleets ------------------------------------------------------------------------------------------------------------


def _windows(draw: st.DrawFn, key: str, least: int, most: int) -> dict[str, Any]:
    """Schedules of one or two windows of whole hours, on different days."""
    days = draw(st.permutations(DAYS))
    windows: dict[str, dict[str, Any]] = {}
    for name, on in zip(("work", "night"), (days[:2], days[3:5]), strict=True):
        start = draw(st.integers(0, 23))
        end = (start + draw(st.integers(1, 20))) % 24
        # A window that ends on the next day would meet one of that day.
        if name == "work" or (draw(st.booleans()) and end > start):
            count = draw(st.integers(least + 1, most))
            windows[name] = {
                "days": [day for day in DAYS if day in on],
                "start": f"{start:02}:00",
                "end": f"{end:02}:00",
                key: count,
            }
    if len(windows) == 2:
        work = windows["work"]
        work["start"], work["end"] = min(work["start"], work["end"]), max(work["start"], work["end"])
    return {"timeZone": draw(st.sampled_from(sorted(OFFSETS))), "windows": windows}


@st.composite
def _pools(draw: st.DrawFn, cloud: str, *, many: int = 3) -> dict[str, Any]:
    pools = {}
    for name in "abc"[: draw(st.integers(1, many))]:
        most = draw(st.integers(1, 5))
        least = draw(st.integers(0, most)) if draw(st.booleans()) else 0
        made: dict[str, Any] = {"nodes": {"min": least, "max": most}}
        made["instanceTypes"] = [draw(st.sampled_from([each for each in TYPES if ("GPU" in each) is (cloud == "oci")]))]
        if least < most and draw(st.booleans()):
            made["placeholders"] = draw(st.integers(1, most))
        if cloud == "aws" and draw(st.booleans()):
            prepared = draw(st.integers(1, most))
            state = draw(st.sampled_from(["running", "stopped"]))
            made["warm"] = {"min": draw(st.integers(0, prepared)), "maxPrepared": prepared, "state": state}
        if cloud == "aws" and least < most and draw(st.booleans()):
            made["schedules"] = _windows(draw, "nodes", least, most)
        if cloud == "aws" and "warm" not in made and draw(st.booleans()):
            made["capacity"] = "spot"
        pools[name] = (pool if cloud == "aws" else oke_pool)(**made)
    return pools


@st.composite
def _classes(draw: st.DrawFn, prefix: str, pools: Mapping[str, Any], make: Any) -> dict[str, Any]:
    classes = {}
    for at, first in enumerate((*pools, *pools)):
        # Each pool has a class, because placeholders are for one.
        if at >= len(pools) and draw(st.booleans()):
            continue
        others = draw(st.lists(st.sampled_from(sorted(pools)), max_size=2, unique=True)) if at >= len(pools) else []
        order = sorted({first, *others})
        most = draw(st.integers(1, 6))
        scale = {"min": draw(st.integers(0, most)) if draw(st.booleans()) else 0, "max": most}
        gpus = draw(st.integers(1, min(TYPES[pools[each]["instanceTypes"][0]] for each in order)))
        size = {"cpu": {"request": 1, "limit": 1}, "memory": {"request": "2Gi", "limit": "2Gi"}, "shm": "1Gi", "scratch": "1Gi"}
        made = {"pools": order, "gpus": gpus, "scale": scale, "labels": [f"{prefix}{at}"], **size}
        if scale["min"] < most and draw(st.booleans()):
            made["schedules"] = _windows(draw, "runners", scale["min"], most)
        classes[f"{prefix}-{at}"] = make(**made)
    return classes


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """One to three clusters of EKS, OKE, and of EKS that exist already."""
    clusters: dict[str, Any] = {}
    kinds = draw(st.lists(st.sampled_from(["eks", "existing", "oke"]), min_size=1, max_size=3, unique=True))
    for kind in kinds:
        cloud = "oci" if kind == "oke" else "aws"
        pools = draw(_pools(cloud))
        classes = draw(_classes(kind[:3], pools, oke_runner if cloud == "oci" else runner))
        if kind == "oke":
            most = draw(st.integers(1, 4))
            scale = {"min": draw(st.integers(0, most)), "max": most}
            if draw(st.booleans()):
                classes["machines"] = vm_per_job(scale=scale, labels=["machines"])
            clusters["sjc"] = oke_cluster(pools=pools, runners=classes)
        elif kind == "eks":
            gateways = draw(st.sampled_from(["one", "per-zone"]))
            zones = [f"{OREGON}{letter}" for letter in "abc"[: draw(st.integers(2, 3))]]
            clusters["usw2"] = cluster(pools=pools, runners=classes, zones=zones, network={"natGateways": gateways})
        else:
            clusters["plat"] = existing_eks(pools=pools, runners=classes)
    return config(clusters=clusters)


# -- the simulation ------------------------------------------------------------------------------------------------------


def _usd(item: str, region: str, capacity: str = "") -> float:
    found = hardware.price(item, region, capacity) if capacity else hardware.unit_price(item, region)
    assert found is not None, f"the tables have a price of {item} in {region}"
    return found.usd_per_hour


@dataclass
class Cluster:
    """A cluster of a stack file, with the prices of one node of each pool and of its disk."""

    settings: Mapping[str, Any]
    aws: bool = True
    node: dict[str, float] = field(default_factory=dict)
    disk: float = 0.0

    def __post_init__(self) -> None:
        self.aws = self.settings["provider"] == "eks"
        self.region = OREGON if self.aws else SAN_JOSE
        self.pools: dict[str, Any] = self.settings["pools"]
        self.disk = 200 * _usd("gp3-gb", OREGON) if self.aws else 400 * _usd("oci-volume-gb", SAN_JOSE)
        self.node = {name: _usd(each["instanceTypes"][0], self.region, each["capacity"]) for name, each in self.pools.items()}
        self.owned = "existing" not in self.settings
        self.zones = 2 if not self.owned else len(self.settings["zones"])
        self.classes = {name: each for name, each in self.settings["runners"].items() if "pools" in each}
        self.machines = [each for each in self.settings["runners"].values() if "pools" not in each]

    # -- one hour without jobs

    def asked(self, owner: Mapping[str, Any], key: str, least: int, hour: int | None) -> int:
        """The nodes or runners that an owner keeps in an hour of the week; without an hour while no window is open."""
        schedules = owner.get("schedules")
        if schedules is None or hour is None:
            return least
        local = (hour + OFFSETS[schedules["timeZone"]]) % 168
        for window in schedules["windows"].values():
            start, end = (int(window[side][:2]) for side in ("start", "end"))
            for day in window["days"]:
                opens = DAYS.index(day) * 24 + start
                if (local - opens) % 168 < (end - start) % 24:
                    return int(window[key])
        return least

    def nodes(self, hour: int | None) -> dict[str, int]:
        """The nodes of each pool, after each pod that always runs has a place."""
        pods: dict[str, list[Fraction]] = {name: [Fraction(1)] * each.get("placeholders", 0) for name, each in self.pools.items()}
        several = []
        for each in self.classes.values():
            count = self.asked(each, "runners", each["scale"].get("min", 0), hour)
            room = min(TYPES[self.pools[name]["instanceTypes"][0]] for name in each["pools"]) // each["gpus"]
            if len(each["pools"]) == 1:
                pods[each["pools"][0]] += [Fraction(1, room)] * count
            else:
                several.append((each["pools"], -(-count // room)))
        started = {name: self._started(name, sizes) for name, sizes in pods.items()}
        more = self._dearest(started, several)
        return {
            name: max(self.asked(each, "nodes", each["nodes"].get("min", 0), hour), started[name] + more[name])
            for name, each in self.pools.items()
        }

    def _started(self, name: str, sizes: Sequence[Fraction]) -> int:
        """The nodes that start for pods: one whenever no node has room, up to the maximum."""
        loads: list[Fraction] = []
        for size in sorted(sizes, reverse=True):
            for at, load in enumerate(loads):
                if load + size <= 1:
                    loads[at] += size
                    break
            else:
                if len(loads) < self.pools[name]["nodes"]["max"]:
                    loads.append(size)
        return len(loads)

    def _dearest(self, started: Mapping[str, int], several: Sequence[tuple[Sequence[str], int]]) -> dict[str, int]:
        """The most expensive of all ways to place the nodes of classes with several pools."""
        names = sorted(self.pools, key=lambda name: (self.node[name], name), reverse=True)
        reached = {tuple(0 for _ in names)}
        for order, count in several:
            for _ in range(count):
                grown = set(reached)
                for counts, name in itertools.product(reached, order):
                    at = names.index(name)
                    if started[name] + counts[at] < self.pools[name]["nodes"]["max"]:
                        grown.add((*counts[:at], counts[at] + 1, *counts[at + 1 :]))
                reached = grown

        def usd(counts: tuple[int, ...]) -> float:
            return round(sum(count * self.node[name] for count, name in zip(counts, names, strict=True)), 9)

        best = max(reached, key=lambda counts: (usd(counts), counts))
        return dict(zip(names, best, strict=True))

    def cost(self, nodes: Mapping[str, int]) -> float:
        """USD of an hour with these nodes, with the machines of warm pools beside them."""
        total: float = sum(count * (self.node[name] + self.disk) for name, count in nodes.items())
        for name, each in self.pools.items():
            if (warm := each.get("warm")) is not None:
                zones = range(min(self.zones, each["nodes"]["max"]))
                in_zone = [sum(node % len(zones) == zone for node in range(nodes[name])) for zone in zones]
                prepared = [sum(at % len(zones) == zone for at in range(warm["maxPrepared"])) for zone in zones]
                least = [sum(at % len(zones) == zone for at in range(warm["min"])) for zone in zones]
                waits = sum(max(least[zone], prepared[zone] - in_zone[zone]) for zone in zones)
                total += waits * (self.disk + (self.node[name] if warm["state"] == "running" else 0))
        return total

    @property
    def rest(self) -> float:
        """USD of everything else in an hour without jobs."""
        if not self.owned:
            return 0.0
        if not self.aws:
            gb = _usd("oci-volume-gb", SAN_JOSE)
            system = 2 * (2 * _usd("oci-e5-ocpu", SAN_JOSE) + 16 * _usd("oci-e5-gb", SAN_JOSE) + 100 * gb)
            waits: int = sum(each["scale"].get("min", 0) for each in self.machines)
            machine = _usd("VM.GPU.A10.1", SAN_JOSE, "on-demand") + 400 * gb
            return system + _usd("oke-enhanced-cluster", SAN_JOSE) + waits * machine
        gateways = self.zones if self.settings["network"]["natGateways"] == "per-zone" else 1
        system = 2 * (_usd("m6i.large", OREGON, "on-demand") + 50 * _usd("gp3-gb", OREGON))
        return system + _usd("eks-control-plane", OREGON) + gateways * (0.045 + 0.005) + 0.02 * 0.50

    # -- hours with jobs

    def hours(self, draw: random.Random, count: int) -> Iterator[float]:
        """USD of hours in which jobs come and go, pools are full or not, and nodes are replaced."""
        gb = _usd("gp3-gb", OREGON) if self.aws else _usd("oci-volume-gb", SAN_JOSE)
        nodes, hour = self.nodes(None), 0
        for _ in range(count):
            hour = (hour + 1) % 168
            floor, cold = self.nodes(hour), 0
            for name, each in self.pools.items():
                most = each["nodes"]["max"]
                after = most if draw.random() < 0.5 else draw.randint(floor[name], most)
                # Each node that starts pulls its images, and spot may take all and give all back within the hour.
                cold += most if each["capacity"] == "spot" else max(after - nodes[name], 0)
                nodes[name] = after
            usd = self.cost(nodes) + self.rest
            if self.owned and self.aws:
                usd += draw.randint(0, 2) * (_usd("m6i.large", OREGON, "on-demand") + 50 * gb) + 0.08 * 0.50 + cold * 10 * 0.045
            if self.owned and not self.aws:
                machine = _usd("VM.GPU.A10.1", SAN_JOSE, "on-demand") + 400 * gb
                usd += (
                    sum(draw.randint(0, each["scale"]["max"] - each["scale"].get("min", 0)) for each in self.machines) * machine
                )
                usd += draw.randint(0, 1) * (2 * _usd("oci-e5-ocpu", SAN_JOSE) + 16 * _usd("oci-e5-gb", SAN_JOSE) + 100 * gb)
            if self.aws:
                updated = draw.choice(sorted(self.pools))
                usd += draw.randint(0, 2) * (self.node[updated] + self.disk)
            yield usd
