"""What a run counts: where runner pods land, how many nodes and runners there are at once, warnings, and the money."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from threading import Event
from typing import Any

from fleet.facts.groups import grouped
from fleet.facts.scheduling import POOL_LABEL, SCALE_SET_LABEL
from fleet.render.sweeps.api import Object
from fleet.settings.cluster import Cluster
from gpu_ci.world.follow import Followed, owner_of
from gpu_ci.world.plane import Plane
from gpu_ci.world.scale_sets import Service

EXPECTED = frozenset({"FailedScheduling"})
"""Reasons of warnings that belong to a fleet that works: a runner waits for its node."""


@dataclass
class Observed:
    """What happened so far. `astray` are runner pods on a pool that their class does not name."""

    plane: Plane
    cluster: Cluster
    pods: Followed
    nodes: Followed
    stop: Event
    landed: Counter[tuple[str, str]] = field(default_factory=Counter)
    astray: list[str] = field(default_factory=list)
    peak_runners: Counter[str] = field(default_factory=Counter)
    peak_nodes: Counter[str] = field(default_factory=Counter)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._events = Followed(self.plane.api, "/api/v1/events", self.stop)

    def once(self) -> None:
        """Count pods and nodes as they are now."""
        pools = {node["metadata"]["name"]: node["metadata"].get("labels", {}).get(POOL_LABEL, "") for node in self.nodes.values()}
        runners = [pod for pod in self.pods.values() if owner_of(pod)[0] == "EphemeralRunner"]
        self._peak(self.peak_nodes, Counter(pools.values()))
        self._peak(self.peak_runners, Counter(map(class_of, runners)))
        for pod in runners:
            node = pod["spec"].get("nodeName", "")
            if node in pools and pod["metadata"]["uid"] not in self._seen:
                name, pool = class_of(pod), pools[node]
                self._seen.add(pod["metadata"]["uid"])
                self.landed[name, pool] += 1
                if name in self.cluster.pod_runners and pool not in self.cluster.pod_runners[name].ordered:
                    self.astray.append(f"{pod['metadata']['name']} of {name} on {pool}")

    @staticmethod
    def _peak(peaks: Counter[str], now: Counter[str]) -> None:
        for name, count in now.items():
            peaks[name] = max(peaks[name], count)

    def warnings(self) -> dict[str, int]:
        """Warnings that the plan did not foresee, by kind of object and reason."""
        counted: Counter[str] = Counter()
        for event in self._events.values():
            if event.get("type") == "Warning" and event.get("reason") not in EXPECTED:
                counted[f"{event['involvedObject']['kind']} {event.get('reason')}"] += event.get("count") or 1
        return dict(counted.most_common())


def class_of(pod: Object) -> str:
    """The runner class of a runner's pod."""
    return str(pod["metadata"].get("labels", {}).get(SCALE_SET_LABEL, ""))


def waits(github: Service) -> dict[str, dict[str, Any]]:
    """For each class: its jobs by state, and seconds from queue to start, of a real clock."""
    table: dict[str, dict[str, Any]] = {}
    by_class = grouped((job.scale_set.name if job.scale_set else ", ".join(job.runs_on), job) for job in [*github.jobs])
    for name, jobs in by_class.items():
        started = sorted(job.started - job.queued for job in jobs if job.started)
        longest = {"median": median(started), "p95": started[int(len(started) * 0.95)], "longest": started[-1]} if started else {}
        results = Counter(job.result if job.state == "completed" else job.state for job in jobs)
        table[name] = {"jobs": len(jobs), **results, "wait": {key: round(value, 1) for key, value in longest.items()}}
    return table
