"""The Kubernetes API as a sweep's pod reaches it, and the loop of every sweep. Standard library only."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet mounts the token of the service account and the certificate authority of the API server."""
_TIMEOUT = 10
"""Seconds until a request fails."""
_PAGE = 200
"""Objects in one answer, so that a large cluster needs little memory at once."""
_FAILURES = 20
"""Failed passes in a row after which the program ends, so that kubelet starts it again and the restart shows in the metrics."""

Object = dict[str, Any]
"""An object of the API, as JSON."""


class Api:
    """The API server at `url`. `token` is a file that kubelet renews; without it requests have no credentials."""

    def __init__(self, url: str, token: Path | None = None, authority: Path | None = None) -> None:
        self._url, self._token = url, token
        self._tls = _trusting(authority) if authority is not None else None

    def call(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        """The answer to one request. `kind` is the type of the body. Raises urllib.error.HTTPError or OSError."""
        headers = {"Accept": "application/json"} | ({"Content-Type": kind} if body is not None else {})
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, method=method, headers=headers)  # noqa: S310 - our own URL
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._tls) as answer:  # noqa: S310
            found: Object = json.load(answer)
        return found

    def list(self, path: str) -> Iterator[Object]:
        """The objects of a collection, page by page. `path` may have a query, such as a field selector. Raises as `call` does."""
        step, start = "", "&" if "?" in path else "?"
        while True:
            page = self.call("GET", f"{path}{start}limit={_PAGE}{step}")
            yield from page["items"]
            if not (more := page["metadata"].get("continue", "")):
                return
            step = f"&continue={more}"

    def delete(self, path: str, uid: str) -> bool:
        """Delete the object with this uid and no later one of its name. Returns whether it was there. Raises as `call` does."""
        try:
            self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return False
            raise
        return True


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


def loop(once: Callable[[], None], seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Call `once` every `seconds`. A pass that fails is logged and the next one tries again; after 20 in a row, exit with 1."""
    failures = 0
    while failures < _FAILURES:
        try:
            once()
            failures = 0
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            failures += 1
            say(error=f"{type(error).__name__}: {error}", failures=failures)
        sleep(seconds)
    sys.exit(1)
