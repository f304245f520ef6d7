"""A simple rule that makes and ends nodes where the program of Cluster Autoscaler is missing.

A pending pod gets a node of the first of its pools that has one left. A node without pods goes after the idle delay of its pool.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction

from fleet.facts.requests import amounts, requests_of
from fleet.facts.scheduling import SYSTEM_POOL
from fleet.prove.pending_rules import reasons
from fleet.prove.pod import pod_of
from fleet.render.sweeps.api import Collection, Object
from gpu_ci.world.cloud import Cloud
from gpu_ci.world.follow import owner_of
from gpu_ci.world.groups import Group

Room = dict[str, Fraction]


class Buyer:
    """The rule, over the nodes and all pods of a cluster as they are in memory."""

    def __init__(self, cloud: Cloud, nodes: Collection, pods: Collection, clock: Callable[[], float] = time.monotonic) -> None:
        self.cloud, self.nodes, self.pods = cloud, nodes, pods
        self._clock, self._idle = clock, dict[str, float]()

    def once(self) -> None:
        """Make a node for each pod that finds no room, and end the nodes that were idle for long enough."""
        on: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in self.pods.values():
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                on[pod["spec"].get("nodeName", "")].append(pod)
        rooms = self._rooms(on)
        for pod in filter(_unschedulable, on[""]):
            self._place(pod, rooms)
        self._end_idle(on)

    def _rooms(self, on: Mapping[str, list[Object]]) -> list[tuple[Group, Room]]:
        """What is left on each node that takes pods, and on those that boot."""
        known = {node["metadata"]["name"]: node for node in self.nodes.values()}
        rooms = []
        for one in [*self.cloud.instances.values()]:
            fresh = one.group.node(one.at, one.name, one.zone)
            node = known.get(one.name, fresh)
            keys = {taint["key"] for taint in node["spec"].get("taints", ())} - {
                taint["key"] for taint in fresh["spec"]["taints"]
            }
            if not (one.refused or keys or node["spec"].get("unschedulable")):
                room = amounts(node["status"]["allocatable"])
                for pod in on.get(one.name, ()):
                    _take(room, pod)
                rooms.append((one.group, room))
        return rooms

    def _place(self, pod: Object, rooms: list[tuple[Group, Room]]) -> None:
        asked = pod_of("pod", pod)
        groups = [group for group in self.cloud.groups.values() if asked is not None and not any(reasons(asked, group.of))]
        for group, room in rooms:
            if group in groups and all(room.get(name, 0) >= amount for name, amount in _asked(pod).items()):
                _take(room, pod)
                return
        for group in sorted(groups, key=lambda group: -_weight(pod, group)):
            if self.cloud.sizes[group.id] < group.span.max and group.id not in self.cloud.refuses:
                self.cloud.increase(group.id, 1)
                room = amounts(group.template()["status"]["allocatable"])
                _take(room, pod)
                rooms.append((group, room))
                return

    def _end_idle(self, on: Mapping[str, list[Object]]) -> None:
        now = self._clock()
        busy = {name for name, pods in on.items() if any(owner_of(pod)[0] != "DaemonSet" for pod in pods)}
        for one in [*self.cloud.instances.values()]:
            if one.name in busy or not one.made or one.group.pool == SYSTEM_POOL:
                self._idle.pop(one.name, None)
                continue
            idle = now - self._idle.setdefault(one.name, now)
            if idle >= self.cloud.idle_delay(one.group) and self.cloud.sizes[one.group.id] > one.group.span.min:
                self.cloud.delete(one.group.id, [one.name])


def _asked(pod: Object) -> Room:
    return {name: amount for name, amount in requests_of(pod["spec"]).items() if amount} | {"pods": Fraction(1)}


def _take(room: Room, pod: Object) -> None:
    for name, amount in _asked(pod).items():
        room[name] = room.get(name, Fraction(0)) - amount


def _unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


def _weight(pod: Object, group: Group) -> int:
    """The sum of the pod's preferences that the nodes of a group match."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return sum(
        each["weight"]
        for each in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        if all(
            (group.of.values(0, row["key"]) or frozenset()) & {*row.get("values", ())}
            for row in each["preference"]["matchExpressions"]
        )
    )
