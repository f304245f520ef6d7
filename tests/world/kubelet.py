"""A small API server and pods in memory, for tests of the hands."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from threading import Event
from typing import Any, cast
from urllib.error import HTTPError

import pytest

from fleet.facts.errors import InputError
from fleet.render.sweeps.api import Api, Object
from gpu_ci.world.hands import namespaces
from gpu_ci.world.plane import Followed, Plane
from gpu_ci.world.processes import Processes

IMAGE = "docker.io/library/python:3.13.5-slim@sha256:0123"
_PATIENCE = 30


class Server:
    """The objects by path, the changes that clients sent, and what a `Followed` of all pods would have."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.deleted: list[Object] = []
        self.refused: set[str] = set()
        self.wakes: list[Event] = []

    def put(self, kind: str, name: str, **fields: Any) -> Object:
        """Make an object of the namespace `ci`."""
        entry = {"metadata": {"namespace": "ci", "name": name, "uid": f"uid-{name}"}, **fields}
        self.objects[f"/api/v1/namespaces/ci/{kind}/{name}"] = entry
        return entry

    def secret(self, name: str, **data: str) -> None:
        """Make a Secret."""
        self.put("secrets", name, data={key: base64.b64encode(text.encode()).decode() for key, text in data.items()})

    def pod(self, name: str, *program: str, **spec: Any) -> Object:
        """Make a pod of one container, which kwok has set to run: Python with this program and these arguments."""
        container = {"name": "main", "image": IMAGE, "command": ["python3", "-u", "-c", *program], **spec.pop("container", {})}
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
        state = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [state]}
        own = {"serviceAccountName": "runner", "restartPolicy": "Never", "containers": [container], **spec}
        return self.put("pods", name, spec=own, status=status)

    def values(self) -> list[Object]:
        """All pods."""
        return [entry for path, entry in self.objects.items() if "/pods/" in path]

    def call(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Object:
        """Answer a request as the API server does."""
        if path.endswith("/token"):
            return {"status": {"token": f"token of {path.split('/')[-2]}"}}
        path = path.removesuffix("/status")
        if path in self.refused:
            raise HTTPError(path, 500, "Internal Server Error", Message(), io.BytesIO())
        if path not in self.objects:
            raise HTTPError(path, 404, "Not Found", Message(), io.BytesIO())
        if method == "DELETE":
            self.deleted.append({**(body or {}), "path": path})
            return self.objects.pop(path)
        if method == "PATCH":
            entry = self.objects[path]
            self.objects[path] = _merged(entry, body or {})
        return self.objects[path]

    @property
    def api(self) -> Api:
        """This server, in place of a client."""
        return cast("Api", self)

    @property
    def pods(self) -> Followed:
        """This server, in place of a collection."""
        return cast("Followed", self)


def _merged(old: Any, new: Any) -> Any:
    """A strategic merge: entries of lists are known by name or type, and None removes a key."""
    if isinstance(old, list) and isinstance(new, list):
        before, after = ({entry.get("name") or entry["type"]: entry for entry in entries} for entries in (old, new))
        return [*(before | {key: _merged(before.get(key), entry) for key, entry in after.items()}).values()]
    if isinstance(new, dict):
        old = old if isinstance(old, dict) else {}
        merged = {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
        return {key: value for key, value in merged.items() if value is not None}
    return new


class LoopbackPlane(Plane):
    """A plane whose API is the small server."""

    server: Server

    @property
    def api(self) -> Api:
        """The client."""
        return self.server.api


def plane(server: Server, processes: Processes) -> Plane:
    """A plane for the server, without any program."""
    made = LoopbackPlane(processes, cast("Any", {}), processes.folder, 6443, "", {})
    made.server = server
    return made


def need_namespaces(folder: Path) -> list[str]:
    """The words for namespaces; skips the test on a machine that refuses them."""
    try:
        return namespaces(folder)
    except InputError as error:
        pytest.skip(str(error))


def wait(ready: Callable[[], Any]) -> Any:
    """What `ready` returns, as soon as it is true."""
    end = time.monotonic() + _PATIENCE
    while not (value := ready()):
        if time.monotonic() > end:
            pytest.fail(f"still not true after {_PATIENCE} seconds")
        time.sleep(0.02)
    return value
