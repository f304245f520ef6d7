"""Requests to one namespace of a cluster. Only this module does HTTP.

The official client does kubeconfigs, credential plugins, TLS, proxies and token renewal. Its typed methods are not used: their
models reject manifests that the API accepts (a number as quantity, a field of a newer version), and the method for logs has no
`sinceTime`, which continuing a broken log needs. So requests are plain JSON through its `ApiClient`. Importing this module does
not load the client, which is of an optional extra and takes a third of a second.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fleet.facts.nested import parts
from gpu_ci.submit.errors import ApiError, UnreachableError
from gpu_ci.submit.objects import PODS, Kind, Object, one_line, parsed, text

MOST_BYTES = 64_000_000
"""The largest answer that is read. A list of thousands of pods stays below it."""
_PIECE = 65536
NOT_FOUND = 404
Target = tuple[str, str, str]
"""A request for error messages (`get jobs.batch a in namespace ml`), its HTTP method, and its path."""


@dataclass(slots=True)
class Response(AbstractContextManager["Response"]):
    """A response whose body is not read yet: a JSON object, or a stream of lines. `_request` names the request in errors.

    `_seconds` bounds the time of reading a JSON object: a server that sends a byte a second never meets the limit of one read.
    """

    _response: Any
    _request: str
    _seconds: float

    def __exit__(self, *_: object) -> None:
        # Close the connection: in the pool, the rest of the stream would be read as the next response.
        self._response.close()

    def json(self) -> Object:
        """The body as a JSON object."""
        if not isinstance(content := parsed(self._body()), Mapping):
            raise UnreachableError(f"{self._request}: the server is not a Kubernetes API server; check the kubeconfig's `server`")
        return content

    def refusal(self) -> Object:
        """The body of an error: a `Status` object, or an empty one if the body is not JSON or cannot be read."""
        try:
            content = parsed(self._body())
        except UnreachableError:
            content = None
        return content if isinstance(content, Mapping) else {}

    def _body(self) -> bytes:
        """The whole body. Raises UnreachableError if it breaks off, is larger than `MOST_BYTES` or takes too long."""
        body, end = bytearray(), time.monotonic() + self._seconds
        try:
            for piece in self._pieces():
                body += piece
                if len(body) > MOST_BYTES:
                    raise UnreachableError(f"{self._request}: the response has more than {MOST_BYTES // 1_000_000} MB")
                if time.monotonic() > end:
                    raise UnreachableError(f"{self._request}: the response takes more than {self._seconds:g} seconds")
        except UnreachableError:
            # The rest of the body would be read as the next response.
            self._response.close()
            raise
        except _breaks() as error:
            self._response.close()
            raise UnreachableError(f"{self._request}: the response is incomplete") from error
        return bytes(body)

    def warnings(self) -> tuple[str, ...]:
        """The texts of the Warning headers (RFC 9111 section 5.5): code, agent, quoted text."""
        heads = " ".join(self._response.headers.getlist("Warning"))
        return tuple(one_line(re.sub(r"\\(.)", r"\1", match)) for match in re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', heads))

    def __iter__(self) -> Iterator[bytes]:
        """The lines as `split_lines` gives them, until the server ends the body. Raises UnreachableError if it breaks off."""
        try:
            yield from split_lines(self._pieces())
        except _breaks() as error:
            raise UnreachableError(f"{self._request}: the connection broke") from error

    def _pieces(self) -> Iterator[bytes]:
        if self._response.chunked:
            yield from self._response.read_chunked(_PIECE, decode_content=True)
        else:
            while piece := self._response.read1(_PIECE, decode_content=True):
                yield piece


def split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream with their line ends. The last line has none if the stream ended in the middle of it.

    Raises UnreachableError for a line of more than `MOST_BYTES`.
    """
    tail = b""
    for piece in pieces:
        *lines, tail = (tail + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(tail) > MOST_BYTES:
            raise UnreachableError(f"a line of a stream has more than {MOST_BYTES // 1_000_000} MB")
    if tail:
        yield tail


@dataclass(slots=True)
class Cluster:
    """A namespace of a cluster. `api` is the client's ApiClient; `options` are the command line options that select it.

    `timeouts` are the seconds to wait for a connection, and for a response or the next part of it.
    """

    api: Any
    namespace: str
    options: str = ""
    timeouts: tuple[float, float] = (10, 30)

    def create(self, kind: Kind, thing: Object) -> tuple[Object, tuple[str, ...]]:
        """Create an object: the object as the server stored it, and the warnings of the server.

        The server rejects unknown fields. Without `fieldValidation` it would drop them.
        """
        query = {"fieldManager": "gpu-ci", "fieldValidation": "Strict"}
        response = self._ask(self._target("create", kind, text(thing, "metadata", "name")), query, thing)
        return response.json(), response.warnings()

    def get(self, kind: Kind, name: str) -> Object:
        """One object."""
        return self._ask(self._target("get", kind, name)).json()

    def version(self) -> Object:
        """The version of the API server: `major`, `minor` and more (kubernetes.io, API path /version)."""
        return self._ask(("get the version", "GET", "/version")).json()

    def kind(self, api_version: str, name: str) -> Kind | None:
        """The kind of objects as the server has it, None if it has none (kubernetes.io, API concepts, discovery)."""
        path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
        served = parts(self._found((f"get the kinds of {api_version}", "GET", path)), "resources")
        plurals = (each for each in served if text(each, "kind") == name and "/" not in text(each, "name"))
        return next((Kind(api_version, text(each, "name"), bool(each.get("namespaced"))) for each in plurals), None)

    def find(self, kind: Kind, name: str) -> Object | None:
        """One object, None if there is none."""
        return self._found(self._target("get", kind, name))

    def list(self, kind: Kind, selector: Mapping[str, str]) -> list[Object]:
        """The objects that a `labelSelector` or `fieldSelector` selects."""
        return parts(self._ask(self._target("list", kind), selector).json(), "items")

    def log(self, pod: str, container: str, *, since: str, previous: bool) -> Response:
        """The log of a container from the time `since` on (RFC 3339; empty: from the start), a timestamp before each line."""
        query = {"container": container, "timestamps": "true"} | ({"previous": "true"} if previous else {})
        return self._ask(self._target("get", PODS, pod, "log"), query | ({"sinceTime": since} if since else {}))

    def delete(self, kind: Kind, name: str, uid: str = "", propagation: str = "Background") -> None:
        """Delete an object and the objects that it owns; of a Job its pods. `uid`: only if the object has this uid."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        body |= {"preconditions": {"uid": uid}} if uid else {}
        self._ask(self._target("delete", kind, name), body=body).json()

    def _target(self, verb: str, kind: Kind, name: str = "", subresource: str = "") -> Target:
        """The target of a request by its RBAC verb."""
        resource = "/".join(filter(None, (kind.full_name, subresource)))
        where = f"in namespace {self.namespace}" if kind.namespaced else ""
        path = ["/apis" if "/" in kind.api_version else "/api", kind.api_version]
        path += ["namespaces", quote(self.namespace, safe=""), kind.resource] if kind.namespaced else [kind.resource]
        if verb != "create":
            # The name of a new object is in its body.
            path += filter(None, (quote(name, safe=""), subresource))
        # Every other verb of RBAC is a GET.
        method = {"create": "POST", "delete": "DELETE"}.get(verb, "GET")
        return " ".join(filter(None, (verb, resource, name, where))), method, "/".join(path)

    def _found(self, target: Target) -> Object | None:
        """The answer to a GET, None if there is nothing. Raises as `_ask` does for anything else."""
        try:
            return self._ask(target).json()
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None

    def _ask(self, target: Target, query: Mapping[str, str] | None = None, body: Object | None = None) -> Response:
        """Send a request. Raises ApiError if the server refuses it, UnreachableError if nothing answers."""
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415 - see the head

        request, method, path = target
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            asked = {"query_params": list((query or {}).items()), "header_params": headers, "body": body}
            serialized = self.api.param_serialize(method, path, **asked, auth_settings=["BearerToken"])
            response = self.api.call_api(*serialized, _request_timeout=self.timeouts).response
        except ApiException as error:
            # The client raises this for a failed TLS handshake.
            raise UnreachableError(f"{request}: {_tls_reason(error.reason)}") from error
        except _breaks() as error:
            raise UnreachableError(f"{request}: {_no_answer(error)}") from error
        answer = Response(response, request, self.timeouts[1])
        if not 200 <= response.status <= 299:
            raise _refusal(response, request, answer.refusal())
        return answer


def _refusal(response: Any, request: str, status: Object) -> ApiError:
    details = parts(status, "details", "causes")
    causes = [": ".join(filter(None, (text(cause, "field"), text(cause, "message")))) for cause in details]
    reason = text(status, "reason") or one_line(response.reason or "") or "error"
    message = text(status, "message") or "the server gives no reason"
    # The message contains a single cause.
    error = ApiError(request, response.status, reason, message, causes if len(causes) > 1 else ())
    retry_after = response.headers.get("Retry-After", "")
    error.retry_after = float(retry_after) if retry_after.isdecimal() else 0
    return error


def _breaks() -> tuple[type[Exception], ...]:
    """The errors of a connection that breaks."""
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - see the head

    return HTTPError, OSError


def _no_answer(error: Exception) -> str:
    """Why there is no answer, in the words of the operating system. urllib3's texts contain memory addresses of objects."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError, SSLError  # noqa: PLC0415 - see the head

    if isinstance(error, SSLError):
        return _tls_reason(str(error))
    # NewConnectionError is a ConnectTimeoutError too.
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return "the server does not answer in time"
    words = getattr(error.__cause__ or error.__context__ or error, "strerror", None)
    if isinstance(error, NewConnectionError) or words:
        return f"no connection to the server: {one_line(str(words or 'it cannot be reached'))}"
    return "the connection broke before a response"


def _tls_reason(words: str | None) -> str:
    detail = re.search(r"certificate verify failed: ([^(]*)", words or "")
    why = f"its certificate is not valid: {one_line(detail[1])}" if detail else "the TLS handshake failed"
    return f"no connection to the server: {why}; check the kubeconfig's certificate-authority and server"
