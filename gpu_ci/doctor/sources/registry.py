"""What an OCI registry has for a tag, the layers of an image, and the index.yaml of a chart repository for a version.

Anonymous: the registry names the address of a token, and everybody gets one. Source: distribution/distribution
docs/spec/auth/token.md and the OCI distribution specification.
"""

import hashlib
import re
from datetime import date
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, TypeAdapter

from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.web import RENEWAL, Answer, Web, checked

_KINDS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_NAME = re.compile(r"[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+")
_MOST = 4_000_000
"""The largest manifest that registries must take (OCI distribution specification)."""


class Tagged(NamedTuple):
    """The digest of a tag, "sha256:" and 64 hex digits, and the day on which the content was made, or "unknown"."""

    digest: str
    day: str


class Blob(NamedTuple):
    """A content at an address: its SHA-256 in hex, its size in bytes, and the token that opens it."""

    url: str
    sha256: str
    size: int
    token: str = ""


class _Platform(BaseModel):
    os: str = ""
    architecture: str = ""


class _Part(BaseModel):
    annotations: dict[str, str] | None = None
    digest: str = ""
    size: int = 0
    platform: _Platform | None = None


class _Manifest(_Part):
    manifests: list[_Part] = []
    layers: list[_Part] = []


class _Token(BaseModel):
    token: str = ""
    access_token: str = ""


def tagged(web: Web, name: str, tag: str) -> Tagged:
    """What a tag of an image or an OCI chart is. `name` is registry/repository."""
    if not (_NAME.fullmatch(name) and re.fullmatch(r"\w[\w.-]{0,127}", tag)):
        raise SourceError(f"not the name of an image: {name}:{tag}")
    host, _, path = name.partition("/")
    answer, _ = _manifest(web, name, tag)
    computed = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
    if answer.headers.get("Docker-Content-Digest", computed) != computed:
        raise SourceError(f"{host} names another digest than that of the manifest it sends for {path}:{tag}")
    content = checked(answer.body, TypeAdapter(_Manifest))
    days = ((part.annotations or {}).get("org.opencontainers.image.created", "")[:10] for part in (content, *content.manifests))
    return Tagged(computed, next((day for day in days if re.fullmatch(r"20\d\d-\d\d-\d\d", day)), "unknown"))


def layers(web: Web, image: str, architecture: str) -> list[Blob]:
    """The layers of an image for Linux, the topmost first. `image` is registry/repository:tag@sha256:digest."""
    tagged_name, _, digest = image.partition("@")
    name = tagged_name.rpartition(":")[0]
    index, _ = _pinned(web, name, digest)
    platform = _Platform(os="linux", architecture=architecture)
    if (own := next((part.digest for part in index.manifests if part.platform == platform), None)) is None:
        raise SourceError(f"{image} has nothing for Linux on {architecture}")
    manifest, token = _pinned(web, name, own)
    blobs = f"{_address(name)}/blobs"
    layers = reversed(manifest.layers)
    return [Blob(f"{blobs}/{layer.digest}", layer.digest.removeprefix("sha256:"), layer.size, token) for layer in layers]


def _pinned(web: Web, name: str, digest: str) -> tuple[_Manifest, str]:
    """The manifest with this digest, and the token that opens the repository."""
    answer, token = _manifest(web, name, digest)
    if f"sha256:{hashlib.sha256(answer.body).hexdigest()}" != digest:
        raise SourceError(f"{name} sends another manifest than {digest}")
    return checked(answer.body, TypeAdapter(_Manifest)), token


def _address(name: str) -> str:
    """Where a registry has a repository. `name` is registry/repository."""
    host, _, path = name.partition("/")
    return f"https://{RENEWAL['registries'].get(host, host)}/v2/{path}"


def _manifest(web: Web, name: str, reference: str) -> tuple[Answer, str]:
    """The manifest of a tag or a digest, and the token that opens the repository; empty if none is needed."""
    address, headers = f"{_address(name)}/manifests/{reference}", {"Accept": _KINDS}
    try:
        return web.get(address, _MOST, headers), ""
    except SourceError as error:
        if error.status != 401:
            raise
        token = _token(web, error.challenge, name.partition("/")[2])
        return web.get(address, _MOST, headers, token), token


def _token(web: Web, challenge: str, path: str) -> str:
    parts = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = parts.get("realm", "")
    if not challenge.lower().startswith("bearer ") or not urlsplit(realm).hostname:
        raise SourceError("a registry asks for a login that is not anonymous")
    query = {"scope": f"repository:{path}:pull"} | ({"service": parts["service"]} if "service" in parts else {})
    answer = web.read(f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(query)}", TypeAdapter(_Token), 1_000_000)
    token = answer.token or answer.access_token
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise SourceError("a registry gives no usable token")
    return token


def indexed(web: Web, repository: str, name: str, version: str) -> Tagged:
    """The SHA-256 of the archive of a chart's version, and the day on which it was made.

    Helm writes the index with sorted keys and one way to indent, so this reads the lines of one entry instead of the whole file,
    whose parsing would take minutes.
    """
    # An index has every version that ever was.
    text = web.get(f"{repository}/index.yaml", 60_000_000).body.decode(errors="replace")
    if (section := re.search(rf"^( +){re.escape(name)}:\n((?:\1[ -].*\n?)+)", text, re.MULTILINE)) is None:
        raise SourceError(f"{repository}/index.yaml has no chart {name}")
    item = re.match(r" *- ", section[2])
    for entry in section[2].split(f"\n{item[0]}") if item else ():
        fields = dict(re.findall(r"^[ -]*(version|digest|created): *[\"']?([^\"'\n]+?)[\"']? *$", _top(entry), re.MULTILINE))
        if fields.get("version") == version:
            return _entry(fields, f"{name} {version}")
    raise SourceError(f"{repository}/index.yaml has no {name} {version}")


def _top(entry: str) -> str:
    """The lines of an entry's own keys: the first line, and those that are indented as the second key is."""
    first, _, remainder = entry.partition("\n")
    depth = min((len(line) - len(line.lstrip(" ")) for line in remainder.splitlines() if re.match(r" +\w+:", line)), default=0)
    return "\n".join([first, *(line for line in remainder.splitlines() if re.match(rf" {{{depth}}}\w", line))])


def _entry(fields: dict[str, str], what: str) -> Tagged:
    sha256 = fields.get("digest", "").removeprefix("sha256:")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise SourceError(f"the index has no SHA-256 of {what}")
    try:
        return Tagged(f"sha256:{sha256}", date.fromisoformat(fields.get("created", "")[:10]).isoformat())
    except ValueError:
        raise SourceError(f"the index has no day of {what}") from None
