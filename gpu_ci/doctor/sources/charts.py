"""A version of a chart in the index.yaml of its repository."""

from __future__ import annotations

import re
from datetime import date

from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.registry import Tagged
from gpu_ci.doctor.sources.web import Web


def indexed(web: Web, repository: str, name: str, version: str) -> Tagged:
    """The SHA-256 of the archive of a chart's version, and the day on which it was made.

    Helm writes the index with sorted keys and one way to indent, so this reads the lines of one entry instead of the whole file,
    whose parsing would take minutes.
    """
    # An index has every version that ever was.
    text = web.get(f"{repository}/index.yaml", 60_000_000).body.decode(errors="replace")
    section = re.search(rf"^( +){re.escape(name)}:\n((?:\1[ -].*\n?)+)", text, re.MULTILINE)
    if section is None:
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
