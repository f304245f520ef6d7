"""The hands of the kubelets: containers whose program this machine has run as processes, and their ends reach the pods' status.

A container gets what a kubelet gives it: its environment, its words, the files of its volumes and a root of its own. What a
kubelet does beside that is not here: images, init containers, probes of other kinds than readiness, limits. Volumes are renewed
until their container is ready: programs such as Kueue make the Secret that they mount.
"""

import base64
import http.client
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError

from fleet.facts.errors import InputError
from fleet.facts.record import Record
from fleet.facts.tables import beside, entries
from fleet.facts.yaml_text import kubernetes_documents
from fleet.render.sweeps.api import Api, Object
from gpu_ci.world.plane import FAILS, HANDS_LABEL, LOG, Followed, Plane, delete, merge, now, passes, path_of, write_status
from gpu_ci.world.processes import free_port

_VARIABLE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_ADDRESS = re.compile(r'(--(?:address|metrics-addr|health-probe-bind-address|pprof-addr)=|"metrics_addr":")[\d.]*:(\d+)')
"""Where programs listen: flags of ARC's controller and of cluster-autoscaler, and a key of a listener's configuration."""
_OF_KUEUE = "apiVersion: config.kueue.x-k8s.io/"
"""The beginning of Kueue's configuration. Its default ports are in apis/config/v1beta2/defaults.go."""
_OF_HOST = ("/dev", "/proc", "/usr", "/lib", "/lib64", "/bin", sys.base_prefix)
"""What a root has of this machine: enough for Python and its libraries."""
_ENTER = Path(__file__).with_name("enter.sh").read_text(encoding="utf-8")
"""Mounts pairs of a source and a place, and replaces itself by the program: signals reach it, and its exit code is seen."""


@dataclass
class Pod:
    """A pod with the folder of its volumes, which only the owner reads. `ports` are local ports by those of its containers."""

    plane: Plane
    api: Api
    entry: Object
    folder: Path
    ports: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.entry["metadata"]["namespace"], self.entry["metadata"]["name"]

    @property
    def path(self) -> str:
        """Where the API has it."""
        return path_of(self.entry)

    def environment(self, container: Object) -> tuple[dict[str, str], dict[str, str]]:
        """The environment, and the part of it that words may have: no value of a Secret, since other users see words.

        Raises urllib.error.HTTPError, KeyError or ValueError if something is missing.
        """
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.plane.port)}
        shown = dict(env)
        for source in container.get("envFrom", ()):
            kind = next(key for key in source if key != "prefix")
            values = {source.get("prefix", "") + key: value.decode() for key, value in self._data(kind, source[kind]).items()}
            env |= values
            shown |= {} if kind == "secretRef" else values
        for variable in container.get("env", ()):
            for values in (env, shown):
                value = self._value(variable, values)
                if value is not None and not (values is shown and "secretKeyRef" in variable.get("valueFrom", ())):
                    values[variable["name"]] = value
        return env, shown

    def local(self, text: str) -> str:
        """The text with each address at which a program listens on a free port of the loopback interface."""

        if text.startswith(_OF_KUEUE):
            return json.dumps(self._of_kueue(kubernetes_documents("config", text)[0].value))
        return _ADDRESS.sub(lambda match: f"{match[1]}127.0.0.1:{self._port(int(match[2]))}", text)

    def _port(self, port: int) -> int:
        return self.ports.setdefault(port, free_port())

    def _of_kueue(self, config: Any) -> Object:
        """Kueue's configuration with addresses. It names none, and Kueue would listen on the same ports in each world."""
        host = "127.0.0.1"
        return {
            **config,
            "health": {"healthProbeBindAddress": f"{host}:{self._port(8081)}"},
            "metrics": {**config.get("metrics", {}), "bindAddress": f"{host}:{self._port(8443)}"},
            "webhook": {"host": host, "port": self._port(9443)},
            "visibilityServer": {"bindAddress": host, "bindPort": self._port(8082)},
        }

    def mounts(self, container: Object) -> Iterator[tuple[Path, str]]:
        """Folders and files of the container's volumes, written anew, and where it has them. Raises as `environment` does."""
        volumes = {volume["name"]: volume for volume in self.entry["spec"].get("volumes", ())}
        for mount in sorted(container.get("volumeMounts", ()), key=lambda mount: str(mount["mountPath"])):
            place = self.folder / mount["name"]
            place.mkdir(exist_ok=True)
            for path, content in self._files(volumes[mount["name"]]).items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(self.local(content.decode("latin-1")).encode("latin-1"))
            yield place / mount.get("subPath", ""), mount["mountPath"]

    def _value(self, variable: Object, env: Mapping[str, str]) -> str | None:
        if "valueFrom" not in variable:
            return expanded(variable.get("value", ""), env)
        ((kind, source),) = variable["valueFrom"].items()
        if kind == "fieldRef":
            return _field(self.entry, source["fieldPath"])
        if kind not in ("secretKeyRef", "configMapKeyRef"):
            raise ValueError(f"env {variable['name']}: {kind} is not simulated")
        data = self._data(kind, source)
        return None if source.get("optional") and source["key"] not in data else data[source["key"]].decode()

    def _files(self, volume: Object) -> dict[str, bytes]:
        """The files of a volume, or of a source of a projected one, by path. Other kinds, such as emptyDir, have none."""
        if "projected" in volume:
            return {path: text for source in volume["projected"]["sources"] for path, text in self._files(source).items()}
        if "serviceAccountToken" in volume:
            token = self.plane.account(self.key[0], self.entry["spec"]["serviceAccountName"])
            return {volume["serviceAccountToken"]["path"]: token.encode()}
        if "downwardAPI" in volume:
            items = volume["downwardAPI"]["items"]
            return {item["path"]: _field(self.entry, item["fieldRef"]["fieldPath"]).encode() for item in items}
        for kind in volume.keys() & {"secret", "configMap"}:
            data, items = self._data(kind, volume[kind]), volume[kind].get("items")
            return data if items is None else {item["path"]: data[item["key"]] for item in items}
        return {}

    def _data(self, kind: str, source: Object) -> dict[str, bytes]:
        """The data of a Secret or ConfigMap, none of an optional one that is missing."""
        secret = kind.startswith("secret")
        name = source.get("secretName") or source["name"]
        place = f"/api/v1/namespaces/{self.key[0]}/{'secrets' if secret else 'configmaps'}/{name}"
        try:
            entry = self.api.call("GET", place)
        except HTTPError as error:
            if error.code == http.client.NOT_FOUND and source.get("optional"):
                return {}
            raise
        data = entry.get("data", {})
        plain = {} if secret else {key: text.encode() for key, text in data.items()}
        coded = data if secret else entry.get("binaryData", {})
        return plain | {key: base64.b64decode(text) for key, text in coded.items()}


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with the values of its $(VARIABLES). Unknown ones stay, and $$ is a dollar (Kubernetes API, Container.args)."""
    return _VARIABLE.sub(lambda match: env.get(match[1], match[0]) if match[1] else "$", text)


def _field(entry: Object, path: str) -> str:
    """The field of a pod that a fieldRef names."""
    value: Any = entry
    for key in re.findall(r"\['([^']+)'\]|([^.\[]+)", path):
        value = value.get(key[0] or key[1], "")
    return "\n".join(f'{key}="{text}"' for key, text in sorted(value.items())) if isinstance(value, dict) else str(value)


def namespaces(folder: Path) -> list[str]:
    """The words before a program that has mounts and a host name of its own. Raises InputError if this machine refuses them."""
    ways = (["unshare", "--mount", "--uts"], ["unshare", "--user", "--map-root-user", "--mount", "--uts"])
    for way in ways:
        try:
            subprocess.run([*way, "mount", "--rbind", str(folder), str(folder)], check=True, capture_output=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError):
            continue
        return way
    why = f"this machine refuses `{' '.join(ways[-1])}` of util-linux, which gives each program the files of its pod"
    how = "sysctl user.max_user_namespaces, on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0"
    raise InputError(f"namespaces: {why}; run as root, or allow user namespaces: {how}")


def entering(way: list[str], root: Path, host: str, place: str, mounts: list[tuple[Path, str]]) -> list[str]:
    """The words before a program's own that give it the folder `root` with these mounts, and start it at `place`."""
    # A place below a folder of this machine would be created there.
    places = [place for _, place in mounts]
    free = [path for path in _OF_HOST if Path(path).exists() and not any(place.startswith(f"{path}/") for place in places)]
    pairs = [str(part) for pair in (*((path, path) for path in free), *mounts) for part in pair]
    root.mkdir(exist_ok=True)
    return [*way, "sh", "-euc", _ENTER, "sh", str(root), host, place, *pairs, "--"]


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
    if (asked := container.spec.get("readinessProbe", {}).get("httpGet", {})).get("port") not in run.ports:
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
