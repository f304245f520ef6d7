"""The hands of the kubelets: containers whose program this machine has run as processes, and their ends reach the pods' status.

What a kubelet does beside that is not here: images, init containers, probes of other kinds than readiness, limits.
Volumes are renewed until their container is ready: programs such as Kueue make the Secret that they mount.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event

from fleet.facts.record import Record
from fleet.facts.tables import beside, entries
from fleet.render.sweeps.api import Object
from gpu_ci.world.container import Pod, entering, expanded, namespaces
from gpu_ci.world.plane import FAILS, HANDS_LABEL, LOG, Followed, Plane, delete, merge, now, passes, write_status

PYTHON = "python3"
"""The program that is this Python."""
_PAUSES = (0.25, 0.5, 1, 2, 4, 8)
"""Seconds before each restart, the last for all others. A kubelet starts with 10 and ends with 300, too long to watch."""
_PROBED = 1
"""Seconds from one readiness probe to the next. A kubelet takes those of the probe."""


class Program(Record):
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
        named = re.fullmatch(rf"{re.escape(self.image)}(:[^/@]*)?(@.*)?", container["image"])
        return named is not None and self.command in ("", *container.get("command", ())[:1])

    def words(self, own: Sequence[str]) -> list[str]:
        """The arguments, changed."""
        gone = {*self.without, *(word.partition("=")[0] for word in self.more)}
        return [*(word for word in own if word.partition("=")[0] not in gone), *self.more]


PROGRAMS = (*entries(Program, beside(__file__, "programs.toml"), "part").values(), Program(PYTHON, "docker.io/library/python"))
"""What a world can run. A caller adds the cloud of cluster-autoscaler and shorter delays with `dataclasses.replace`."""


@dataclass
class _Container:
    spec: Object
    program: Program
    name: str
    process: subprocess.Popen[bytes] | None = None
    state: Object = field(default_factory=dict)
    since: str = ""
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    due: float = 0

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs; a signal counts as 128 and its number, as in a shell."""
        code = self.process.poll() if self.process is not None else 0
        return code if code is None or code >= 0 else 128 - code

    def becomes(self, ready: bool = False, **state: Object) -> None:
        if (state, ready) != (self.state, self.ready):
            self.state, self.ready, self.since = state, ready, now()


@dataclass
class Run(Pod):
    """A pod with processes in place of its containers. `ports` are local ports by those at which its containers listen."""

    containers: list[_Container] = field(default_factory=list)
    written: Object = field(default_factory=dict)
    ends: float = math.inf

    def send(self, sent: signal.Signals) -> None:
        """Send each process a signal: SIGKILL ends it, SIGSTOP pauses it until SIGCONT."""
        for container in self.containers:
            if container.process is not None and container.code is None:
                with suppress(ProcessLookupError):
                    os.killpg(container.process.pid, sent)


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
        self._runs: dict[str, Run] = {}
        self._stop, wake = Event(), Event()
        pods.wakes.append(wake)
        self._thread = passes(self._once, wake, self._stop, 0.2)

    def close(self) -> None:
        """End all processes, and remove the files of the pods."""
        self._stop.set()
        self._thread.join()
        for run in self._runs.values():
            run.send(signal.SIGTERM)
        for container in (container for run in self._runs.values() for container in run.containers):
            self._processes.stop(container.name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, namespace: str, pod: str) -> Run:
        """The processes of a pod. Raises KeyError if it has none."""
        for run in [*self._runs.values()]:
            if run.containers and run.key == (namespace, pod):
                return run
        raise KeyError(f"no process stands for pod {namespace}/{pod}")

    def port(self, address: str, port: int) -> int:
        """The local port of a pod's port. Raises KeyError without a process there."""
        for run in [*self._runs.values()]:
            if run.containers and run.entry["status"].get("podIP") == address:
                return run.ports[port]
        raise KeyError(f"no process stands for the pod at {address}")

    def _once(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._pods.values()}
        for uid in self._runs.keys() - pods.keys():
            self._clear(self._runs.pop(uid))
        for uid, pod in pods.items():
            # A failure of one pod must not stop the others.
            try:
                # kwok writes the status of a new pod first, and nothing after that.
                if uid not in self._runs and pod.get("status", {}).get("phase") == "Running":
                    self._runs[uid] = self._taken(uid, pod)
                if (run := self._runs.get(uid)) and run.containers:
                    (self._leave if "deletionTimestamp" in pod["metadata"] else self._go_on)(run, pod)
            except FAILS as error:
                LOG.debug("pod %s: %s", uid, error)

    def _taken(self, uid: str, pod: Object) -> Run:
        run = Run(self._plane, self._api, pod, self._folder / uid)
        run.containers = [
            _Container(container, program, ".".join((*run.key, container["name"])))
            for container in pod["spec"]["containers"]
            for program in self._programs
            if program.runs(container)
        ]
        if run.containers:
            merge(self._api, run.path, {"metadata": {"labels": {HANDS_LABEL: "true"}}})
        return run

    def _go_on(self, run: Run, pod: Object) -> None:
        for container in run.containers:
            if container.process is None and time.monotonic() >= container.due:
                try:
                    container.process = self._start(run, container)
                    container.becomes(_probe(run, container) is None, running={"startedAt": now()})
                except FAILS as error:
                    container.due = time.monotonic() + 1
                    container.becomes(waiting={"reason": "CreateContainerConfigError", "message": str(error)})
            elif container.process is not None and container.code is not None:
                self._ended(run.entry["spec"].get("restartPolicy", "Always"), container, container.code)
            elif time.monotonic() >= container.due and (ready := _probe(run, container)) is not None:
                container.due = time.monotonic() + _PROBED
                container.becomes(ready, **container.state)
                if not ready:
                    [*run.mounts(container.spec)]
        status = _status(run.containers)
        # The node controller says of the pods of a silent kubelet that they are not ready, and a kubelet corrects that.
        shown = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
        if status != run.written or any(shown.get(one["type"]) != one["status"] for one in status["conditions"]):
            write_status(self._api, run.entry, status)
            run.written = status

    def _ended(self, policy: str, container: _Container, code: int) -> None:
        self._processes.stop(container.name, signal.SIGKILL)
        container.process, began = None, container.state["running"]["startedAt"]
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": now()}
        if policy == "Always" or (policy == "OnFailure" and code):
            container.last = {"terminated": ended}
            container.becomes(waiting={"reason": "CrashLoopBackOff"})
            container.due = time.monotonic() + _PAUSES[min(container.restarts, len(_PAUSES) - 1)]
            container.restarts += 1
        else:
            container.becomes(terminated=ended)
            container.due = math.inf

    def _start(self, run: Run, container: _Container) -> subprocess.Popen[bytes]:
        run.folder.mkdir(exist_ok=True)
        spec, program = container.spec, container.program
        env, shown = run.environment(spec)
        own = [expanded(word, shown) for word in (*spec.get("command", ())[1:], *spec.get("args", ()))]
        path = self._paths[program.part]
        inside, files = (str(path), {}) if program.part == PYTHON else (f"/{program.part}", {f"/{program.part}": path})
        mounts = [*run.mounts(spec), *((file, place) for place, file in {**files, **program.files}.items())]
        words = entering(self._way, run.folder / f"root-{spec['name']}", run.key[1], spec.get("workingDir", "/"), mounts)
        words += [inside, *map(run.local, program.words(own))]
        # PATH is for `sh` and `mount`. The program is named by its path.
        env = {"HOME": "/", **env, **program.env, "PATH": os.environ.get("PATH", os.defpath)}
        return self._processes.start(container.name, words, env, alone=True)

    def _leave(self, run: Run, pod: Object) -> None:
        """SIGTERM, then SIGKILL, and the pod goes when all have ended."""
        metadata, at = pod["metadata"], time.monotonic()
        if run.ends == math.inf:
            run.ends = at + metadata.get("deletionGracePeriodSeconds", 0)
            run.send(signal.SIGTERM)
        if at >= run.ends or all(container.code is not None for container in run.containers):
            self._clear(run)
            delete(self._api, run.path, gracePeriodSeconds=0, preconditions={"uid": metadata["uid"]})

    def _clear(self, run: Run) -> None:
        for container in run.containers:
            self._processes.stop(container.name, signal.SIGKILL)
        shutil.rmtree(run.folder, ignore_errors=True)


def _probe(run: Run, container: _Container) -> bool | None:
    """Whether the container's readiness probe by HTTP succeeds; None without one, or where no program is known to listen."""
    asked = container.spec.get("readinessProbe", {}).get("httpGet", {})
    if asked.get("port") not in run.ports:
        return None
    connection = HTTPConnection("127.0.0.1", run.ports[asked["port"]], timeout=1)
    try:
        connection.request("GET", asked.get("path", "/"))
        return connection.getresponse().status < HTTPStatus.BAD_REQUEST
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _status(containers: Sequence[_Container]) -> Object:
    """What the containers change of their pod's status."""
    statuses = [
        {
            "name": container.spec["name"],
            "state": {"waiting": None, "running": None, "terminated": None} | container.state,
            "lastState": container.last,
            "restartCount": container.restarts,
            "ready": container.ready,
            "started": "running" in container.state,
        }
        for container in containers
    ]
    codes = [container.state["terminated"]["exitCode"] for container in containers if "terminated" in container.state]
    phase = "Running" if len(codes) < len(containers) else "Failed" if any(codes) else "Succeeded"
    ready, since = str(all(status["ready"] for status in statuses)), max(container.since for container in containers)
    conditions = [{"type": kind, "status": ready, "lastTransitionTime": since} for kind in ("Ready", "ContainersReady")]
    return {"phase": phase, "containerStatuses": statuses, "conditions": conditions}
