"""An API server on loopback: lists page by page, deletes by uid, and allows only what roles allow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/v1\w*(?:/namespaces/(?P<space>[^/]+))?/(?P<kind>\w+)(?:/(?P<name>[^/]+))?")


class Server:
    """`objects` are the cluster's, by kind, as in a path. `roles` are the manifests that give the caller its rights."""

    def __init__(self, objects: Mapping[str, list[dict[str, Any]]], roles: list[dict[str, Any]], page: int = 2) -> None:
        self.objects, self.roles, self.page = objects, roles, page
        self.deleted: list[str] = []
        self.patched: list[tuple[str, Any]] = []
        self.requests: list[str] = []
        self.url = ""

    def allows(self, verb: str, group: str, kind: str, space: str) -> bool:
        rules = [
            rule
            for role in self.roles
            if role["kind"] == "ClusterRole" or (role["kind"] == "Role" and role["metadata"]["namespace"] == space)
            for rule in role["rules"]
        ]
        return any(verb in rule["verbs"] and group in rule["apiGroups"] and kind in rule["resources"] for rule in rules)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        url = urlsplit(path)
        found = _PATH.fullmatch(url.path)
        if found is None:
            return 404, {}
        group, space, kind, name = found["group"] or "", found["space"] or "", found["kind"], found["name"]
        verb = method.lower() if method in ("DELETE", "PATCH") else "get" if name else "list"
        if not self.allows(verb, group, kind, space):
            return 403, {}
        held = [each for each in self.objects.get(kind, []) if not space or each["metadata"]["namespace"] == space]
        if verb == "list":
            first = int(parse_qs(url.query).get("continue", ["0"])[0])
            after = first + self.page
            return 200, {"items": held[first:after], "metadata": {"continue": str(after)} if after < len(held) else {}}
        one = next((each for each in held if each["metadata"]["name"] == name), None)
        if one is None:
            return 404, {}
        if verb == "delete" and body["preconditions"]["uid"] != one["metadata"]["uid"]:
            return 409, {}
        if verb == "delete":
            self.deleted.append(f"{space}/{name}")
        else:
            self.patched.append((name, body))
        return 200, {}


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the end of the block, at `server.url`."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            status, found = server.answer(self.command, self.path, body)
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

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
            listening.shutdown()
            thread.join()
