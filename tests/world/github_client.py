"""A client of GitHub's scale-set service that asks as actions/scaleset v0.4.0 does, without its waits."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

_RETRIES = 4
_APP = "e30.e30.c2lnbmF0dXJl"


class StatusError(Exception):
    """An answer with another status than the client expects."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status} {body}")
        self.status, self.kind = status, (body or {}).get("typeName", "")


@dataclass
class Client:
    """One organization's client. `waits` has the seconds of each Retry-After that it saw."""

    url: str
    admin: str = ""
    service: str = ""
    waits: list[int] = field(default_factory=list)

    def ask(self, method: str, path: str, expects: int, body: Any = None, auth: str = "", **headers: str) -> Any:
        """One request, repeated like go-retryablehttp after 429 and 5xx."""
        for attempt in range(_RETRIES + 1):
            connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=5)
            more = {"Authorization": auth, **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request(method, path, None if body is None else json.dumps(body), more)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            if (answer.status == 429 or answer.status >= 500) and attempt < _RETRIES:
                self.waits.append(int(answer.headers.get("Retry-After", 0)))
                continue
            break
        content = json.loads(text) if text else None
        if answer.status != expects:
            raise StatusError(answer.status, content)
        return content

    def log_in(self) -> None:
        """Get an administrator's token."""
        api = "/api/v3"
        token = self.ask("POST", f"{api}/app/installations/2/access_tokens", 201, auth=f"Bearer {_APP}")["token"]
        registration = self.ask("POST", f"{api}/orgs/example1/actions/runners/registration-token", 201, {}, f"Bearer {token}")
        asked = {"url": f"{self.url}/example1", "runner_event": "register"}
        got = self.ask("POST", f"{api}/actions/runner-registration", 200, asked, f"RemoteAuth {registration['token']}")
        self.admin, self.service = got["token"], urlsplit(got["url"]).path

    def act(self, method: str, path: str, expects: int = 200, body: Any = None) -> Any:
        """A request of the administrator."""
        if not self.admin:
            self.log_in()
        return self.ask(method, f"{self.service}_apis/{path}", expects, body, f"Bearer {self.admin}")

    def create(self, name: str, *labels: str, group: int = 1) -> int:
        """Register a set as ARC does: look for it, then create it."""
        found = self.act("GET", f"runtime/runnerscalesets?runnerGroupId={group}&name={name}&api-version=6.0-preview")
        of = {"name": name, "runnerGroupId": group, "labels": [{"name": one, "type": "System"} for one in (name, *labels)]}
        at = found["value"][0] if found["count"] else self.act("POST", "runtime/runnerscalesets", 200, of)
        return int(at["id"])

    def jit(self, of: int, name: str) -> Any:
        """A runner's configuration."""
        return self.act("POST", f"runtime/runnerscalesets/{of}/generatejitconfig", 200, {"name": name, "workFolder": ""})

    def remove(self, runner: int) -> None:
        """Remove a runner."""
        self.act("DELETE", f"distributedtask/pools/0/agents/{runner}", 204)

    def named(self, name: str) -> int:
        """How many runners have this name."""
        count: int = self.act("GET", f"distributedtask/pools/0/agents?agentName={quote(name)}")["count"]
        return count

    def session(self, of: int, owner: str = "host") -> Session:
        """Open a session."""
        return Session(self, of, self.act("POST", f"runtime/runnerscalesets/{of}/sessions", 200, {"ownerName": owner}))


@dataclass
class Session:
    """A listener's session."""

    client: Client
    of: int
    state: Any
    capacity: int = 10
    last: int = 0

    def _path(self, end: str = "") -> str:
        return f"runtime/runnerscalesets/{self.of}/sessions/{self.state['sessionId']}{end}"

    def _queue(self, method: str, path: str, expects: int, body: Any = None, **headers: str) -> Any:
        """A request with the token of the session. After 401 the client refreshes the session, and asks once more."""
        for again in (False, True):
            auth = f"Bearer {self.state['messageQueueAccessToken']}"
            try:
                return self.client.ask(method, path, expects, body, auth, **headers)
            except StatusError as error:
                if again or error.status != 401:
                    raise
                self.state = self.client.act("PATCH", self._path())
        return None

    def poll(self) -> Any:
        """The next message, not acknowledged; None if there is none."""
        url = urlsplit(self.state["messageQueueUrl"])
        more = f"&lastMessageId={self.last}" if self.last else ""
        try:
            message = self._queue("GET", f"{url.path}?{url.query}{more}", 200, X_ScaleSetMaxCapacity=str(self.capacity))
        except StatusError as error:
            if error.status == 202:
                return None
            raise
        self.last = message["messageId"]
        return message

    def hear(self) -> list[tuple[str, str]]:
        """Kinds and jobs of the next message, acknowledged."""
        message = self.poll()
        if message is None:
            return []
        url = urlsplit(self.state["messageQueueUrl"])
        self._queue("DELETE", f"{url.path}/{message['messageId']}?{url.query}", 204)
        parts = json.loads(message["body"])
        return [(part["messageType"], part["jobDisplayName"]) for part in parts]

    def close(self) -> None:
        """End the session."""
        self.client.act("DELETE", self._path(), 204)
