"""GitHub as ARC's controller and listeners reach it: the App's login and the scale-set service over HTTP, on loopback.

Requests, statuses and fields are those of actions/scaleset v0.4.0, the client of ARC 0.14.2.
"""

import json
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from gpu_ci.world.plane import LOG
from gpu_ci.world.scale_sets import Json, RefusedError, Runner, ScaleSet, Service

_LASTS = 3600
"""Seconds that a token says it is good for."""
_LOGIN = {"access_tokens": "app", "registration-token": "installation", "runner-registration": "registration"}
"""The requests by which a client gets an administrator's token, and the kind of token that each wants."""


class Request(NamedTuple):
    """A request. `route` is its method and the last part of its path that is not an identifier, `ids` are its identifiers."""

    route: tuple[str, str]
    ids: tuple[str, ...]
    query: dict[str, str]
    body: Any
    token: str
    capacity: int


class GitHub(Service):
    """GitHub on a free port of the loopback interface, or on `port`. `poll`: seconds that a listener waits for a message.

    `counts` has the number of requests by method, route and status. The App's hourly limit counts those of its login.
    """

    def __init__(self, port: int = 0, poll: float = 50, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.poll, self._ends = poll, False
        self.counts = Counter[tuple[str, str, int]]()
        self._tokens: dict[str, str] = {}
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"github": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> str:
        """Serve in threads, and do what is due. Returns the address."""
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True, name="github").start()
        Thread(target=self._keep_time, daemon=True, name="github's clock").start()
        return self.url

    def stop(self) -> None:
        """Stop serving. Listeners that wait get an answer."""
        self._ends = True
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> tuple[int, Json | None, dict[str, str]]:
        """Status, body and more headers of the answer to a request."""
        with self.state:
            fault, headers, content = self.fault(" ".join(request.route), ""), dict[str, str](), None
            if fault is not None:
                status, headers = int(fault.what), {"Retry-After": str(fault.seconds)} if fault.seconds else {}
            elif not self._admits(request):
                status, content = 401, {"message": "Bad credentials"}
            else:
                try:
                    content = self._login(request) or self._serve(request)
                    status = (202 if request.route == ("GET", "messages") else 204) if content is None else 200
                    status = 201 if content and "expires_at" in content else status
                except RefusedError as error:
                    status, content = error.status, error.body
            self.counts[*request.route, status] += 1
            return status, content, headers

    def _admits(self, request: Request) -> bool:
        kind = _LOGIN.get(request.route[1], "queue" if request.route[1] == "messages" else "admin")
        # The App signs a JWT. With which key does not matter here: the run has made the key itself.
        return request.token.count(".") == 2 if kind == "app" else self._tokens.get(request.token) == kind

    def _token(self, kind: str) -> str:
        # The client reads from the administrator's token when it ends.
        claims = {"exp": int(self.clock()) + _LASTS, "jti": token_hex(16)}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims, {}))
        token = ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        self._tokens[token] = kind
        return token

    def _login(self, request: Request) -> Json | None:
        match request.route:
            case "POST", "access_tokens" | "registration-token" as step:
                until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock() + _LASTS))
                return {"token": self._token("installation" if step == "access_tokens" else "registration"), "expires_at": until}
            case "POST", "runner-registration":
                return {"url": f"{self.url}/tenant/", "token": self._token("admin")}
        return None

    def _serve(self, request: Request) -> Json | None:
        body, query = request.body, request.query
        match *request.route, len(request.ids):
            case "GET", "runnergroups", 0:
                return _listed([{"id": self._group(query["groupName"]), "name": query["groupName"]}])
            case "GET", "runnerscalesets", 0:
                sets = [of for of in self.sets.values() if (str(of.group), of.name) == (query["runnerGroupId"], query["name"])]
                return _listed([self._described(of) for of in sets])
            case "POST", "runnerscalesets", 0:
                labels = [one["name"] for one in body["labels"]]
                return self._described(self.create_set(body["name"], body["runnerGroupId"], labels))
            case "GET", "agents", 1:
                return _listed([_reference(one) for one in self.runners.values() if one.name == query["agentName"]])
            case "DELETE", "agents", 2:
                self.remove_runner(int(request.ids[1]))
                return None
            case _, _, 1 | 2 | 3:
                return self._inside(self.scale_set(int(request.ids[0])), request)
        raise RefusedError(404, "VssResourceNotFoundException", " ".join(request.route))

    def _inside(self, of: ScaleSet, request: Request) -> Json | None:
        body = request.body
        match request.route:
            case "GET", "runnerscalesets":
                return self._described(of)
            case "PATCH", "runnerscalesets":
                name = body.get("name", of.name)
                of.labels = [name if label == of.name else label for label in of.labels]
                of.name, of.group = name, body.get("runnerGroupId", of.group)
                return self._described(of)
            case "DELETE", "runnerscalesets":
                self.delete_set(of)
                return None
            case "POST", "generatejitconfig":
                runner = self.generate_jit(of, body["name"])
                return {"runner": _reference(runner), "encodedJITConfig": runner.jit}
        return self._of_session(of, request.query.get("sessionId", request.ids[-1]), request)

    def _of_session(self, of: ScaleSet, session: str, request: Request) -> Json | None:
        match request.route:
            case "POST", "sessions":
                self.open_session(of, request.body["ownerName"])
            case "PATCH", "sessions":
                self.heard(of, session, 404)
            case "DELETE", "sessions":
                self.heard(of, session, 400)
                of.session = ""
                return None
            case "GET", "messages":
                return self._message(of, session, request)
            case "DELETE", "messages":
                of.unacknowledged.pop(int(request.ids[1]), None)
                return None
        url = f"{self.url}/tenant/_apis/runtime/runnerscalesets/{of.id}/messages?sessionId={of.session}"
        own = {"sessionId": of.session, "ownerName": of.owner, "runnerScaleSet": self._described(of)}
        return own | {"messageQueueUrl": url, "messageQueueAccessToken": self._token("queue"), "statistics": self.statistics(of)}

    def _message(self, of: ScaleSet, session: str, request: Request) -> Json | None:
        """Wait for a message, as long as the session lasts. Other requests go on meanwhile."""
        self.heard(of, session, 401)
        self.offer(of, request.capacity)
        end, last = time.monotonic() + self.poll, int(request.query.get("lastMessageId", 0))
        while (message := self.next_message(of, last)) is None:
            if time.monotonic() > end or self._ends:
                return None
            self.state.wait(min(0.3, self.poll))
            if of.session != session:
                self.heard(of, session, 401)
        content = {"messageId": message[0], "messageType": "RunnerScaleSetJobMessages", "body": json.dumps(message[1])}
        return content | {"statistics": self.statistics(of)}

    def _group(self, name: str) -> int:
        if name.lower() not in self.groups:
            self.groups.append(name.lower())
        return self.groups.index(name.lower()) + 1

    def _described(self, of: ScaleSet) -> Json:
        labels = [{"type": "System", "name": label} for label in of.labels]
        group = {"runnerGroupId": of.group, "runnerGroupName": self.groups[of.group - 1]}
        return {"id": of.id, "name": of.name, "labels": labels, "statistics": self.statistics(of)} | group

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
        url, parts = urlsplit(self.path), urlsplit(self.path).path.strip("/").split("/")
        words = [part for part in parts if not any(map(str.isdigit, part))]
        length, capacity = (int(self.headers.get(name) or 0) for name in ("Content-Length", "X-ScaleSetMaxCapacity"))
        request = Request(
            (self.command, words[-1] if words else ""),
            tuple(part for part in parts if part not in words),
            dict(parse_qsl(url.query)),
            json.loads(self.rfile.read(length) or b"null"),
            self.headers.get("Authorization", "").partition(" ")[2],
            capacity,
        )
        status, content, headers = self.github.answer(request)
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
