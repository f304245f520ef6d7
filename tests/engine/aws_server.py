"""S3 and KMS on loopback for programs that are not Python: moto behind an HTTP server, which ends with its context.

As a program it is the AWS CLI, as far as docs/state.md needs it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import jmespath
from botocore import xform_name
from moto.core.base_backend import BackendDict
from moto.moto_proxy.proxy3 import MotoRequestHandler
from werkzeug.exceptions import HTTPException

_SCOPE = re.compile(r"/\d{8}/([a-z\d-]+)/(s3|kms)/aws4_request")
"""Region and service in the signature of a request (AWS Signature Version 4)."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    """moto's backends are plain dictionaries."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        scope = _SCOPE.search(self.headers.get("Authorization", ""))
        status, headers, answer = (400, {}, b"unsigned") if scope is None else self._ask(scope[1], scope[2], body)
        content = answer.encode() if isinstance(answer, str) else answer
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection"):
                self.send_header(name, str(value))
        length = headers.get("content-length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

    def _ask(self, region: str, service: str, body: bytes) -> tuple[int, dict[str, Any], str | bytes]:
        with self.lock:
            try:
                answer = MotoRequestHandler(0).parse_request(
                    self.command, f"https://{service}.{region}.amazonaws.com", self.path, self.headers, body
                )
            except HTTPException as error:
                return error.code or 500, dict(error.get_headers()), error.get_body()
        return answer if isinstance(answer, tuple) else (200, {}, answer)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextmanager
def serve() -> Iterator[str]:
    """Gives the address of the server: AWS_ENDPOINT_URL of its clients."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            BackendDict.reset()


def call(words: list[str]) -> None:
    """Runs a call of the AWS CLI: options with one value, a file for the body, `--query` of a table, `--output text`."""
    service, command, *rest = words
    options, files = {}, []
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            options[word] = rest.pop(0)
        else:
            files.append(word)
    query = options.pop("--query", "")
    options.pop("--output", None)
    client = boto3.client(service.removesuffix("api"))
    method = command.replace("-", "_")
    members = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape.members
    spelled = {f"--{xform_name(name, '-')}": name for name in members}
    answer = getattr(client, method)(**{spelled[option]: value for option, value in options.items()})
    for file in files:
        Path(file).write_bytes(answer["Body"].read())
    if query:
        sys.stdout.writelines("\t".join(map(str, row)) + "\n" for row in jmespath.search(query, answer))


if __name__ == "__main__":
    call(sys.argv[1:])
