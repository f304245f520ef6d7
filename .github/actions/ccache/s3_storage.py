#!/usr/bin/env python3
"""HTTP storage for ccache on S3: ccache itself has no TLS and no AWS signatures.

Starts a server on 127.0.0.1, prints its port and leaves it running. The server passes GET, HEAD and PUT on to a prefix of a
bucket. It signs requests if the environment has AWS credentials, and otherwise refuses PUT. Environment: BUCKET, REGION; tests
set ENDPOINT. It runs on Python 3.8 or newer.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PREFIX = "/ccache"
KEY = re.compile(r"(/[0-9a-z]+){1,3}")
"""A path of ccache's. A dot could lead out of the prefix."""
TIMEOUT = 30
"""Seconds. ccache gives up after 10 by itself."""


def signed(method: str, host: str, path: str, body: bytes, region: str, keys: Mapping[str, str], now: datetime) -> dict[str, str]:
    """The headers of a request with Signature Version 4 (S3 API, authenticating requests with the Authorization header).

    `keys` are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
    """
    digest = hashlib.sha256(body).hexdigest()
    stamp, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    token = keys["AWS_SESSION_TOKEN"]
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp, "x-amz-security-token": token}
    names = ";".join(headers)
    request = "\n".join([method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, digest])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={keys['AWS_ACCESS_KEY_ID']}/{scope}"
    return {**headers, "authorization": f"{credential}, SignedHeaders={names}, Signature={signature}"}


class Storage(BaseHTTPRequestHandler):
    """One connection of a ccache process, and its connection to S3."""

    protocol_version = "HTTP/1.1"
    endpoint: str
    region: str
    keys: Mapping[str, str]

    def setup(self) -> None:
        super().setup()
        at = urlsplit(self.endpoint)
        kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        self.host = at.netloc
        self.upstream = kind(at.netloc, timeout=TIMEOUT)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def do_GET(self) -> None:
        """Pass the request on. S3's status goes back as it is; 404 is a miss."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not KEY.fullmatch(self.path) or (self.command == "PUT" and not self.keys):
            return self.answer(403, b"")
        path = PREFIX + self.path
        now = datetime.now(timezone.utc)  # noqa: UP017 - datetime.UTC needs Python 3.11
        headers = signed(self.command, self.host, path, body, self.region, self.keys, now) if self.keys else {}
        try:
            self.upstream.request(self.command, path, body if self.command == "PUT" else None, headers)
            reply = self.upstream.getresponse()
            self.answer(reply.status, reply.read(), reply.headers.get("content-length"))
        except (OSError, http.client.HTTPException):
            self.upstream.close()
            self.answer(502, b"")

    do_HEAD = do_PUT = do_GET  # noqa: N815 - the names of the base class

    def answer(self, status: int, body: bytes, length: str | None = None) -> None:
        """An answer to ccache. That to HEAD has the length of an object and no body."""
        self.send_response(status)
        self.send_header("content-length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        """Logs nothing."""


def main() -> None:
    bucket, region = os.environ["BUCKET"], os.environ["REGION"]
    Storage.endpoint = os.environ.get("ENDPOINT") or f"https://{bucket}.s3.{region}.amazonaws.com"
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    Storage.region = region
    Storage.keys = {name: os.environ[name] for name in names} if os.environ.get(names[0]) else {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Storage)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    # The socket listens already, so the step may end. The runner ends the server with the job.
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    server.serve_forever()


if __name__ == "__main__":
    main()
