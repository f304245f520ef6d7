"""The Kubernetes API as a sweep's pod reaches it. Standard library only."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import urllib.error
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts the token of the service account and the certificate authority of the API server."""
_TIMEOUT = 10
"""Seconds until a request fails."""
_PAGE = 100
"""Objects in one answer, so that a large cluster needs little memory at once: a node has 28 KB, and 100 of them 2.8 MB."""

Object = dict[str, Any]
"""An object of the API, as JSON."""


class Api:
    """The API server at `url`. `token` is a file that kubelet renews; without it requests have no credentials."""

    def __init__(self, url: str, token: Path | None = None, authority: Path | None = None) -> None:
        self._url, self._token = urlsplit(url), token
        self._tls = _trusting(authority) if authority is not None else None

    def call(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        """The answer to one request. `kind` is the type of the body. Raises urllib.error.HTTPError or OSError."""
        with self._open(method, path, body, kind) as answer:
            content: Object = json.load(answer)
        return content

    def pages(self, path: str) -> Iterator[Object]:
        """The answers that together have all objects of a collection. Raises as `call` does."""
        more = ""
        while True:
            page = self.call("GET", with_query(path, limit=_PAGE, **({"continue": more} if more else {})))
            yield page
            if not (more := page["metadata"].get("continue", "")):
                return

    def list(self, path: str) -> Iterator[Object]:
        """The objects of a collection. `path` may have a query, such as a field selector. Raises as `call` does."""
        for page in self.pages(path):
            yield from page["items"]

    def watch(self, path: str, version: str, lasts: float, quiet: float) -> Iterator[tuple[str, Object]]:
        """The type and the object of each change of a collection since `version`, as they happen, for `lasts` seconds.

        Bookmarks are changes too. Raises as `call` does: urllib.error.HTTPError also for an error in the stream, OSError also if
        nothing arrives for `quiet` seconds.
        """
        more = {"watch": 1, "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": int(lasts)}
        with self._open("GET", with_query(path, **more), quiet=quiet) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise urllib.error.HTTPError(path, status.get("code", 500), status.get("message", ""), Message(), None)
                yield event["type"], event["object"]

    def patch(self, path: str, body: Object, subject: Mapping[str, str], done: Mapping[str, Any]) -> None:
        """Send a merge patch. The log gets `subject` with `done`, or with the error: a refused change stops no other."""
        try:
            self.call("PATCH", path, body, "application/merge-patch+json")
        except urllib.error.HTTPError as error:
            say(**subject, error=f"{error.code} {error.reason}")
        else:
            say(**subject, **done)

    def delete(self, path: str, uid: str) -> bool:
        """Delete the object with this uid and no later one of its name. Returns whether it was there. Raises as `call` does."""
        try:
            self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return False
            raise
        return True

    def _open(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json", quiet: float = _TIMEOUT
    ) -> http.client.HTTPResponse:
        """The answer to one request, to read and close. Reading fails if nothing arrives for `quiet` seconds."""
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if body is not None else {})
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
        connection = self._connection()
        try:
            connection.request(method, self._url.path + path, None if body is None else json.dumps(body).encode(), headers)
            socket = connection.sock
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        socket.settimeout(quiet)
        # No other request follows. The answer keeps the connection until it is closed.
        socket.close()
        if answer.status >= http.client.BAD_REQUEST:
            answer.close()
            raise urllib.error.HTTPError(path, answer.status, answer.reason, answer.headers, None)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, self._url.port, timeout=_TIMEOUT)
        return http.client.HTTPSConnection(host, self._url.port, timeout=_TIMEOUT, context=self._tls)


def with_query(path: str, **more: object) -> str:
    """A path with more parts of its query. Their values are escaped."""
    start = "&" if "?" in path else "?"
    return path + "".join(f"{'&' if place else start}{key}={quote(str(more[key]), safe='/')}" for place, key in enumerate(more))


def picked(fields: Mapping[str, Any], *keys: str, **parts: Iterable[str]) -> Object:
    """These keys of an object, as far as it has them, and each of `parts` with these keys of its own.

    A sweep keeps little of each object, so that it needs little memory.
    """
    inner = {name: picked(fields.get(name, {}), *keys_of_part) for name, keys_of_part in parts.items()}
    return {key: fields[key] for key in keys if key in fields} | inner


def containers(pod: Object, name: str) -> list[Object]:
    """The status of a pod's container, if the pod has one yet."""
    return [status for status in pod.get("status", {}).get("containerStatuses", ()) if status["name"] == name]


def running_since(pod: Object, name: str) -> float | None:
    """Since when a pod's container runs, in seconds since 1970; None if it does not run."""
    states: Iterable[Object] = (status["state"] for status in containers(pod, name))
    return next((seconds(state["running"]["startedAt"]) for state in states if "running" in state), None)


def _trusting(authority: Path) -> ssl.SSLContext:
    """Trust this certificate authority alone. It checks the chain, the dates and the address.

    The authority of an EKS cluster has no key identifier, which Python refuses by default from 3.13 on
    (kubernetes-client/python#2394, Twingate/kubernetes-operator#1128).
    """
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def in_cluster(environment: Mapping[str, str] = os.environ) -> Api:
    """The API server of the cluster in which the program runs."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    where = f"[{host}]" if ":" in host else host
    return Api(f"https://{where}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def seconds(text: str) -> float:
    """A time of the API, such as 2026-11-23T03:00:00Z, as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def say(**fields: Any) -> None:
    """Write one line of JSON to the log."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
