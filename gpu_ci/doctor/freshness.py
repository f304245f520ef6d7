"""Whether what a fleet pins is still good, by the sources themselves: GitHub's runner, ARC, support and node images of EKS."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

from fleet.facts.lifecycle import INSTALL_WITHIN
from fleet.facts.versions import CHARTS, RUNNER_IMAGE
from fleet.providers.finding import FRESHNESS, Finding, SourceError, guarded, ok, skipped, wrong
from fleet.providers.fleet import Fleet
from gpu_ci.doctor.sources import github
from gpu_ci.doctor.sources.github import numbers
from gpu_ci.doctor.sources.web import Web

AREA = FRESHNESS
_FRESHEN = "gpu-ci freshen --only"


def findings(fleet: Fleet, web: Web, day: date, session: Callable[[], Any] | None = None) -> Iterator[Finding]:
    """The findings on a day. `session` replaces what gives the session of a cloud's SDK, or raises SourceError."""
    # Every organization of a server has the same last days.
    for host, scope in {scope.host: scope for scope in reversed(fleet.scopes.values())}.items():
        path = scope.url.removeprefix("https://").partition("/")[2]
        if host == "github.com" or host.endswith(".ghe.com"):
            yield from guarded(_runner(web, host, path, day), AREA, "the runner", (SourceError,))
        else:
            yield skipped(AREA, f"the runner: {host} is a server of your own, and GitHub has no list of its last days")
    yield from guarded(_arc(web), AREA, "ARC", (SourceError,))
    for provider, clusters in fleet.by_provider():
        yield from provider.freshness(clusters, session)


def _runner(web: Web, host: str, path: str, day: date) -> Iterator[Finding]:
    version = RUNNER_IMAGE.partition("@")[0].rpartition(":")[2]
    try:
        if host != "github.com":
            raise SourceError(f"the token is for api.github.com alone, not for {host}")
        end, by = github.last_day(web, f"{'repos' if '/' in path else 'orgs'}/{path}", version), "GitHub's REST API"
    except SourceError as error:
        try:
            end, by = _by_rule(web, version), f"the rule, which may be earlier than GitHub's own day: {error}"
        except SourceError as other:
            raise SourceError(f"{error}; {other}") from None
    if end is None:
        yield ok(AREA, f"runner {version}: no last day is set (by {by})")
        return
    days = (end - day).days
    fact = f"runner {version}: GitHub gives it no jobs from {end} on, {f'in {days} days' if days > 0 else 'over'} (by {by})"
    yield ok(AREA, fact) if days > 7 else wrong(AREA, fact, f"{_FRESHEN} runner, then pulumi up")


def _by_rule(web: Web, version: str) -> date | None:
    """The day on which the next release is 30 days old; None if there is none. GitHub may set a later day."""
    releases = github.releases(web, "runner", r"v(\d+\.\d+\.\d+)")
    newer = [release.day for release in releases if numbers(release.version) > numbers(version)]
    return min(newer) + timedelta(INSTALL_WITHIN) if newer else None


def _arc(web: Web) -> Iterator[Finding]:
    version = CHARTS["gha-runner-scale-set"].version
    releases = github.releases(web, "arc", r"gha-runner-scale-set-(\d+\.\d+\.\d+)")
    newest = max(releases, key=lambda release: numbers(release.version), default=None)
    if newest is None or numbers(newest.version) <= numbers(version):
        yield ok(AREA, f"ARC {version} is the newest")
    else:
        yield ok(AREA, f"ARC {version} is pinned, and {newest.version} of {newest.day} is the newest; {_FRESHEN} arc")
