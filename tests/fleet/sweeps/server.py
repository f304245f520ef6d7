"""An API server on loopback: lists page by page, watches, deletes by uid, and allows only what roles allow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/v1\w*(?:/namespaces/(?P<space>[^/]+))?/(?P<kind>\w+)(?:/(?P<name>[^/]+))?")
_IN = re.compile(r"([^,=]+?) in \(([^)]*)\)|([^,=]+)=([^,]*)")


class Server:
    """`objects` are the cluster's, by kind, as in a path. `roles` are the manifests that give the caller its rights.

    A watch sends the changes that there are, then a bookmark, and ends. What it does instead is in `fault`: `gone` refuses it
    with 410, `error` sends 410 in the stream, `cut` breaks the connection in the middle of a line, `silent` sends nothing.
    """

    def __init__(self, objects: Mapping[str, list[dict[str, Any]]], roles: list[dict[str, Any]], page: int = 2) -> None:
        self.objects, self.roles, self.page = objects, roles, page
        self.version = 100
        self.changes: list[tuple[int, str, str, dict[str, Any]]] = []
        self.fault = ""
        self.over = Event()
        self.deleted: list[str] = []
        self.patched: list[tuple[str, Any]] = []
        self.requests: list[str] = []
        self.used: set[tuple[str, str, str]] = set()
        """The rights that were used: namespace or nothing, resource, verb."""
        self.url = ""
        self.whole: list[str] = []
        """Requests for whole objects, as "list secrets" or "watch pods"."""

    def change(self, what: str, kind: str, found: dict[str, Any]) -> None:
        """Add, modify or delete an object, as the first word says."""
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append((self.version, what, kind, found))
        held = self.objects[kind]
        held[:] = [each for each in held if each["metadata"]["name"] != found["metadata"]["name"]]
        held += [] if what == "DELETED" else [found]

    def allows(self, verb: str, group: str, kind: str, space: str, name: str) -> bool:
        for role in self.roles:
            where = role["metadata"].get("namespace", "")
            for rule in role["rules"] if where in ("", space) else ():
                named = name in rule.get("resourceNames", [name])
                if named and verb in rule["verbs"] and group in rule["apiGroups"] and kind in rule["resources"]:
                    self.used.add((where, kind, verb))
                    return True
        return False

    def answer(self, method: str, path: str, body: Any, accept: str = "") -> tuple[int, Any]:
        """Status and answer. The answer to a watch is a list of events. `accept` says whether the caller wants only metadata."""
        self.requests.append(f"{method} {path}")
        url = urlsplit(path)
        found = _PATH.fullmatch(url.path)
        if found is None:
            return 404, {}
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        group, space, kind, name = found["group"] or "", found["space"] or "", found["kind"], found["name"]
        field = (
            query.get("fieldSelector", "").removeprefix("metadata.name=")
            if "metadata.name=" in query.get("fieldSelector", "")
            else ""
        )
        verb = method.lower() if method in ("DELETE", "PATCH") else "get" if name else "watch" if "watch" in query else "list"
        bare = f"as=PartialObjectMetadata{'List' if verb == 'list' else ''};g=meta.k8s.io;v=v1" in accept
        self.whole += [] if bare else [f"{verb} {kind}"]
        if not self.allows(verb, group, kind, space, name or field) or ("PartialObject" in accept and not bare):
            return 403, {}
        if verb == "watch":
            return self._watch(kind, space, query, field)
        held = [each for each in self.objects.get(kind, []) if self._selected(each, space, query, name or field)]
        if verb == "list":
            first = int(query.get("continue", "0"))
            after = first + self.page
            meta = {"resourceVersion": str(self.version)} | ({"continue": str(after)} if after < len(held) else {})
            items = [{"metadata": each["metadata"]} for each in held] if bare else held
            # An empty list of metadata has null.
            return 200, {"items": items[first:after] or ([], None)[bare], "metadata": meta}
        if not held or (verb == "delete" and body["preconditions"]["uid"] != held[0]["metadata"]["uid"]):
            return 409 if held else 404, {}
        if verb == "delete":
            self.deleted.append(f"{space}/{name}")
        else:
            self.patched.append((name, body))
        return 200, {}

    def _watch(self, kind: str, space: str, query: Mapping[str, str], field: str) -> tuple[int, Any]:
        gone = {"code": 410, "message": "too old resource version"}
        if self.fault == "gone":
            return 410, gone
        if self.fault == "error":
            return 200, [{"type": "ERROR", "object": gone}]
        since = int(query["resourceVersion"])
        events = [
            {"type": what, "object": found}
            for version, what, of_kind, found in self.changes
            if version > since and of_kind == kind and self._selected(found, space, query, field)
        ]
        return 200, [*events, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}]

    @staticmethod
    def _selected(found: Mapping[str, Any], space: str, query: Mapping[str, str], name: str) -> bool:
        meta = found["metadata"]
        labels = meta.get("labels", {})
        wanted = [
            (several or one, tuple((values or value).split(",")))
            for several, values, one, value in _IN.findall(query.get("labelSelector", ""))
        ]
        # A selector without a value asks for any value.
        there = [query["labelSelector"]] if "labelSelector" in query and not wanted else []
        return (
            (not space or meta.get("namespace") == space)
            and (not name or meta["name"] == name)
            and all(labels.get(key.strip(",")) in values for key, values in wanted)
            and all(key in labels for key in there)
        )


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the end of the block, at `server.url`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            status, found = server.answer(self.command, self.path, body, self.headers.get("Accept", ""))
            self.send_response(status)
            if isinstance(found, list):
                self._stream(found)
                return
            text = json.dumps(found).encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, events: list[Any]) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if server.fault == "silent":
                server.over.wait()
                return
            for event in events:
                text = json.dumps(event).encode() + b"\n"
                if server.fault == "cut" and event is events[-1]:
                    self.wfile.write(f"{len(text):x}\r\n".encode() + text[:9])
                    self.close_connection = True
                    return
                self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_DELETE = do_PATCH = _answer  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{listening.server_port}"
        try:
            yield server
        finally:
            server.over.set()
            listening.shutdown()
            thread.join()
