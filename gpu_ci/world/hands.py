"""The hands of the kubelets: containers whose program this machine has run as processes, and their ends reach the pods' status.

What a kubelet does beside that is not here: images, init containers, probes, limits, renewed volumes.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from fleet.render.sweeps.api import Object
from gpu_ci.world.container import Pod, entering, expanded, namespaces
from gpu_ci.world.follow import FAILS, LOG, Followed, delete, passes
from gpu_ci.world.plane import HANDS_LABEL, Plane

PYTHON = "python3"
"""The program that is this Python."""
_PAUSES = (0.25, 0.5, 1, 2, 4, 8)
"""Seconds before each restart, the last for all others. A kubelet starts with 10 and ends with 300, too long to watch."""


@dataclass(frozen=True, slots=True)
class Program:
    """What stands for an image.

    `part` is a name of `Parts`, or PYTHON. `image` has no tag. `command` is the container's first word, where an image has
    several programs. `more` words replace those with the same flag, and flags of `without` go. `files` are files of this machine
    by their place in the container.
    """

    part: str
    image: str
    command: str = ""
    without: Sequence[str] = ()
    more: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    def runs(self, container: Object) -> bool:
        """Whether it stands for the container."""
        name, _, _ = container["image"].partition("@")
        head, slash, last = name.rpartition("/")
        repository = head + slash + last.partition(":")[0]
        return repository == self.image and self.command in ("", *container.get("command", ())[:1])

    def words(self, own: Sequence[str]) -> list[str]:
        """The arguments, changed."""
        gone = {*self.without, *(word.partition("=")[0] for word in self.more)}
        return [*(word for word in own if word.partition("=")[0] not in gone), *self.more]


_ARC = "ghcr.io/actions/gha-runner-scale-set-controller"
_GITHUB = {"GITHUB_ACTIONS_FORCE_GHES": "1"}
"""Makes ARC's client use the host of githubConfigUrl for all requests (actions/scaleset, config.go)."""
PROGRAMS = (
    Program("arc-manager", _ARC, "/manager", env=_GITHUB),
    Program("ghalistener", _ARC, "/ghalistener", env=_GITHUB),
    Program(
        "cluster-autoscaler",
        "registry.k8s.io/autoscaling/cluster-autoscaler",
        without=("--node-group-auto-discovery", "--nodes"),
        more=("--cloud-provider=externalgrpc", "--address=:8085"),
    ),
    Program(PYTHON, "docker.io/library/python"),
)
"""What a world can run. A caller adds the cloud of cluster-autoscaler and shorter delays with `dataclasses.replace`."""


@dataclass
class _Container:
    spec: Object
    program: Program
    name: str
    process: subprocess.Popen[bytes] | None = None
    state: Object = field(default_factory=dict)
    last: Object = field(default_factory=dict)
    restarts: int = 0
    due: float = 0

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs; a signal counts as 128 and its number, as in a shell."""
        code = self.process.poll() if self.process is not None else 0
        return code if code is None or code >= 0 else 128 - code


@dataclass
class _Run:
    pod: Pod
    containers: list[_Container]
    ends: float = math.inf


class Hands:
    """Runs containers of the pods that are bound, until `close`. Raises InputError if the machine refuses namespaces."""

    def __init__(self, plane: Plane, pods: Followed, programs: Sequence[Program] = PROGRAMS) -> None:
        self._plane, self._api, self._pods, self._processes = plane, plane.api, pods, plane.processes
        paths = {program.part: Path(plane.parts[program.part]) for program in programs if program.part in plane.parts}
        self._paths = {**paths, PYTHON: Path(sys.executable).resolve()}
        self._programs = [program for program in programs if program.part in self._paths]
        self._folder = plane.folder / "pods"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._way = namespaces(self._folder)
        self._runs: dict[str, _Run] = {}
        self._stop, wake = Event(), Event()
        pods.wakes.append(wake)
        self._thread = passes(self._once, wake, self._stop, 0.2)

    def close(self) -> None:
        """End all processes, and remove the files of the pods."""
        self._stop.set()
        self._thread.join()
        containers = [container for run in self._runs.values() for container in run.containers]
        for container in containers:
            _send(container, signal.SIGTERM)
        for container in containers:
            self._processes.stop(container.name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, namespace: str, pod: str, sent: signal.Signals) -> None:
        """Send the pod's processes a signal: SIGKILL ends them, SIGSTOP pauses them until SIGCONT. Raises KeyError."""
        for container in self._run(namespace, pod).containers:
            _send(container, sent)

    def ports(self, namespace: str, pod: str) -> Mapping[int, int]:
        """The local port for each port at which the pod's programs listen. Raises KeyError for a pod without a program."""
        return self._run(namespace, pod).pod.ports

    def _run(self, namespace: str, pod: str) -> _Run:
        of_pod = (run for run in [*self._runs.values()] if run.containers and _key(run.pod.entry) == (namespace, pod))
        run = next(of_pod, None)
        if run is None:
            raise KeyError(f"no process stands for pod {namespace}/{pod}")
        return run

    def _once(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.values()}
        for uid in self._runs.keys() - pods.keys():
            self._clear(uid, self._runs.pop(uid))
        for uid, pod in pods.items():
            # A failure of one pod, such as a Secret that is missing, must not stop the others.
            try:
                self._look(uid, pod)
            except FAILS as error:
                LOG.debug("pod %s/%s: %s", *_key(pod), error)

    def _look(self, uid: str, pod: Object) -> None:
        leaves = "deletionTimestamp" in pod["metadata"]
        if uid not in self._runs:
            # kwok has written the status by then, and writes no other.
            if leaves or pod.get("status", {}).get("phase") != "Running":
                return
            self._runs[uid] = self._taken(uid, pod)
        run = self._runs[uid]
        if not run.containers:
            return
        if leaves:
            self._leave(uid, run, pod)
            return
        for container in run.containers:
            self._step(run, container)
        status = _status(pod, run.containers)
        if any(pod["status"].get(key) != value for key, value in status.items()):
            self._api.call("PATCH", f"{_path(pod)}/status", {"status": status}, "application/merge-patch+json")

    def _taken(self, uid: str, pod: Object) -> _Run:
        containers = [
            _Container(container, program, ".".join((*_key(pod), container["name"])))
            for container in pod["spec"]["containers"]
            for program in self._programs
            if program.runs(container)
        ]
        if containers:
            label = {"metadata": {"labels": {HANDS_LABEL: "true"}}}
            self._api.call("PATCH", _path(pod), label, "application/merge-patch+json")
        return _Run(Pod(self._plane, self._api, pod, self._folder / uid), containers)

    def _step(self, run: _Run, container: _Container) -> None:
        if container.process is not None:
            if container.code is not None:
                self._ended(run.pod.entry["spec"].get("restartPolicy", "Always"), container, container.code)
        elif time.monotonic() >= container.due:
            try:
                container.process = self._start(run.pod, container)
                container.state = {"running": {"startedAt": _now()}}
            except FAILS as error:
                container.due = time.monotonic() + 1
                container.state = {"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}}

    def _ended(self, policy: str, container: _Container, code: int) -> None:
        began = container.state["running"]["startedAt"]
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": _now()}
        self._processes.stop(container.name, signal.SIGKILL)
        container.process, container.state = None, {"terminated": ended}
        if policy == "Always" or (policy == "OnFailure" and code):
            container.last, container.state = container.state, {"waiting": {"reason": "CrashLoopBackOff"}}
            container.due = time.monotonic() + _PAUSES[min(container.restarts, len(_PAUSES) - 1)]
            container.restarts += 1
        else:
            container.due = math.inf

    def _start(self, pod: Pod, container: _Container) -> subprocess.Popen[bytes]:
        pod.folder.mkdir(exist_ok=True)
        spec, program = container.spec, container.program
        env, shown = pod.environment(spec)
        own = [expanded(word, shown) for word in (*spec.get("command", ())[1:], *spec.get("args", ()))]
        path = self._paths[program.part]
        inside, files = (str(path), {}) if program.part == PYTHON else (f"/{program.part}", {f"/{program.part}": path})
        mounts = [*pod.mounts(spec), *((file, place) for place, file in {**files, **program.files}.items())]
        root = pod.folder / f"root-{spec['name']}"
        words = entering(self._way, root, pod.entry["metadata"]["name"], spec.get("workingDir", "/"), mounts)
        words += [inside, *(pod.local(word) for word in program.words(own))]
        # PATH is for `sh` and `mount`. The program is named by its path.
        env = {"HOME": "/", **env, **program.env, "PATH": os.environ.get("PATH", os.defpath)}
        return self._processes.start(container.name, words, env, alone=True)

    def _leave(self, uid: str, run: _Run, pod: Object) -> None:
        """SIGTERM, then SIGKILL, and the pod goes when all have ended."""
        now = time.monotonic()
        if run.ends == math.inf:
            run.ends = now + pod["metadata"].get("deletionGracePeriodSeconds", 0)
            for container in run.containers:
                _send(container, signal.SIGTERM)
        if now >= run.ends or all(container.code is not None for container in run.containers):
            self._clear(uid, run)
            delete(self._api, _path(pod), gracePeriodSeconds=0, preconditions={"uid": uid})

    def _clear(self, uid: str, run: _Run) -> None:
        for container in run.containers:
            self._processes.stop(container.name, signal.SIGKILL)
        shutil.rmtree(self._folder / uid, ignore_errors=True)


def _status(pod: Object, containers: Sequence[_Container]) -> Object:
    """The pod's status with what the containers do. Others stay as they are."""
    own = {container.spec["name"]: container for container in containers}
    statuses: list[Object] = []
    for status in pod["status"].get("containerStatuses", ()):
        if container := own.get(status["name"]):
            runs = "running" in container.state
            changed = {"state": container.state, "lastState": container.last, "restartCount": container.restarts}
            statuses.append({**status, **changed, "ready": runs, "started": runs})
        else:
            statuses.append(status)
    codes = [container.state["terminated"]["exitCode"] for container in containers if "terminated" in container.state]
    phase = "Running" if len(codes) < len(containers) else "Failed" if any(codes) else "Succeeded"
    ready = str(all(status["ready"] for status in statuses))
    conditions = [_condition(each, ready) for each in pod["status"].get("conditions", ())]
    return {"phase": phase, "containerStatuses": statuses, "conditions": conditions}


def _condition(condition: Object, ready: str) -> Object:
    if condition["type"] not in ("Ready", "ContainersReady") or condition["status"] == ready:
        return condition
    return {**condition, "status": ready, "lastTransitionTime": _now()}


def _send(container: _Container, sent: signal.Signals) -> None:
    if container.process is not None and container.code is None:
        with suppress(ProcessLookupError):
            os.killpg(container.process.pid, sent)


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _path(pod: Object) -> str:
    namespace, name = _key(pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
