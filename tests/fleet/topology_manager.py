"""Kubelet's admission by NUMA nodes, step by step as its source does it: masks of bits, hints, permutations, a merged hint.

Source: kubernetes v1.36.3, pkg/kubelet/cm/topologymanager (policy.go, policy_*.go, scope_*.go), cpumanager/policy_static.go and
devicemanager/topology_hints.go. It shares no code with `fleet.prove.topology`, which it judges.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Hint:
    """A TopologyHint: `mask` has a bit for each NUMA node; None means any."""

    mask: int | None
    preferred: bool


@dataclass(frozen=True)
class Container:
    """Limits of one container: devices, and CPUs if it may have exclusive ones (Guaranteed, whole CPUs), else 0."""

    devices: int
    cpus: int = 0


@dataclass
class Kubelet:
    """One node. `cpus` and `devices` have the NUMA node of each CPU and of each device; the first `reserved` CPUs are kept."""

    nodes: int
    cpus: list[int]
    devices: list[int]
    policy: str
    scope: str = "container"
    reserved: int = 0
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - no secret
    used_cpus: dict[int, str] = field(default_factory=dict)
    used_devices: dict[int, str] = field(default_factory=dict)

    def admit(self, pod: str, containers: list[Container]) -> bool:
        """Admit a pod and give it its CPUs and devices, or reject it and leave everything as it was."""
        if self.scope == "pod":
            whole = Container(sum(each.devices for each in containers), sum(each.cpus for each in containers))
            groups = [(whole, containers)]
        else:
            groups = [(each, [each]) for each in containers]
        for wanted, members in groups:
            best, admitted = self._merge(self._hints(wanted))
            if not admitted or not all(self._allocate(pod, each, best) for each in members):
                self.remove(pod)
                return False
        return True

    def remove(self, pod: str) -> None:
        """Free what a pod has."""
        for held in (self.used_cpus, self.used_devices):
            for item in [item for item, owner in held.items() if owner == pod]:
                del held[item]

    # -- hint providers

    def _hints(self, wanted: Container) -> list[list[Hint] | None]:
        """The hints of each resource; None if a provider has no preference."""
        free_cpus = {each for each in range(self.reserved, len(self.cpus)) if each not in self.used_cpus}
        free_devices = {each for each in range(len(self.devices)) if each not in self.used_devices}
        return [
            self._generate(self.cpus, free_cpus, wanted.cpus) if wanted.cpus else None,
            self._generate(self.devices, free_devices, wanted.devices) if wanted.devices else None,
        ]

    def _generate(self, places: list[int], free: set[int], request: int) -> list[Hint]:
        """generateCPUTopologyHints and generateDeviceTopologyHints, which are alike."""
        smallest, masks = self.nodes, []
        for mask in self._masks():
            inside = [item for item, place in enumerate(places) if mask >> place & 1]
            if len(inside) >= request:
                smallest = min(smallest, mask.bit_count())
            if sum(item in free for item in inside) >= request:
                masks.append(mask)
        return [Hint(mask, mask.bit_count() == smallest) for mask in masks]

    def _masks(self) -> Iterator[int]:
        """IterateBitMasks: fewer bits first."""
        for size in range(1, self.nodes + 1):
            for chosen in itertools.combinations(range(self.nodes), size):
                yield sum(1 << node for node in chosen)

    # -- topology manager

    def _merge(self, provided: list[list[Hint] | None]) -> tuple[Hint, bool]:
        everything = (1 << self.nodes) - 1
        filtered = [[Hint(None, True)] if hints is None else hints or [Hint(None, False)] for hints in provided]
        if self.policy == "single-numa-node":
            filtered = [
                [each for each in hints if each.preferred and (each.mask is None or each.mask.bit_count() == 1)]
                for hints in filtered
            ]
        best: Hint | None = None
        for permutation in itertools.product(*filtered):
            affinities = [each.mask for each in permutation if each.mask is not None]
            equal = all(mask == affinities[0] for mask in affinities)
            merged = everything
            for mask in affinities:
                merged &= mask
            candidate = Hint(merged, equal and all(each.preferred for each in permutation))
            if merged and (best is None or self._better(candidate, best)):
                best = candidate
        best = best or Hint(everything, False)
        return best, self.policy in ("none", "best-effort") or best.preferred

    def _better(self, candidate: Hint, current: Hint) -> bool:
        if candidate.preferred != current.preferred:
            return candidate.preferred
        one, other = candidate.mask or 0, current.mask or 0
        # IsNarrowerThan: fewer bits, then the lower value.
        return (one.bit_count(), one) < (other.bit_count(), other)

    # -- allocation

    def _allocate(self, pod: str, wanted: Container, hint: Hint) -> bool:
        """Take CPUs and devices, those of the hint first. Which ones of the hint is left to chance."""
        for places, first, used, count in (
            (self.cpus, self.reserved, self.used_cpus, wanted.cpus),
            (self.devices, 0, self.used_devices, wanted.devices),
        ):
            free = [item for item in range(first, len(places)) if item not in used]
            if len(free) < count:
                return False
            nodes = list(range(self.nodes))
            self.random.shuffle(nodes)
            free.sort(key=lambda item: (not (hint.mask or 0) >> places[item] & 1, nodes.index(places[item])))
            used.update(dict.fromkeys(free[:count], pod))
        return True
