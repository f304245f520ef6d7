"""User data of machines as text: plain, base64, compressed, and the base64 texts inside it.

Decoding never fails: text that is not encoded stays as it is. If data unpacks to more than a machine may get, only the
beginning is read.
"""

import base64
import binascii
import re
import zlib
from functools import lru_cache

from .kinds import bodies, fields
from .read import Data, Later, Named, text

_FIELDS = fields("user_data")
MACHINES = frozenset(_FIELDS)
"""Kinds whose user data may set up anything. The provider writes the user data of node pools."""

_LONGEST = 2**20
"""Characters that the rules read of a text, encoded or not. A Kubernetes Secret has at most as many bytes, user data fewer."""
_DEEPEST, _MOST, _ROOM = 3, 512, 2 * _LONGEST
"""The most nested encodings, the most texts in total, and the most characters of all unpacked texts together."""
_GZIP, _ZLIB = b"\x1f\x8b", (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
# A run of base64, which cloud-config and MIME may break into lines.
_RUN = re.compile(r"[A-Za-z0-9+/]{40,}(?:\r?\n[ \t]*[A-Za-z0-9+/]{4,})*={0,2}")
_WHOLE = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def readings(content: str) -> tuple[str, ...]:
    """The text itself, its decoded form, and the decoded base64 texts inside both."""
    texts = [(content[:_LONGEST], 0)]
    room = _ROOM
    for read, depth in texts:
        if depth == _DEEPEST:
            break
        runs = [read] if _WHOLE.fullmatch("".join(read.split())) else (match[0] for match in _RUN.finditer(read))
        for run in runs:
            if len(texts) == _MOST or not room:
                break
            if inner := decoded(run)[:room]:
                texts.append((inner, depth + 1))
                room -= len(inner)
    return tuple(read for read, _ in texts)


def decoded(run: str) -> str:
    """The decoded base64 text, unpacked if it is compressed; "" for any other text."""
    plain = "".join(run[:_LONGEST].split())
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return _unpacked(data).decode("utf-8", "replace")


def user_data(token: str, props: Data, later: Later) -> Named:
    """Path and text of the user data of a machine of `MACHINES`. `later` collects unknown ones."""
    for path, holder in bodies(token, props, later):
        for field in _FIELDS[token]:
            if content := text(later.walk(holder, *field)):
                yield path + ".".join(field), content


@lru_cache(maxsize=64)
def script(content: str) -> str:
    """All readings of user data, without the lines that are comments."""
    lines = (line for read in readings(content) for line in read.splitlines() if not line.lstrip().startswith("#"))
    return "\n".join(lines)


def _unpacked(data: bytes) -> bytes:
    if not data.startswith((_GZIP, *_ZLIB)):
        return data
    try:
        # 32 accepts either header. The size has a limit, even if the archive claims another one.
        return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(data, _LONGEST)
    except zlib.error:
        return data
