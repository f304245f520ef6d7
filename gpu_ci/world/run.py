"""One cluster of a stack as a world: starts the parts, installs what the program declares, queues jobs, runs and counts them."""

import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from random import Random
from statistics import median
from threading import Event, Timer
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.facts.groups import grouped
from fleet.facts.scheduling import POOL_LABEL, SCALE_SET_LABEL, SYSTEM_POOL
from fleet.loading.home import ROOT
from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.objects import targets
from fleet.render.sweeps.api import Api, Collection, Object
from fleet.settings.cluster import Cluster
from fleet.settings.monitoring import Monitoring
from gpu_ci.world import autoscaler, parts, services
from gpu_ci.world.cloud import Cloud, groups
from gpu_ci.world.github import GitHub
from gpu_ci.world.hands import PROGRAMS, Hands, Program
from gpu_ci.world.install import Installer, chart_of, everything, is_whole, require_charts
from gpu_ci.world.jobs import Batch
from gpu_ci.world.metrics import Metrics, Scraped, of_pods, require_factor
from gpu_ci.world.plane import FAILS, FAKE_NODE, LOG, Followed, Plane, control_plane, now, owner_of, passes, write_status
from gpu_ci.world.processes import Processes
from gpu_ci.world.scale_sets import EndedError, Job, Runner, Service
from gpu_ci.world.steps import GROUPS, SERVED, recorded, releases, steps, without

_URL = "githubConfigUrl"
_STILL = 120
"""Seconds without any change after which jobs that wait count as stuck."""


class Options(NamedTuple):
    """`factor`: seconds of the fleet in one of the world. `charts` has the stack's charts, `folder` gets all files of the run."""

    factor: float
    charts: Path
    programs: parts.Parts
    folder: Path
    day: date


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
            if (node := pod["spec"].get("nodeName", "")) in pools and pod["metadata"]["uid"] not in self._seen:
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


class World:
    """A cluster's control plane with all that stands for the rest. It ends with its block."""

    plane: Plane
    github: GitHub
    cloud: Cloud
    hands: Hands
    observed: Observed

    def __init__(self, config: StackConfig, fleet: Fleet, cluster: str, options: Options) -> None:
        """Read the program. Raises InputError for a chart that is missing, and for a factor that its alerts cannot follow."""
        self.options, self.name, self.fleet, self.settings = options, cluster, fleet, fleet.clusters[cluster]
        if self.settings.monitoring is not None:
            require_factor(options.factor)
        declared = steps(fleet, cluster, *recorded(ROOT, config, fleet))
        require_charts(declared, options.charts)
        parted = {one.chart for one in releases(declared) if not is_whole(chart_of(one, options.charts))} & GROUPS.keys()
        self.steps, self.left_out = without(declared, parted | {*SERVED} - options.programs.keys())
        self.times: dict[str, float] = {}
        self._stack, self._stop = ExitStack(), Event()

    @property
    def autoscaled(self) -> bool:
        """Whether the real cluster-autoscaler decides about nodes."""
        return AUTOSCALER in self.options.programs and AUTOSCALER in {one.chart for one in releases(self.steps)}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._stack.close()

    def _start(self) -> None:
        began, stack = time.monotonic(), self._stack
        processes = stack.enter_context(Processes(self.options.folder))
        stack.callback(self._stop.set)
        self.plane = control_plane(processes, self.options.programs)
        self.empty = everything(self.plane)
        self.github = GitHub()
        url = self.github.start()
        stack.callback(self.github.stop)
        self.cloud = Cloud(self.plane.api, groups(self.name, self.settings, self.fleet.github), self.options.factor)
        if not self.autoscaled:
            self.cloud.sizes = {name: group.span.max for name, group in self.cloud.groups.items()}
        self.cloud.start(self._stop)
        self.pods = Followed(self.plane.api, "/api/v1/pods", self._stop)
        self.nodes = Followed(self.plane.api, "/api/v1/nodes", self._stop)
        self.observed = Observed(self.plane, self.settings, self.pods, self.nodes, self._stop)
        self.hands = Hands(self.plane, self.pods, [self._adapted(program) for program in PROGRAMS])
        stack.callback(self.hands.close)
        stack.callback(services.serve(self.options.folder, self.hands.port))
        self.player = Player(self.plane.api, self.github, self.pods, self._node)
        for once in (self.player.once, self.observed.once):
            wake = Event()
            for wakes in (self.pods.wakes, self.nodes.wakes, self.github.wakes):
                wakes.append(wake)
            passes(once, wake, self._stop, 0.2)
        self.metrics = self.monitored(self.settings.monitoring) if self.settings.monitoring is not None else None
        self.installer = Installer(self.plane, self.options.charts, lambda values: _with_url(values, url))
        self.times["control plane"] = time.monotonic() - began

    def monitored(self, monitoring: Monitoring) -> Metrics | None:
        """Prometheus with the rules that this monitoring installs, until the world ends. None without its programs."""
        if not {"prometheus", "kube-state-metrics"} <= self.options.programs.keys():
            return None
        settings = self.settings.model_copy(update={"monitoring": monitoring})
        fleet = self.fleet.model_copy(update={"clusters": {**self.fleet.clusters, self.name: settings}})
        monitors = [*targets(settings, {release.name for release in releases(self.steps)})]

        def scraped() -> Iterator[Scraped]:
            return of_pods(monitors, monitoring.namespace, self.pods.values(), lambda *pod: self.hands.run(*pod).ports)

        metrics = Metrics(self.plane, fleet, self.name, scraped, self.options.factor)
        self._stack.callback(metrics.close)
        return metrics

    def _adapted(self, program: Program) -> Program:
        """The autoscaler asks the world's cloud, and its times are shorter by the factor."""
        if program.part != AUTOSCALER or not self.autoscaled:
            return program
        file, stop = autoscaler.serve(self.cloud, self.options.folder)
        self._stack.callback(stop)
        release = next(one for one in releases(self.steps) if one.chart == program.part)
        more = [*program.more, f"--cloud-config={file}", *autoscaler.flags(release.values["extraArgs"], self.options.factor)]
        return replace(program, more=more, files={**program.files, str(file): file})

    def _node(self, name: str) -> Literal["up", "silent", "gone"]:
        if (node := self.nodes.objects.get(("", name))) is None:
            return "gone"
        return "up" if FAKE_NODE in node["metadata"].get("annotations", {}) else "silent"

    def install(self) -> tuple[str, ...]:
        """Install each step that is missing, and wait until GitHub knows every set; returns what changed."""
        began = time.monotonic()
        changed = self.installer.install(self.steps)
        sets = {name for name, runner in self.settings.pod_runners.items() if runner.scale.max}
        listed = self.github.sets
        self.plane.wait(lambda: sets <= {one.name for one in listed.values() if one.session}, "a session of each listener")
        self.times.setdefault("install", time.monotonic() - began)
        return changed

    def queue(self, batches: Iterable[Batch]) -> None:
        """Queue jobs, each batch at its time."""
        for batch in batches:
            timer = Timer(batch.at / self.options.factor, self._queue, (batch,))
            timer.daemon = True
            self._stack.callback(timer.cancel)
            timer.start()

    def _queue(self, batch: Batch) -> None:
        for _ in range(batch.count):
            self.github.queue(batch.runs_on, seconds=batch.takes / self.options.factor)

    def work(self, count: int, look: Callable[[], None], until: Callable[[], bool] = lambda: True, still: float = _STILL) -> bool:
        """Wait until `count` jobs have ended and `until` holds, and call `look`; false if nothing changes for `still` seconds."""
        began = changed = time.monotonic()
        state: object = None
        while not (len(self.ended) >= count and until()):
            look()
            time.sleep(0.5)
            self.plane.processes.require_alive()
            now = (len(self.ended), [job.state for job in self.github.jobs if job.state != "completed"], self.sizes())
            if now != state:
                state, changed = now, time.monotonic()
            if time.monotonic() - changed > still:
                return False
        self.times.setdefault("jobs", time.monotonic() - began)
        return True

    @property
    def ended(self) -> Sequence[Job]:
        """The jobs that have ended."""
        return [job for job in self.github.jobs if job.state == "completed"]

    def sizes(self) -> dict[str, int]:
        """Nodes of each pool now."""
        count = dict.fromkeys((group.pool for group in self.cloud.groups.values()), 0)
        for one in [*self.cloud.instances.values()]:
            count[one.group.pool] += one.made
        return count

    def at_least(self) -> bool:
        """Whether every pool is as small as its settings allow."""
        counts = ((count, self.settings.pools[name]) for name, count in self.sizes().items() if name != SYSTEM_POOL)
        return not self.autoscaled or all(count <= pool.idle_nodes for count, pool in counts)

    def remove(self, order: Random) -> list[str]:
        """Remove everything, in an order that the program allows; returns what is left of it."""
        began = time.monotonic()
        self.installer.remove(self.steps, order)
        self.times.setdefault("remove", time.monotonic() - began)
        # Nodes are the cloud's.
        return sorted(text for text in everything(self.plane) - self.empty if not text.startswith("Node "))


def _with_url(values: Object, url: str) -> Object:
    """The values of a release, with the world's GitHub."""
    return {**values, _URL: url + urlsplit(values[_URL]).path} if _URL in values else values


_CONTAINER, _JIT = "runner", "ACTIONS_RUNNER_INPUT_JITCONFIG"
"""The container that is the runner, and the variable with its configuration (ARC 0.14.2, constants.go)."""


@dataclass
class _Process:
    """The runner's process in a pod. `code` is its exit code once it has ended, `written` whether the pod shows it."""

    runner: Runner | None
    job: Job | None = None
    code: int | None = None
    written: bool = False


class Player:
    """Plays the runners of all `pods` that run and belong to an EphemeralRunner. `once` is one pass, for `follow.passes`.

    `node` returns the state of the node with this name. The runners of a node that is gone are lost. On a silent one they go
    on, and their pods show their end only when the node is up again.
    """

    def __init__(
        self, api: Api, github: Service, pods: Collection, node: Callable[[str], Literal["up", "silent", "gone"]] = lambda _: "up"
    ) -> None:
        self._api, self._github, self._pods, self._node = api, github, pods, node
        self._processes: dict[str, _Process] = {}

    def once(self) -> None:
        """Start new runners, continue the others, and report those that vanished."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.values() if self._runs(pod)}
        for uid in self._processes.keys() - pods.keys():
            if (process := self._processes.pop(uid)).code is None and process.runner is not None:
                self._github.lost(process.runner)
        for uid, pod in pods.items():
            try:
                process = self._processes.get(uid) or self._start(pod)
                self._processes[uid] = process
                self._step(process)
                if process.code is not None and not process.written and self._node(pod["spec"]["nodeName"]) == "up":
                    self._write(pod, process)
            # A runner talks to GitHub, and goes on without the API server.
            except FAILS as error:
                LOG.debug("runner %s: %s", pod["metadata"]["name"], error)

    def _runs(self, pod: Object) -> bool:
        runs = owner_of(pod)[0] == "EphemeralRunner" and pod["status"].get("phase") == "Running"
        return runs and self._node(pod["spec"]["nodeName"]) != "gone"

    def _start(self, pod: Object) -> _Process:
        variables = next(one for one in pod["spec"]["containers"] if one["name"] == _CONTAINER)["env"]
        source = next(one for one in variables if one["name"] == _JIT)["valueFrom"]["secretKeyRef"]
        secret = self._api.call("GET", f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{source['name']}")
        try:
            return _Process(self._github.register(b64decode(secret["data"][source["key"]]).decode()))
        except EndedError as end:
            return _Process(None, code=end.code)

    def _step(self, process: _Process) -> None:
        if process.code is not None or process.runner is None:
            return
        try:
            process.job = process.job or self._github.next_job(process.runner)
        except EndedError as end:
            process.code = end.code
        # The runner ends with 0 also after a job that failed.
        if process.job is not None and self._github.clock() >= process.job.started + process.job.seconds:
            self._github.finish(process.job)
            process.code = 0

    def _write(self, pod: Object, process: _Process) -> None:
        began = {one["name"]: one["state"].get("running", {}).get("startedAt") for one in pod["status"]["containerStatuses"]}
        at, failed = now(), bool(process.code)
        ended = {"reason": "Error" if failed else "Completed", "exitCode": process.code, "finishedAt": at}
        states = {name: {"running": None, "terminated": ended | {"startedAt": start}} for name, start in began.items()}
        ends = [{"name": name, "ready": False, "started": False, "state": state} for name, state in states.items()]
        reason = {"reason": "PodFailed" if failed else "PodCompleted", "lastTransitionTime": at}
        conditions = [{"type": kind, "status": "False"} | reason for kind in ("Ready", "ContainersReady")]
        status = {"phase": "Failed" if failed else "Succeeded", "containerStatuses": ends, "conditions": conditions}
        write_status(self._api, pod, status)
        process.written = True
