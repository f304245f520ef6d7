"""Collections of the API server that a thread keeps up to date, and passes over them."""

import http.client
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError

from fleet.render.sweeps.api import Api, Collection, Object

LOG = logging.getLogger("gpu_ci.world")
FAILS = (OSError, http.client.HTTPException, ValueError, KeyError, HTTPError)
"""What a request to an API server that starts again, or goes away, raises."""


class Followed(Collection):
    """The objects at a path, whole, followed until `stop` is set. `wakes` are set after each change."""

    def __init__(self, api: Api, path: str, stop: Event, *wakes: Event) -> None:
        super().__init__(api, path, lambda entry: entry)
        self.lasts = 600
        self._stop, self.wakes = stop, [*wakes]
        Thread(target=self._run, daemon=True, name=f"follow {path}").start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.follow(self._changed)
            except FAILS as error:
                LOG.debug("%s: %s", self.path, error)
                self._stop.wait(0.3)

    def _changed(self) -> None:
        for wake in self.wakes:
            wake.set()


def passes(once: Callable[[], Any], wake: Event, stop: Event, every: float = 1.0) -> Thread:
    """Call `once` after each change and every `every` seconds, in a thread, until `stop` is set. A failure ends one pass."""

    def run() -> None:
        while not stop.is_set():
            wake.wait(every)
            wake.clear()
            try:
                once()
            except FAILS as error:
                LOG.debug("%s: %s", once, error)
                stop.wait(0.3)

    thread = Thread(target=run, daemon=True, name=f"passes {once}")
    thread.start()
    return thread


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_status(api: Api, pod: Object, status: Object) -> None:
    """Write a part of a pod's status, as its kubelet would. The API server merges lists by name and type."""
    api.call("PATCH", f"{path_of(pod)}/status", {"status": status}, "application/strategic-merge-patch+json")


def path_of(pod: Object) -> str:
    """The path of a pod."""
    return "/api/v1/namespaces/{namespace}/pods/{name}".format_map(pod["metadata"])


def merge(api: Api, path: str, part: Object) -> None:
    """Change a part of an object. Raises as `Api.call` does."""
    api.call("PATCH", path, part, "application/merge-patch+json")


def found(api: Api, path: str) -> Object | None:
    """The object; None if there is none. Raises as `Api.call` does."""
    try:
        return api.call("GET", path)
    except HTTPError as error:
        if error.code != http.client.NOT_FOUND:
            raise
    return None


def gone(api: Api, path: str) -> bool:
    """Whether there is no such object. Raises as `Api.call` does."""
    return found(api, path) is None


def delete(api: Api, path: str, **options: Any) -> None:
    """Delete an object, which may be gone already."""
    with suppress(HTTPError):
        api.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})


def owner_of(entry: Object) -> tuple[str, str]:
    """Kind and name of the object that controls this one; empty texts without one."""
    owners: Sequence[Object] = entry["metadata"].get("ownerReferences", ())
    return next(((owner["kind"], owner["name"]) for owner in owners if owner.get("controller")), ("", ""))
