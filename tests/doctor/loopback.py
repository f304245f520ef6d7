"""A web server on loopback that gives prepared answers and remembers every request."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Mapping[str, tuple[Any, ...]]
"""(status, JSON, text or bytes), and headers if it has some, by the beginning of a path with query. The longest one counts."""


@dataclass
class Loopback:
    """`asked` are the requests: method and path with query. `headers` are those of the last one, `sent` those of all."""

    url: str
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    sent: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def serve(answers: Answers) -> Iterator[Loopback]:
    """A server that answers until the block ends; 404 for other paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            found.asked.append((self.command, self.path))
            found.headers = dict(self.headers)
            found.sent.append(found.headers)
            known = [each for each in answers if self.path.startswith(each)]
            missing = (404, {"code": "NotAuthorizedOrNotFound", "message": "not here"})
            status, content, *more = answers[max(known, key=len)] if known else missing
            body = (
                content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
            )
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value.replace("{url}", found.url))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Loopback(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serve_raw(answer: bytes) -> Iterator[str]:
    """The URL of a server that answers every request with these bytes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
