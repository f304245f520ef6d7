"""GitHub as ARC's controller and listeners reach it: the App's login and the scale-set service over HTTP, on loopback.

Requests, statuses and fields are those of actions/scaleset v0.4.0, the client of ARC 0.14.2.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gpu_ci.world.follow import LOG
from gpu_ci.world.scale_sets import Json, RefusedError, Runner, ScaleSet, Service, Session

_LASTS = 3600
"""Seconds that a token says it is good for."""
_CREDENTIALS = {
    "access_tokens": "app",
    "registration-token": "installation",
    "runner-registration": "registration",
    "messages": "queue",
    "acquirejobs": "queue",
}
"""The kind of token that a route wants. Every other one wants an administrator's."""


@dataclass
class Failure:
    """`status` is what requests of a route get instead of an answer: the next `times`, or all until the time `until`.

    `route` is as in `counts`, or empty for all. `retry_after` is a header, in seconds.
    """

    status: int
    route: str = ""
    times: float = 1
    until: float = float("inf")
    retry_after: int = 0


@dataclass(frozen=True)
class _Request:
    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    body: Any
    token: str
    capacity: int

    @property
    def route(self) -> str:
        """The method and the last part of the path that is no identifier."""
        return f"{self.method} {next(part for part in reversed(self.path) if not any(map(str.isdigit, part)))}"


class GitHub(Service):
    """GitHub on a free port of the loopback interface, or on `port`. `poll`: seconds that a listener waits for a message.

    `failures` and `message_faults` may be filled at any time.
    """

    def __init__(self, port: int = 0, poll: float = 50, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.poll, self.failures, self._ends = poll, list[Failure](), False
        self._counts = Counter[tuple[str, int]]()
        self._tokens: dict[str, str] = {}
        handler = type("Handler", (_Handler,), {"github": self})
        self._server = _Server(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> str:
        """Serve in threads, and do what is due. Returns the address."""
        Thread(target=self._server.serve_forever, daemon=True, name="github").start()
        Thread(target=self._keep_time, daemon=True, name="github's clock").start()
        return self.url

    def stop(self) -> None:
        """Stop serving. Listeners that wait get an answer."""
        with self.state:
            self._ends = True
            self.state.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def counts(self) -> Counter[tuple[str, int]]:
        """How many requests came, by route and status. The App's hourly limit counts `POST access_tokens`,
        `POST registration-token` and `POST runner-registration`."""
        with self.state:
            return Counter(self._counts)

    def expire_tokens(self) -> None:
        """Forget all tokens, so that clients get 401 until they log in again."""
        self._tokens.clear()

    def answer(self, request: _Request) -> tuple[int, Json | None, dict[str, str]]:
        """Status, body and more headers of the answer to a request."""
        headers: dict[str, str] = {}
        body: Json | None
        if (failure := self._failure(request.route)) is not None:
            status, body = failure.status, {"message": "a fault of the world"}
            headers = {"Retry-After": str(failure.retry_after)} if failure.retry_after else {}
        elif not self._admits(request):
            status, body = 401, {"message": "Bad credentials"}
        else:
            try:
                status, body = self._login(request) if request.path[0] == "api" else self._serve(request)
            except RefusedError as error:
                status, body = error.status, error.body
        with self.state:
            self._counts[request.route, status] += 1
        return status, body, headers

    def _failure(self, route: str) -> Failure | None:
        with self.state:
            self.failures = [one for one in self.failures if one.times > 0 and self.clock() < one.until]
            failure = next((one for one in self.failures if one.route in ("", route)), None)
            if failure is not None:
                failure.times -= 1
            return failure

    def _admits(self, request: _Request) -> bool:
        kind = _CREDENTIALS.get(request.route.split()[1], "admin")
        # The App signs a JWT itself. Whose key that is does not matter here: the key belongs to the run.
        return request.token.count(".") == 2 if kind == "app" else self._tokens.get(request.token) == kind

    def _token(self, kind: str) -> str:
        token = token_hex(16)
        if kind == "admin":
            claims = {"exp": int(self.clock()) + _LASTS, "jti": token}
            parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims, {}))
            token = ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        self._tokens[token] = kind
        return token

    def _login(self, request: _Request) -> tuple[int, Json]:
        match request.path[-1]:
            case "access_tokens":
                kind = "installation"
            case "registration-token":
                kind = "registration"
            case _:
                return 200, {"url": f"{self.url}/tenant/", "token": self._token("admin")}
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock() + _LASTS))
        return 201, {"token": self._token(kind), "expires_at": expires}

    def _serve(self, request: _Request) -> tuple[int, Json | None]:
        body, query = request.body, request.query
        match [request.method, *request.path[3:]]:
            case ["GET", "runnergroups", *_]:
                return 200, _listed([{"id": self.group(query["groupName"]), "name": query["groupName"]}])
            case ["GET", "runnerscalesets"]:
                sets = [of for of in self.sets.values() if (str(of.group), of.name) == (query["runnerGroupId"], query["name"])]
                return 200, _listed([self._described(of) for of in sets])
            case ["POST", "runnerscalesets"]:
                labels = [label["name"] for label in body["labels"]]
                return 200, self._described(self.create_set(body["name"], body["runnerGroupId"], labels))
            case [method, "runnerscalesets", number]:
                return self._of_set(method, int(number), body)
            case ["GET", "pools", _, "agents"]:
                return 200, _listed([_reference(one) for one in self.runners.values() if one.name == query["agentName"]])
            case ["GET", "pools", _, "agents", number]:
                return 200, _reference(self.runner(int(number)))
            case ["DELETE", "pools", _, "agents", number]:
                self.remove_runner(int(number))
                return 204, None
            case [_, "runnerscalesets", number, *_]:
                return self._inside(self.scale_set(int(number)), request)
        raise RefusedError(404, "VssResourceNotFoundException", "/".join(request.path))

    def _of_set(self, method: str, number: int, body: Json) -> tuple[int, Json | None]:
        of = self.scale_set(number)
        if method == "DELETE":
            self.delete_set(of)
            return 204, None
        if method == "PATCH":
            of.labels = [body.get("name", of.name) if label == of.name else label for label in of.labels]
            of.name, of.group = body.get("name", of.name), body.get("runnerGroupId", of.group)
        return 200, self._described(of)

    def _inside(self, of: ScaleSet, request: _Request) -> tuple[int, Json | None]:
        match [request.method, *request.path[5:]]:
            case ["POST", "generatejitconfig"]:
                runner = self.generate_jit(of, request.body["name"])
                return 200, {"runner": _reference(runner), "encodedJITConfig": runner.jit}
            case ["POST", "acquirejobs"]:
                return 200, _listed(self.acquire_jobs(of, request.body))
            case ["POST", "sessions"]:
                return 200, self._session(of, self.open_session(of, request.body["ownerName"]))
            case ["PATCH", "sessions", session]:
                return 200, self._session(of, self.session(of, session, 404))
            case ["DELETE", "sessions", session]:
                self.close_session(of, session)
                return 204, None
            case ["GET", "messages"]:
                return self._message(of, request)
            case ["DELETE", "messages", number]:
                of.unacknowledged.pop(int(number), None)
                return 204, None
        raise RefusedError(404, "VssResourceNotFoundException", "/".join(request.path))

    def _message(self, of: ScaleSet, request: _Request) -> tuple[int, Json | None]:
        """Wait for a message, as long as the session lasts."""
        end = time.monotonic() + self.poll
        with self.state:
            self.heard(of, request.query["sessionId"], request.capacity)
            while (message := self.next_message(of, int(request.query.get("lastMessageId", 0)))) is None:
                left = end - time.monotonic()
                if left <= 0 or self._ends:
                    return 202, None
                self.state.wait(min(left, 0.3))
                self.session(of, request.query["sessionId"], 401)
            content = {"messageId": message[0], "messageType": "RunnerScaleSetJobMessages", "body": json.dumps(message[1])}
            return 200, content | {"statistics": self.statistics(of)}

    def _described(self, of: ScaleSet) -> Json:
        labels = [{"type": "System", "name": label} for label in of.labels]
        group = {"runnerGroupId": of.group, "runnerGroupName": self.groups[of.group - 1]}
        return {"id": of.id, "name": of.name, "labels": labels, "statistics": self.statistics(of)} | group

    def _session(self, of: ScaleSet, session: Session) -> Json:
        return {
            "sessionId": session.id,
            "ownerName": session.owner,
            "runnerScaleSet": self._described(of),
            "messageQueueUrl": f"{self.url}/tenant/_apis/runtime/runnerscalesets/{of.id}/messages?sessionId={session.id}",
            "messageQueueAccessToken": self._token("queue"),
            "statistics": self.statistics(of),
        }

    def _keep_time(self) -> None:
        while not self._ends:
            self.tick()
            time.sleep(0.2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        LOG.debug("a client of GitHub went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    github: GitHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        parts, (_, _, token) = urlsplit(self.path), self.headers.get("Authorization", "").partition(" ")
        length, capacity = (int(self.headers.get(name) or 0) for name in ("Content-Length", "X-ScaleSetMaxCapacity"))
        body = json.loads(self.rfile.read(length) or b"null")
        path = tuple(part for part in parts.path.split("/") if part)
        query = dict(parse_qsl(parts.query))
        status, content, headers = self.github.answer(_Request(self.command, path, query, body, token, capacity))
        data = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """`counts` has all of it."""


def _listed(values: list[Any]) -> Json:
    return {"count": len(values), "value": values}


def _reference(runner: Runner) -> Json:
    return {"id": runner.id, "name": runner.name, "runnerScaleSetId": runner.scale_set.id}
