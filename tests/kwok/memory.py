"""An API server in memory: nodes and events, merge patches, conflicts of versions. Its kubelet writes a status at once."""

from __future__ import annotations

import copy
import urllib.error
from collections.abc import Iterator
from email.message import Message
from typing import Any

from fleet.render.sweeps.api import Api, Object
from tests.kwok.kubelet import status_of


class MemoryApi(Api):
    """What the sweep and the simulation need of an API server."""

    def __init__(self) -> None:
        super().__init__("http://memory")
        self.held: dict[str, Object] = {}
        self._version = 0

    def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json", accept: str = ""
    ) -> Object:
        """The answer of the API server. Raises urllib.error.HTTPError with its codes 404 and 409."""
        self._version += 1
        if method == "POST" and body is not None:
            made = copy.deepcopy(body)
            path = f"{path}/{body['metadata']['name']}"
            self.held[path] = made
        elif path not in self.held:
            raise urllib.error.HTTPError(path, 404, "not found", Message(), None)
        elif method == "DELETE":
            return self.held.pop(path)
        elif method == "PATCH" and body is not None:
            version = body.get("metadata", {}).get("resourceVersion")
            if version is not None and version != self.held[path]["metadata"]["resourceVersion"]:
                raise urllib.error.HTTPError(path, 409, "conflict", Message(), None)
            self.held[path] = merged(self.held[path], body)
        found = self.held[path]
        if method != "GET":
            found = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}}
            self.held[path] = found
        if "/nodes/" in path and method != "GET":
            found = self.held[path] = {**found, "status": status_of(found)}
        return found

    def list(self, path: str) -> Iterator[Object]:
        """The objects of a collection. A change makes new objects, so no reader sees these change."""
        wanted = collection(path)
        return iter([held for key, held in self.held.items() if key.rpartition("/")[0].endswith(wanted)])

    def settle(self) -> None:
        """Its kubelet is never late."""


def collection(path: str) -> str:
    """The last step of a collection's path, without its query."""
    return path.partition("?")[0].rpartition("/")[2]


def merged(held: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    base = dict(held) if isinstance(held, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), value)
    return base
