"""The Kubernetes API as a sweep's pod reaches it, and collections that it keeps in memory. Standard library only.

A sweep reads each collection once, then watches it. At rest a collection costs one request for each of its watches. A pass over
what is in memory costs none, so rules about ages and hours act without any event.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from email.message import Message
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import quote, urlsplit

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts the token of the service account and the certificate authority of the API server."""
_TIMEOUT = 10
"""Seconds until a request fails."""
_PAGE = 100
"""Objects in one answer, so that a large cluster needs little memory at once: a node has 28 KB, and 100 of them 2.8 MB."""

_JSON = "application/json"
METADATA = f"{_JSON};as=PartialObjectMetadata{{}};g=meta.k8s.io;v=v1"
"""The type of answers that have only the metadata of objects. A list needs another kind than a watch (kubernetes.io, API
concepts, metadata-only fetches)."""

Object = dict[str, Any]
"""An object of the API, as JSON."""


class Api:
    """The API server at `url`. `token` is a file that kubelet renews; without it requests have no credentials."""

    def __init__(self, url: str, token: Path | None = None, authority: Path | None = None) -> None:
        self._url, self._token = urlsplit(url), token
        self._tls = _trusting(authority) if authority is not None else None

    def call(self, method: str, path: str, body: Object | None = None, kind: str = _JSON, accept: str = _JSON) -> Object:
        """The answer to one request. `kind` is the type of the body, `accept` that of the answer.

        Raises urllib.error.HTTPError or OSError.
        """
        with self._open(method, path, body, kind, accept=accept) as answer:
            content: Object = json.load(answer)
        return content

    def pages(self, path: str, accept: str = _JSON) -> Iterator[Object]:
        """The answers that together have all objects of a collection. `accept` is as for a collection. Raises as `call` does."""
        more = ""
        while True:
            query = with_query(path, limit=_PAGE, **({"continue": more} if more else {}))
            page = self.call("GET", query, accept=accept.format("List"))
            # An empty list of metadata has no items (tried with kube-apiserver 1.36).
            yield page | {"items": page["items"] or []}
            if not (more := page["metadata"].get("continue", "")):
                return

    def list(self, path: str) -> Iterator[Object]:
        """The objects of a collection. `path` may have a query, such as a field selector. Raises as `call` does."""
        for page in self.pages(path):
            yield from page["items"]

    def watch(self, path: str, version: str, lasts: float, quiet: float, accept: str = _JSON) -> Iterator[tuple[str, Object]]:
        """The type and the object of each change of a collection since `version`, as they happen, for `lasts` seconds.

        Bookmarks are changes too. Raises as `call` does: urllib.error.HTTPError also for an error in the stream, OSError also if
        nothing arrives for `quiet` seconds.
        """
        more = {"watch": 1, "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": int(lasts)}
        with self._open("GET", with_query(path, **more), quiet=quiet, accept=accept.format("")) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise urllib.error.HTTPError(path, status.get("code", 500), status.get("message", ""), Message(), None)
                yield event["type"], event["object"]

    def patch(self, path: str, body: Object, subject: Mapping[str, str], done: Mapping[str, Any]) -> None:
        """Send a merge patch. The log gets `subject` with `done`, or with the error: a refused change stops no other."""
        try:
            self.call("PATCH", path, body, "application/merge-patch+json")
        except urllib.error.HTTPError as error:
            say(**subject, error=f"{error.code} {error.reason}")
        else:
            say(**subject, **done)

    def delete(self, path: str, uid: str) -> bool:
        """Delete the object with this uid and no later one of its name. Returns whether it was there. Raises as `call` does."""
        try:
            self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return False
            raise
        return True

    def _open(
        self, method: str, path: str, body: Object | None = None, kind: str = _JSON, quiet: float = _TIMEOUT, *, accept: str
    ) -> http.client.HTTPResponse:
        """The answer to one request, to read and close. Reading fails if nothing arrives for `quiet` seconds."""
        headers = {"Accept": accept} | ({"Content-Type": kind} if body is not None else {})
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
        connection = self._connection()
        try:
            connection.request(method, self._url.path + path, None if body is None else json.dumps(body).encode(), headers)
            socket = connection.sock
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        socket.settimeout(quiet)
        # No other request follows. The answer keeps the connection until it is closed.
        socket.close()
        if answer.status >= http.client.BAD_REQUEST:
            answer.close()
            raise urllib.error.HTTPError(path, answer.status, answer.reason, answer.headers, None)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, self._url.port, timeout=_TIMEOUT)
        return http.client.HTTPSConnection(host, self._url.port, timeout=_TIMEOUT, context=self._tls)


def with_query(path: str, **more: object) -> str:
    """A path with more parts of its query. Their values are escaped."""
    start = "&" if "?" in path else "?"
    return path + "".join(f"{'&' if place else start}{key}={quote(str(more[key]), safe='/')}" for place, key in enumerate(more))


def picked(fields: Mapping[str, Any], *keys: str, **parts: Iterable[str]) -> Object:
    """These keys of an object, as far as it has them, and each of `parts` with these keys of its own.

    A sweep keeps little of each object, so that it needs little memory.
    """
    inner = {name: picked(fields.get(name, {}), *keys_of_part) for name, keys_of_part in parts.items()}
    return {key: fields[key] for key in keys if key in fields} | inner


def containers(pod: Object, name: str) -> list[Object]:
    """The status of a pod's container, if the pod has one yet."""
    return [status for status in pod.get("status", {}).get("containerStatuses", ()) if status["name"] == name]


def running_since(pod: Object, name: str) -> float | None:
    """Since when a pod's container runs, in seconds since 1970; None if it does not run."""
    states: Iterable[Object] = (status["state"] for status in containers(pod, name))
    return next((seconds(state["running"]["startedAt"]) for state in states if "running" in state), None)


def _trusting(authority: Path) -> ssl.SSLContext:
    """Trust this certificate authority alone. It checks the chain, the dates and the address.

    The authority of an EKS cluster has no key identifier, which Python refuses by default from 3.13 on
    (kubernetes-client/python#2394, Twingate/kubernetes-operator#1128).
    """
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def in_cluster(environment: Mapping[str, str] = os.environ) -> Api:
    """The API server of the cluster in which the program runs."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    where = f"[{host}]" if ":" in host else host
    return Api(f"https://{where}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def seconds(text: str) -> float:
    """A time of the API, such as 2026-11-23T03:00:00Z, as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def say(**fields: Any) -> None:
    """Write one line of JSON to the log."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


# -- collections in memory ----------------------------------------------------------------------------------------------

LASTS = 3600
"""Seconds of a watch, at least. The API server ends it then, and the next one goes on from there."""
_SHARE = 240
"""Seconds of a watch for each collection of a sweep: with more of them each watch is longer. So a sweep of any number of runner
sets asks at most every four minutes, and all sweeps of a cluster together at most once a minute."""
_QUIET = 180
"""Seconds without any line after which a connection counts as broken. The API server sends a bookmark each minute
(kubernetes apiserver, storage/cacher/cacher.go, defaultBookmarkFrequency)."""
UNMARKED = 300
"""Seconds of a watch without bookmarks, such as that of events, which have no watch cache (kubernetes#96052, #120348). It is
short, because such a connection may break without a sign. Its version is too old afterwards."""
_LONGEST = 60
"""Seconds of the longest pause after a failure."""
_FAILURES = 20
"""Failures of a connection in a row, about 15 minutes, after which the program ends. Kubelet starts it again, and the restart
shows in the metrics. A refused request, for example before a namespace exists, ends nothing."""
_SHORT = 30
"""Seconds, more than a request may take. A watch that ends sooner counts as a failure, so that no server can make a busy loop."""
_REST = 1
"""Seconds between two passes at least. Changes come in bursts."""
_READING = Lock()
"""One collection is read at a time, so that only the pages of one are in memory."""


class Collection:
    """The objects at `path`, by namespace and name, as the API server last reported them.

    `keep` returns the part of an object that stays in memory; its version stays in any case. `path` may have a query. With
    `marked` False the server sends no bookmarks. `accept` is the type of the answers: JSON, or METADATA.
    """

    def __init__(
        self, api: Api, path: str, keep: Callable[[Object], Object], *, marked: bool = True, accept: str = _JSON
    ) -> None:
        self.path, self.ready = path, False
        self.objects: dict[tuple[str, str], Object] = {}
        self.lasts: float = LASTS if marked else UNMARKED
        self.quiet: float = _QUIET if marked else UNMARKED + 30
        self._api, self._keep, self._version, self._marked, self._accept = api, keep, "", marked, accept

    def share(self, collections: int) -> None:
        """Make the watch long enough for a sweep with so many collections."""
        if self._marked:
            self.lasts = max(LASTS, _SHARE * collections)

    def values(self) -> list[Object]:
        """The objects now. A pass may use them while the watch goes on."""
        return list(self.objects.values())

    def follow(self, changed: Callable[[], object]) -> None:
        """Read the objects if their version is unknown, then follow their changes until the watch ends.

        `changed` is called after each change of what stays in memory. Raises as `Api.call` does. After a connection that broke,
        the next call goes on from the last change. After an error of the server, such as 410 for a version that is too old, it
        reads all objects again, and those that were deleted meanwhile are gone.
        """
        if not self._version:
            with _READING:
                self._read()
            changed()
        try:
            for kind, entry in self._api.watch(self.path, self._version, self.lasts, self.quiet, self._accept):
                if self._apply(kind, entry):
                    changed()
        except urllib.error.HTTPError as error:
            self._version = ""
            if error.code != http.client.GONE:
                raise
        if not self._marked:
            self._version = ""

    def _read(self) -> None:
        objects: dict[tuple[str, str], Object] = {}
        version = ""
        for page in self._api.pages(self.path, self._accept):
            version = page["metadata"]["resourceVersion"]
            for entry in page["items"]:
                objects[_key(entry)] = self._kept(entry)
        self.objects, self._version, self.ready = objects, version, True

    def _apply(self, kind: str, entry: Object) -> bool:
        """Apply one change. Returns whether it changes more than a version."""
        version = entry["metadata"]["resourceVersion"]
        if kind == "DELETED":
            changed = self.objects.pop(_key(entry), None) is not None
        elif kind == "BOOKMARK":
            changed = False
        else:
            old, new = self.objects.get(_key(entry)), self._kept(entry)
            # A kubelet reports its node every few minutes, and most of it is of no interest.
            changed = old is None or {**old, "metadata": {**old["metadata"], "resourceVersion": version}} != new
            self.objects[_key(entry)] = new
        self._version = version
        return changed

    def _kept(self, entry: Object) -> Object:
        part = self._keep(entry)
        part["metadata"]["resourceVersion"] = entry["metadata"].get("resourceVersion", "")
        return part


def _key(entry: Object) -> tuple[str, str]:
    return entry["metadata"].get("namespace", ""), entry["metadata"]["name"]


def keep_up(
    collection: Collection,
    changed: Callable[[], object],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Follow a collection, with pauses of 1 to 60 seconds after failures. Returns after 20 broken connections in a row."""
    failures = 0
    while failures < _FAILURES:
        began = clock()
        try:
            collection.follow(changed)
        except urllib.error.HTTPError as error:
            say(collection=collection.path, error=f"{error.code} {error.reason}")
            failures = min(failures + 1, _FAILURES - 1)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            # A connection that was fine for long breaks the row.
            failures = 1 if clock() - began > _SHORT else failures + 1
            say(collection=collection.path, error=f"{type(error).__name__}: {error}", failures=failures)
        else:
            failures = 0 if clock() - began > _SHORT else min(failures + 1, _FAILURES - 1)
        if failures:
            sleep(min(_LONGEST, 2 ** (failures - 1)))


def run(collections: Sequence[Collection], once: Callable[[], None], every: float) -> None:
    """Keep the collections up to date, and call `once` after changes and every `every` seconds. Ends the program with 1 if a
    collection cannot be followed any more.
    """
    awake = Event()
    threads = []
    for collection in collections:
        collection.share(len(collections))
        threads.append(Thread(target=keep_up, args=(collection, awake.set), daemon=True))
        threads[-1].start()
    while all(thread.is_alive() for thread in threads):
        awake.wait(every)
        awake.clear()
        try:
            once()
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            say(error=f"{type(error).__name__}: {error}")
        time.sleep(_REST)
    sys.exit(1)


Start = Callable[[Api, Mapping[str, Any]], tuple[Sequence[Collection], Callable[[], None], float]]
"""A sweep with its settings: its collections, its pass over them, and seconds between two passes."""


def main(start: Start) -> None:
    """Run a sweep in its cluster until it is stopped. The argument of the program is the JSON file with its settings."""
    run(*start(in_cluster(), json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
