"""A stand-in for GitHub's REST API on a loopback port, and the artifacts that a check may leave there."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "example/gpu-ci"
FORK = "somebody/gpu-ci"
SHA = "0123456789abcdef0123456789abcdef01234567"
OTHER_SHA = "f" * 40
TOKEN = "ghs_averysecrettoken"  # noqa: S105 - made up, and looked for in every output
RUN = 4711
NUMBER = 12
BOT = {"login": "github-actions[bot]", "type": "Bot"}


def archive(files: Mapping[str, bytes | str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of files by name."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return held.getvalue()


def plan_artifact(text: str = "## plan", number: object = NUMBER, sha: object = SHA) -> bytes:
    """What our own check leaves."""
    return archive({"comment.md": text, "pull-request.json": json.dumps({"number": number, "headSha": sha})})


@dataclass
class GitHub:
    """What the stand-in knows, and what it was asked."""

    content: bytes = field(default_factory=plan_artifact)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    pulls: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: list[dict[str, Any]] = field(default_factory=list)
    failing: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """"METHOD path" to the status and body that it answers instead."""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(method, path, Authorization header) in order."""
    url: str = ""

    def __post_init__(self) -> None:
        self.artifacts = [self.artifact()]
        self.pulls = {NUMBER: self.pull()}

    def artifact(self, **changes: Any) -> dict[str, Any]:
        """An artifact as GitHub lists it."""
        return {"id": 1, "name": "plan-comment", "expired": False, "size_in_bytes": len(self.content)} | changes

    @staticmethod
    def pull(sha: str = SHA, head: str = FORK, base: str = REPOSITORY, state: str = "open") -> dict[str, Any]:
        """A pull request as GitHub shows it."""
        return {"state": state, "head": {"sha": sha, "repo": {"full_name": head}}, "base": {"repo": {"full_name": base}}}

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Status and answer of a request; bytes are not JSON."""
        inside = path.removeprefix(f"/repos/{REPOSITORY}")
        if inside.startswith("/issues/"):
            return self._comment(method, inside, query, body)
        if inside == f"/actions/runs/{RUN}/artifacts":
            return 200, {"total_count": len(self.artifacts), "artifacts": self.artifacts}
        if inside.startswith("/actions/artifacts/"):
            return 302, f"{self.url}/storage/{path.split('/')[-2]}?signature=x"
        if path.startswith("/storage/"):
            return 200, self.content
        found = re.fullmatch(r"/pulls/(\d+)", inside)
        pull = self.pulls.get(int(found[1])) if found else None
        return (200, pull) if pull else (404, {"message": "Not Found"})

    def _comment(self, method: str, inside: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        if method == "PATCH":
            (comment,) = [each for each in self.comments if inside == f"/issues/comments/{each['id']}"]
            comment["body"] = body["body"]
            return 200, comment
        assert inside == f"/issues/{NUMBER}/comments"
        if method == "POST":
            self.comments.append({"id": 1000 + len(self.comments), "user": BOT, "body": body["body"]})
            return 201, self.comments[-1]
        size, page = int(query["per_page"][0]), int(query["page"][0])
        return 200, self.comments[size * (page - 1) : size * page]

    @property
    def written(self) -> list[tuple[str, str]]:
        """(method, path) of what was asked to be written."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]


def event(**changes: Any) -> dict[str, Any]:
    """The workflow_run event of a fork's check."""
    fork = {"full_name": FORK}
    run = {"id": RUN, "event": "pull_request", "head_sha": SHA, "head_repository": fork, "conclusion": "success"}
    return {"workflow_run": run | changes}


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """Serves it on a loopback port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            address = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            github.requests.append((self.command, address.path, self.headers.get("Authorization")))
            failure = github.failing.get(f"{self.command} {address.path}")
            status, found = failure or github.answer(self.command, address.path, parse_qs(address.query), body)
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", str(found))
                content = b""
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names that http.server asks for

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    github.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
