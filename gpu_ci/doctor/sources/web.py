"""GET requests to public sources, bounded in time and size. Redirects lead to https only. GitHub's token stays with its API."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from fleet.facts.tables import toml
from fleet.providers.finding import SourceError

RENEWAL: dict[str, Any] = toml("renewal.toml")
"""The addresses of the sources, and who renews which row."""
ADDRESSES: dict[str, str] = RENEWAL["addresses"]
PROJECTS: dict[str, str] = RENEWAL["projects"]

INSTEAD: dict[str, str] = {}
"""Beginnings of addresses that others replace. Tests have them."""
_CHUNK = 1 << 16
T = TypeVar("T")


class Answer(NamedTuple):
    """An answer with status 200."""

    body: bytes
    headers: HTTPMessage


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        _require_safe(newurl, f"{urlsplit(req.full_url).hostname} redirects to ")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if request and token and _origin(newurl) == _origin(req.full_url):
            # GitHub redirects from the old name of a repository to its number.
            request.add_unredirected_header("Authorization", token)
        return request


_OPENER = urllib.request.build_opener(_Redirects)


@dataclass(frozen=True)
class Web:
    """The way to the sources. `token` goes to api.github.com alone; `instead` replaces the beginning of an address by another."""

    token: str = field(default="", repr=False)
    instead: Mapping[str, str] = field(default_factory=lambda: INSTEAD)

    def get(self, url: str, most: int = 20_000_000, headers: Mapping[str, str] | None = None, bearer: str = "") -> Answer:
        """The answer to a GET, of at most `most` bytes, within two minutes. `bearer` is a token for this host alone."""
        with self._opened(url, headers or {}, bearer) as answer:
            return Answer(b"".join(_chunks(answer, most, 120)), answer.headers)

    def chunks(self, url: str, most: int, seconds: int, bearer: str = "") -> Iterator[bytes]:
        """The parts of a large answer, without keeping them."""
        with self._opened(url, {}, bearer) as answer:
            yield from _chunks(answer, most, seconds)

    def lines(self, url: str, most: int, seconds: int) -> Iterator[str]:
        """The lines of a long text, without keeping it."""
        rest = b""
        for chunk in self.chunks(url, most, seconds):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > _CHUNK:
                raise SourceError("a line is too long")
            yield from (line.decode(errors="replace") for line in whole)
        yield rest.decode(errors="replace")

    def read(self, url: str, form: TypeAdapter[T], most: int = 20_000_000, headers: Mapping[str, str] | None = None) -> T:
        """An answer in JSON, if it has this form."""
        return checked(self.get(url, most, headers).body, form)

    @contextmanager
    def _opened(self, url: str, headers: Mapping[str, str], bearer: str) -> Iterator[Any]:
        place = next((new + url.removeprefix(old) for old, new in self.instead.items() if url.startswith(old)), url)
        _require_safe(place)
        request = urllib.request.Request(place, headers={"User-Agent": "gpu-ci", **headers})  # noqa: S310 - checked above
        if token := bearer or (self.token if url.startswith("https://api.github.com/") else ""):
            # A redirect to another host must not carry it there.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        host = urlsplit(url).hostname
        try:
            with _OPENER.open(request, timeout=20) as answer:
                yield answer
        except HTTPError as error:
            text = f"{host} answers {error.code} to {urlsplit(url).path}"
            raise SourceError(text, error.code, error.headers.get("WWW-Authenticate") or "", _limit(error)) from None
        except URLError as error:
            raise SourceError(f"{host} cannot be reached ({error.reason})") from None
        except (OSError, HTTPException, ValueError) as error:
            raise SourceError(f"{host} does not answer as HTTP has it ({type(error).__name__})") from None


def checked(body: bytes, form: TypeAdapter[T]) -> T:
    """A JSON text as a value of this form."""
    try:
        return form.validate_python(json.loads(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise SourceError(f"an answer is refused: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"an answer is not JSON ({type(error).__name__})") from None


def _limit(error: HTTPError) -> str:
    """How long a source refuses this client (docs.github.com, "Rate limits for the REST API": statuses 403 and 429)."""
    if error.code not in (403, 429):
        return ""
    wait, reset = (error.headers.get(name) or "" for name in ("Retry-After", "X-RateLimit-Reset"))
    if wait.isdecimal():
        return f"the rate limit is used up for {wait[:9]} s"
    if error.headers.get("X-RateLimit-Remaining") == "0" and re.fullmatch(r"[0-9]{1,10}", reset):
        return f"the rate limit is used up until {datetime.fromtimestamp(int(reset), UTC):%Y-%m-%d %H:%M} UTC"
    # The secondary limit may have its message alone. GitHub asks for at least a minute then.
    return "the secondary rate limit is used up for at least 60 s" if b"secondary rate limit" in _message(error) else ""


def _message(error: HTTPError) -> bytes:
    """The beginning of an answer that is an error, in lower case; empty if it cannot be read."""
    try:
        return error.read(_CHUNK).lower()
    except (OSError, HTTPException, ValueError):
        return b""


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _require_safe(url: str, before: str = "") -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")):
        raise SourceError(f"{before}an address that is not https")


def _chunks(answer: Any, most: int, seconds: int) -> Iterator[bytes]:
    end, budget = time.monotonic() + seconds, most
    while chunk := answer.read1(_CHUNK):
        budget -= len(chunk)
        if budget < 0:
            raise SourceError(f"an answer has more than {most:,} bytes")
        if time.monotonic() > end:
            raise SourceError(f"an answer takes more than {seconds} s")
        yield chunk
    expected = answer.headers.get("Content-Length")
    if expected is not None and expected.isdecimal() and int(expected) != most - budget:
        raise SourceError("an answer ends early")
