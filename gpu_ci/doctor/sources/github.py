"""GitHub's REST API: its address, one request, lists of releases, and the last day of a runner's version."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from http.client import responses
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, StringConstraints, TypeAdapter

from fleet.facts.limits import MOST_BYTES
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.web import ADDRESSES, PROJECTS, T, Web, checked

_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2026-03-10"}
"""The version of the API that has the last days of runners (GitHub's changelog, 2026-09-03)."""


def api_of(url: str) -> str:
    """The address of the REST API for a scope's URL: github.com, a domain of ghe.com, or a GitHub Enterprise Server."""
    host = urlsplit(url).netloc
    return f"https://api.{host}" if host == "github.com" or host.endswith(".ghe.com") else f"https://{host}/api/v3"


def ask(api: str, path: str, token: str, form: TypeAdapter[T]) -> T:
    """The answer to a GET of a path of the API at the address `api`, if it has this form."""
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    try:
        answer = Web().get(f"{api}{path}", MOST_BYTES, headers, token)
    except SourceError as error:
        if not error.status:
            raise SourceError(f"GitHub cannot be reached ({error})") from None
        text = f"GitHub answers {error.status} {responses.get(error.status, '')} to GET {path.partition('?')[0]}"
        text = f"{text}: {error.limit}" if error.limit else text
        raise SourceError(text, error.status, limit=error.limit) from None
    return checked(answer.body, form)


class Release(BaseModel):
    """A release as GitHub lists it; `body` are its notes."""

    tag_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+/-]{0,99}$")]
    name: str | None = None
    published_at: datetime | None = None
    draft: bool
    prerelease: bool
    body: str | None = None


class _End(BaseModel):
    runner_version: str
    runtime_deprecates_at: datetime | None = None


class Published(NamedTuple):
    """A version that is neither a draft nor a pre-release, and the day of its publication."""

    version: str
    day: date
    notes: str


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, by which versions have their order: v1.22.4-eksbuild.3 → (1, 22, 4, 3)."""
    return tuple(map(int, re.findall(r"\d+", version)))


def releases(web: Web, project: str, tag: str, pages: int = 1, size: int = 100) -> Iterator[Published]:
    """The versions of a project of `PROJECTS` whose tags match the pattern `tag`, newest first. Group 1 is the version."""
    for page in range(1, pages + 1):
        address = f"{ADDRESSES['github']}/repos/{PROJECTS[project]}/releases?per_page={size}&page={page}"
        entries = web.read(address, TypeAdapter(list[Release]), headers=_HEADERS)
        for entry in entries:
            match = re.fullmatch(tag, entry.tag_name)
            usable = not (entry.draft or entry.prerelease or "ABANDONED" in (entry.name or ""))
            if match and usable and entry.published_at:
                yield Published(match[1], entry.published_at.date(), entry.body or "")
        if len(entries) < size:
            return


def last_day(web: Web, scope: str, version: str) -> date | None:
    """The day from which on GitHub gives a runner of this version no jobs; None if GitHub has set none.

    `scope` is orgs/NAME or repos/OWNER/NAME. The token needs to read its runners: "Self-hosted runners" of an organization, or
    "Administration" of a repository.
    """
    if not web.token:
        raise SourceError("GH_TOKEN is not set, and GitHub shows the last day of a runner only to a token")
    address = f"{ADDRESSES['github']}/{scope}/actions/runners/deprecations/{version}"
    if (answer := web.read(address, TypeAdapter(_End), headers=_HEADERS)).runner_version != version:
        raise SourceError("GitHub answers for another version than the one that was asked for")
    return answer.runtime_deprecates_at.date() if answer.runtime_deprecates_at else None
