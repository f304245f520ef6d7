"""As much of Pulumi Cloud as `pulumi policy publish` talks to, on loopback.

Facts: pulumi/pulumi 3.260, pkg/backend/httpstate/client/client.go (PublishPolicyPack).
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ORGANIZATION = "acme"


@dataclass
class Published:
    """What was published: the pack as it was announced, the files of its archive, and whether publishing was completed."""

    pack: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    complete: bool = False


@contextmanager
def cloud() -> Iterator[tuple[str, Published]]:
    """The address of the simulated service, and what it is given."""
    published = Published()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Writes nothing to stderr."""

        def do_GET(self) -> None:
            """Every user is a member of the organization. All other requests get an empty answer."""
            member = {"githubLogin": ORGANIZATION, "organizations": [{"githubLogin": ORGANIZATION}]}
            self._answer(member if self.path == "/api/user" else {})

        def do_POST(self) -> None:
            """A pack is announced, or its upload has ended."""
            if self.path == f"/api/orgs/{ORGANIZATION}/policypacks":
                published.pack = json.loads(self._body())
                self._answer({"version": 1, "uploadURI": f"{address}/upload"})
            else:
                published.complete = self.path.endswith("/complete")
                self._answer({})

        def do_PUT(self) -> None:
            """The archive."""
            with tarfile.open(fileobj=io.BytesIO(self._body())) as archive:
                for member in archive.getmembers():
                    held = archive.extractfile(member)
                    published.files[member.name] = held.read() if held is not None else b""
            self._answer({})

        def _body(self) -> bytes:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            return gzip.decompress(sent) if self.headers.get("Content-Encoding") == "gzip" else sent

        def _answer(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    try:
        yield address, published
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
