"""One namespace of a cluster, asked through the official client: the only module that speaks HTTP.

The client brings what is hard: kubeconfig, credential plugins, TLS, proxies, renewed tokens. Its typed methods are left alone:
their models refuse what the API takes (a number as quantity, a field of a newer version), and the one for logs has no
`sinceTime`, without which a log that broke cannot go on where it was. So requests go through its `ApiClient` as plain JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import urllib3
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from submit.errors import Answer, ApiError, UnreachableError
from submit.kinds import JOBS, PODS, Kind
from submit.objects import Object, one_line, parts, text

_METHODS = {"create": "POST", "delete": "DELETE"}
"""HTTP method of a verb; every other verb reads."""
_FIELD_MANAGER = "gpu-ci"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
"""A Warning header of the API server's (RFC 9111 section 5.5): code, agent, quoted text."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long to wait for the server, in seconds: for a connection, for an answer, for the next byte of a stream.

    `watch` is how long the server keeps a watch open; it ends it by itself then, so that a dead connection shows.
    """

    connect: float = 10
    answer: float = 30
    watch: int = 290
    log: float = 300


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: an RBAC verb on a kind, perhaps on one object and a subresource of it."""

    verb: str
    kind: Kind
    name: str = ""
    sub: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Object | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """An object as the server made it, and the warnings that came with it."""

    thing: Object
    warnings: tuple[str, ...]


class Stream:
    """A body that comes piece by piece. `close` may be called from another thread; the reader then gets UnreachableError."""

    def __init__(self, response: urllib3.HTTPResponse, action: str) -> None:
        self._response = response
        self._action = action

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Closed, not given back: what is left of a stream would be read as the next answer.
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        """The pieces until the server ends the body; UnreachableError where it breaks off."""
        try:
            if self._response.chunked:
                yield from self._response.read_chunked(decode_content=True)
            else:
                while piece := self._response.read1(65536, decode_content=True):
                    yield piece
        except ReadTimeoutError as error:
            raise UnreachableError(f"{self._action}: nothing came for a while", quiet=True) from error
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # The last two: closed by another thread in the middle of a read.
            raise UnreachableError(f"{self._action}: the connection broke") from error

    def close(self) -> None:
        """End it: a reader that waits is woken."""
        try:
            self._response.shutdown()
        except (HTTPError, OSError, ValueError, RuntimeError, AttributeError):
            self._response.close()


class Cluster:
    """A namespace of a cluster."""

    def __init__(self, api: Any, namespace: str, options: str = "", waits: Waits = Waits()) -> None:
        """`api` is the official client's ApiClient; `options` are those of the command line that lead to the same cluster."""
        self._api = api
        self._waits = waits
        self.namespace = namespace
        self.options = options

    def close(self) -> None:
        """Drop idle connections."""
        self._api.close()

    def create(self, kind: Kind, thing: Object) -> Created:
        """Make an object. The server refuses fields that it does not know, where it would drop them otherwise."""
        query = {"fieldManager": _FIELD_MANAGER, "fieldValidation": "Strict"}
        response = self._send(Ask("create", kind, text(thing, "metadata", "name"), query=query, body=thing))
        made = self._json(response, self._action(Ask("create", kind)))
        heads = response.headers.getlist("Warning")
        return Created(
            made, tuple(one_line(re.sub(r"\\(.)", r"\1", found)) for head in heads for found in _WARNING.findall(head))
        )

    def get(self, kind: Kind, name: str) -> Object:
        """One object."""
        ask = Ask("get", kind, name)
        return self._json(self._send(ask), self._action(ask))

    def list(self, kind: Kind, *, labels: str = "", fields: str = "") -> tuple[list[Object], str]:
        """The objects that selectors choose, and the version of the collection from which a watch goes on."""
        ask = Ask("list", kind, query=_chosen(labels, fields))
        found = self._json(self._send(ask), self._action(ask))
        return parts(found, "items"), text(found, "metadata", "resourceVersion")

    def watch(self, kind: Kind, version: str, *, labels: str = "", fields: str = "") -> Stream:
        """Changes since a version, each a line of JSON: `{"type": …, "object": …}`."""
        ways = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        ways["timeoutSeconds"] = str(self._waits.watch)
        ask = Ask("watch", kind, query=_chosen(labels, fields) | ways)
        return self._stream(ask, self._waits.watch + self._waits.connect)

    def log(self, pod: str, container: str, *, since: str, previous: bool, follow: bool) -> Stream:
        """A container's log with a timestamp before each line, from the time `since` on (RFC 3339; empty: all of it)."""
        ways = {"container": container, "timestamps": "true"}
        flags = {"follow": follow, "previous": previous}
        ways |= {key: "true" for key, value in flags.items() if value} | ({"sinceTime": since} if since else {})
        return self._stream(Ask("get", PODS, pod, "log", ways), self._waits.log)

    def delete_job(self, name: str, uid: str = "", propagation: str = "Background") -> None:
        """Delete a Job and, by `propagation`, its pods: Background soon after it, Foreground before it.

        With `uid` only the Job that has it: another of the same name stays.
        """
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            body["preconditions"] = {"uid": uid}
        ask = Ask("delete", JOBS, name, body=body)
        self._json(self._send(ask), self._action(ask))

    def delete(self, kind: Kind, name: str) -> None:
        """Delete an object of another kind, and soon after it what is its own."""
        ask = Ask("delete", kind, name, body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
        self._json(self._send(ask), self._action(ask))

    # -- requests ----------------------------------------------------------------------------------------------------------

    def _stream(self, ask: Ask, wait: float) -> Stream:
        return Stream(self._send(ask, wait), self._action(ask))

    def _send(self, ask: Ask, wait: float | None = None) -> urllib3.HTTPResponse:
        """The response, its body unread. Raises ApiError for a refusal, UnreachableError for none at all."""
        home = ("namespaces", "{namespace}") if ask.kind.namespaced else ()
        steps = (ask.kind.root, *home, ask.kind.resource, *(["{name}"] if _names(ask) else []), ask.sub)
        heads = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if ask.body is not None else {})
        action = self._action(ask)
        try:
            asked = self._api.param_serialize(
                method=_METHODS.get(ask.verb, "GET"),
                resource_path="/".join(filter(None, steps)),
                path_params={"namespace": self.namespace, "name": ask.name},
                query_params=list(ask.query.items()),
                header_params=heads,
                body=ask.body,
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*asked, _request_timeout=(self._waits.connect, wait or self._waits.answer))
        except ApiException as error:
            # The client makes one of its own of a failed handshake; its first line is the class.
            raise UnreachableError(f"{action}: {_reason(error.reason)}") from error
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{action}: {_no_answer(error)}") from error
        response: urllib3.HTTPResponse = answer.response
        if 200 <= response.status <= 299:
            return response
        raise self._refusal(response, action)

    def _refusal(self, response: urllib3.HTTPResponse, action: str) -> ApiError:
        try:
            status = json.loads(response.data)
        except (ValueError, HTTPError, OSError):
            status = {}
        finally:
            response.close()
        found = parts(status, "details", "causes")
        causes = tuple(": ".join(filter(None, (text(cause, "field"), text(cause, "message")))) for cause in found)
        wait = response.headers.get("Retry-After", "")
        answer = Answer(
            action,
            response.status,
            text(status, "reason") or one_line(response.reason or "") or "error",
            text(status, "message") or "it gives no reason",
            # A single cause is what the message says already.
            causes if len(causes) > 1 else (),
            float(wait) if wait.isdecimal() else None,
        )
        return ApiError(answer, _mend(answer))

    def _json(self, response: urllib3.HTTPResponse, action: str) -> Object:
        try:
            found = json.loads(response.data)
        except ValueError:
            found = None
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{action}: the answer broke off") from error
        if not isinstance(found, Mapping):
            raise UnreachableError(f"{action}: what answers is no Kubernetes API server; look at the kubeconfig's `server`")
        return found

    def _action(self, ask: Ask) -> str:
        what = f"{ask.kind.full}/{ask.sub}" if ask.sub else ask.kind.full
        where = f" in namespace {self.namespace}" if ask.kind.namespaced else ""
        return f"{ask.verb} {what}{f' {ask.name}' if ask.name else ''}{where}"


def _names(ask: Ask) -> bool:
    """Whether the path ends in a name: a new object's is in its body."""
    return bool(ask.name) and ask.verb != "create"


def _chosen(labels: str, fields: str) -> dict[str, str]:
    ways = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in ways.items() if value}


def _no_answer(error: Exception) -> str:
    """Why there is no answer, in the system's words. Not urllib3's: its texts hold addresses of objects in memory."""
    if isinstance(error, SSLError):
        return _reason(str(error))
    # NewConnectionError is a ConnectTimeoutError too.
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return "the server does not answer in time"
    cause = error.__cause__ or error.__context__ or error
    words = getattr(cause, "strerror", None)
    if isinstance(error, NewConnectionError) or words:
        return f"no connection to the server: {one_line(str(words or 'it cannot be reached'))}"
    return "the connection broke before an answer"


def _reason(words: str | None) -> str:
    detail = re.search(r"certificate verify failed: ([^(]*)", words or "")
    why = f"its certificate does not pass: {detail[1].strip()}" if detail else "the TLS handshake failed"
    return f"no connection to the server: {one_line(why)}; look at the kubeconfig's certificate-authority and server"


def _mend(answer: Answer) -> str:
    """What to do about a refusal, where its own text does not say."""
    if answer.code == 401:
        return "the credentials of the kubeconfig are not valid (any more): log in again"
    if answer.code == 403 and "cannot" in answer.message:
        return "ask for the Role in docs/submit.md"
    return ""
