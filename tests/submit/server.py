"""An API server on the loopback: what a follower needs of Kubernetes, with streams that a test breaks at will.

Logs come as a kubelet gives them: whole seconds in `sinceTime`, older lines left out one by one.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "ml"
TOKEN = "token-that-nobody-may-see"  # noqa: S105 - that is the point
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WAIT = 30
"""Seconds after which a test that waits for a request fails."""
_PATH = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)/namespaces/(?P<namespace>[^/]+)/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?"
)
_HOME = re.compile(r"(?P<root>/api/v1)/(?P<resource>namespaces)(?:/(?P<name>[^/]+))?(?P<namespace>)(?P<sub>)")
"""The path of namespaces themselves."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as RBAC sees it."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(slots=True)
class Reply:
    """An answer that replaces the server's own. The server first waits until `hang` is set. With `cut` it sends no answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: threading.Event | None = None
    cut: bool = False
    late: bool = False
    """The server does what was asked, and then gives this reply."""
    trickle: float = 0
    """Seconds before each byte of the body."""


@dataclass(slots=True)
class Log:
    """The log of a container: a list of (time, text) for each time that it was started."""

    runs: list[list[tuple[datetime, str]]] = field(default_factory=lambda: [[]])
    cuts: list[int] = field(default_factory=list)
    """Bytes after which each stream that is opened breaks off, one after another; then none does."""
    tail: str = ""
    """What follows the last line end."""


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A refusal as the API words it."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message} | (
        {"details": details} if details else {}
    )


class ApiServer:
    """The server; a context manager."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.logs: dict[tuple[str, str], Log] = {}
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._version = 100
        self._replies: list[tuple[str, str, Reply]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self.drop()
        self._server.server_close()
        self._thread.join(WAIT)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    # -- what a test does --------------------------------------------------------------------------------------------------

    def put(self, resource: str, thing: dict[str, Any]) -> dict[str, Any]:
        """Make or change an object."""
        with self._changed:
            key = (resource, thing["metadata"]["name"])
            self._version += 1
            stored = copy.deepcopy(thing)
            stored["metadata"]["resourceVersion"] = str(self._version)
            self._objects[key] = stored
            self._changed.notify_all()
            return copy.deepcopy(stored)

    def remove(self, resource: str, name: str) -> None:
        """Delete an object."""
        with self._changed:
            self._version += 1
            del self._objects[resource, name]
            self._changed.notify_all()

    def get(self, resource: str, name: str) -> dict[str, Any]:
        """An object as it is now."""
        with self._changed:
            return copy.deepcopy(self._objects[resource, name])

    def write(self, pod: str, *lines: str, container: str = "worker", at: datetime | None = None) -> None:
        """Add lines to a log, a millisecond apart."""
        with self._changed:
            log = self.logs.setdefault((pod, container), Log())
            moment = at or datetime.now(UTC)
            log.runs[-1] += [(moment + timedelta(milliseconds=index), line) for index, line in enumerate(lines)]
            self._changed.notify_all()

    def reply(self, verb: str, resource: str, reply: Reply, times: int = 1) -> None:
        """Answer the next requests of a verb for a resource (`pods/log`) in this way."""
        with self._changed:
            self._replies += [(verb, resource, reply)] * times

    def drop(self) -> None:
        """Break every connection off, in the middle of whatever it says."""
        with self._changed:
            open_now = list(self._sockets)
        for each in open_now:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def asked(self, verb: str, resource: str) -> list[Request]:
        """The requests so far of a verb for a resource."""
        with self._changed:
            return [request for request in self.requests if (request.verb, request.resource) == (verb, resource)]

    def wait(self, verb: str, resource: str, count: int = 1) -> None:
        """Wait until a verb was asked of a resource so often."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self._of(verb, resource)) >= count, WAIT)
        assert done, f"{verb} {resource} was asked {len(self.asked(verb, resource))} times, not {count}: {self.requests}"

    # -- what the server does ----------------------------------------------------------------------------------------------

    def _of(self, verb: str, resource: str) -> list[Request]:
        return [request for request in self.requests if (request.verb, request.resource) == (verb, resource)]

    def note(self, request: Request) -> Reply | None:
        """Remember a request; the reply that a test gives, if one does."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            for index, (verb, resource, reply) in enumerate(self._replies):
                if (verb, resource) == (request.verb, request.resource):
                    del self._replies[index]
                    return reply
        return None

    def connected(self, connection: socket.socket) -> None:
        """A connection is open."""
        with self._changed:
            self._sockets.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._changed:
            self._sockets.discard(connection)

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and body of a request that is not a stream."""
        with self._changed:
            found = self._objects.get((request.resource, request.name))
            if request.verb == "list":
                things = [thing for (resource, _), thing in self._objects.items() if resource == request.resource]
                return 200, {
                    "kind": "List",
                    "metadata": {"resourceVersion": str(self._version)},
                    "items": [copy.deepcopy(thing) for thing in things if chosen(thing, request.query)],
                }
            if request.verb == "create":
                return self._create(request)
            if found is None:
                return 404, status(404, "NotFound", f'{request.resource}.{request.group} "{request.name}" not found')
            if request.verb == "delete":
                wanted = (request.body or {}).get("preconditions", {}).get("uid")
                if wanted and wanted != found["metadata"]["uid"]:
                    return 409, status(409, "Conflict", "the UID in the precondition does not match the UID in record")
        if request.verb == "delete":
            self.remove(request.resource, request.name)
            return 200, {"kind": "Status", "status": "Success"}
        return 200, copy.deepcopy(found)

    def _create(self, request: Request) -> tuple[int, Any]:
        name = request.body["metadata"]["name"]
        if (request.resource, name) in self._objects:
            return 409, status(409, "AlreadyExists", f'{request.resource}.{request.group} "{name}" already exists')
        self._version += 1
        if request.resource != "jobs":
            return 201, self.put(request.resource, request.body)
        thing = made(request.body, f"uid-{self._version}")
        thing["metadata"]["namespace"] = request.namespace
        return 201, self.put(request.resource, thing)

    def log(self, request: Request) -> Iterator[bytes]:
        """The lines of a log, as the kubelet filters and ends them."""
        since = request.query.get("sinceTime", "")
        start = datetime.fromisoformat(since.replace("Z", "+00:00")) if since else datetime.min.replace(tzinfo=UTC)
        assert start.microsecond == 0, "the API server gives the kubelet whole seconds"
        with self._changed:
            log = self.logs[request.name, request.query["container"]]
            lines = list(log.runs[-2 if request.query.get("previous") == "true" else -1])
        for moment, text in lines:
            if moment >= start:
                yield f"{stamp(moment)} {text}\n".encode()
        if log.tail:
            yield f"{stamp(BEGIN)} {log.tail}".encode()


def stamp(moment: datetime) -> str:
    """A time as the kubelet writes it: nine digits of the second."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z"


def made(thing: dict[str, Any], uid: str) -> dict[str, Any]:
    """A Job as the server fills it in."""
    stored = copy.deepcopy(thing)
    stored["metadata"] |= {"uid": uid, "namespace": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:00Z"}
    labels = {"batch.kubernetes.io/controller-uid": uid}
    stored["spec"] = (
        {"backoffLimit": 6, "parallelism": 1, "completions": 1} | stored["spec"] | {"selector": {"matchLabels": labels}}
    )
    stored["status"] = {}
    return stored


def chosen(thing: dict[str, Any], query: dict[str, str]) -> bool:
    """Whether selectors choose an object."""
    labels = thing["metadata"].get("labels", {})
    pairs = [pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair]
    for path, value in (pair.split("=") for pair in query.get("fieldSelector", "").split(",") if pair):
        found: Any = thing
        for step in path.split("."):
            found = found.get(step, {})
        if found != value:
            return False
    return all(labels.get(key) == value for key, value in pairs)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that a test broke off are not errors."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise each body waits 40 ms for the client to acknowledge the headers.
    disable_nagle_algorithm = True
    api: ApiServer

    def setup(self) -> None:
        super().setup()
        self.api.connected(self.connection)

    def finish(self) -> None:
        self.api.disconnected(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        self._handle("get")

    def do_POST(self) -> None:
        self._handle("create")

    def do_DELETE(self) -> None:
        self._handle("delete")

    def _handle(self, verb: str) -> None:
        request = self._read(verb)
        reply = self.api.note(request)
        if reply is not None:
            if reply.late:
                self.api.answer(request)
            if reply.hang is not None:
                reply.hang.wait(WAIT)
            if reply.cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._send(reply.status, reply.body, reply.headers, reply.trickle)
        elif request.resource == "pods/log":
            log = self.api.logs.get((request.name, request.query["container"]))
            if log is None or (request.query.get("previous") == "true" and len(log.runs) < 2):
                self._send(400, status(400, "BadRequest", "previous terminated container not found"))
            else:
                self._stream(self.api.log(request), log.cuts.pop(0) if log.cuts else None)
        else:
            self._send(*self.api.answer(request))

    def _read(self, verb: str) -> Request:
        parsed = urlsplit(self.path)
        found = _HOME.fullmatch(parsed.path) or _PATH.fullmatch(parsed.path)
        assert found is not None, self.path
        query = {key: values[-1] for key, values in parse_qs(parsed.query).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        if verb == "get" and not found["name"]:
            verb = "list"
        group = "" if found["root"] == "/api/v1" else found["root"].split("/")[2]
        resource = "/".join(filter(None, (found["resource"], found["sub"])))
        heads = {key.lower(): value for key, value in self.headers.items()}
        return Request(verb, group, resource, found["namespace"], found["name"] or "", query, body, heads)

    def _send(self, code: int, body: Any, headers: dict[str, str] | None = None, trickle: float = 0) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        for byte in text if trickle else ():
            time.sleep(trickle)
            with contextlib.suppress(OSError):
                self.wfile.write(bytes([byte]))
        if not trickle:
            self.wfile.write(text)

    def _stream(self, lines: Iterator[bytes], cut: int | None = None) -> None:
        """Chunk by chunk; a connection that is cut ends without the last, empty chunk."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        sent = 0
        try:
            for line in lines:
                piece = line if cut is None else line[: max(cut - sent, 0)]
                if piece:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                sent += len(piece)
                if cut is not None and sent >= cut:
                    raise ConnectionAbortedError
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
