"""The pools and runner sets of a new stack from a foreign fleet, as `gpu-ci audit` reads it."""

import re
from itertools import count
from pathlib import Path

from fleet.facts import hardware
from fleet.facts.errors import InputError
from fleet.facts.hardware import ON_DEMAND, SPOT
from fleet.facts.spot import MAX_SPREAD, MIN_TYPES, spread
from fleet.prove.pod import Pod
from gpu_ci.audit.homes import homes
from gpu_ci.audit.model import Pool, RunnerClass, Seen, gpus_of
from gpu_ci.audit.reading import audit
from gpu_ci.offline.init.parts import Jobs, Part, fallback

_LONGEST = 24
"""Characters of a name: those of a node group have the cluster and the zone, too."""
_MOST_NODES = 4
"""Nodes of a pool that says no maximum."""


class Imported:
    """What a folder of a foreign fleet gives `init`. `left_out` has a line for each class that the new stack cannot have."""

    provider = "eks"

    def __init__(self, path: Path) -> None:
        seen = audit(path)
        self.left_out: list[str] = []
        self._parts: dict[str, tuple[Part, ...]] = {}
        self._names: set[str] = set()
        found = [(one, jobs) for one in seen.classes if (jobs := self._jobs(one, seen)) is not None]
        if not found:
            why = "; ".join(self.left_out) or "it has no runner class"
            raise InputError(f"--from: {path} gives no class on a GPU machine of EC2: {why}; name a folder with its pools too")
        self.sets = tuple(jobs for _, jobs in found)
        first = self.sets[0].pools[0].machines[0]
        self.gpu = first.gpu.name if first.gpu else ""
        self.region = next((region for pool in seen.pools if (region := pool.region)), "")
        self.organization = next((one.url for one, _ in found if one.url), "")

    def _jobs(self, one: RunnerClass, seen: Seen) -> Jobs | None:
        gpus, found = gpus_of(one), homes(one, seen)
        pools = tuple(part for home in found for part in self._pool(home.pool))
        if one.machines:
            pools = self._of(one.name, one.machines, one.capacities, one.maximum)
        if not gpus or not pools:
            unknown = "no table has its machines" if gpus is None else "it asks for no GPU"
            why = unknown if not gpus else "no pool of the folder with a GPU machine of EC2 runs it"
            self.left_out.append(f"{one.name or one.place}: {why}")
            return None
        asks = Pod("", "", "", one.where, "", 1, False).requests()
        cpus, gib = int(asks.get("cpu", 0)), int(asks.get("memory", 0) / 2**30)
        name = self._name(one.name)
        # Jobs ask for the name that the class has there.
        labels = sorted(label for label in {one.name, *one.labels} if re.fullmatch(r"[\w.-]+", label) and label.lower() != name)
        return Jobs(name, pools[:2], gpus, f"From {one.place}.", labels, ask=(cpus, gib), most=one.maximum)

    def _pool(self, pool: Pool) -> tuple[Part, ...]:
        if pool.name not in self._parts:
            self._parts[pool.name] = self._of(pool.name, pool.types, pool.capacities, pool.maximum)
        return self._parts[pool.name]

    def _of(self, name: str, types: tuple[str, ...], capacities: tuple[str, ...], most: int | None) -> tuple[Part, ...]:
        """A pool of the first type and those like it: on spot if there are enough, with one on demand behind it."""
        machines = [each for each in map(hardware.find, types) if each is not None and each.gpus and each.cloud == "aws"]
        if not machines:
            return ()
        # One spot pool may have machines with as many GPUs of a kind, and of a similar size.
        kind = (machines[0].gpu, machines[0].gpus)
        alike = tuple(one for one in machines if (one.gpu, one.gpus) == kind and spread(machines[0], one) <= MAX_SPREAD)
        own, nodes = self._name(name), most or _MOST_NODES
        if SPOT in capacities and len(alike) >= MIN_TYPES and nodes > 1:
            return Part(f"{own}-spot", alike[:MIN_TYPES], SPOT, "burst", nodes), fallback(own, alike)
        return (Part(own, alike[:1], ON_DEMAND, "release", nodes),)

    def _name(self, text: str) -> str:
        """A name that a stack file may have, and that nothing else has yet."""
        stem = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        stem = stem if len(stem) <= _LONGEST else stem[-_LONGEST:].partition("-")[2] or stem[-_LONGEST:]
        stem = stem if stem[:1].isalpha() else f"x{stem}"
        name = next(name for number in count(1) if (name := stem if number == 1 else f"{stem}-{number}") not in self._names)
        self._names.add(name)
        return name
