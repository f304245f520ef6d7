"""Whether what a fleet pins is still good, by the sources themselves: GitHub's runner, ARC, support and node images of EKS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from fleet.facts.eks_images import build_of
from fleet.facts.lifecycle import INSTALL_WITHIN
from fleet.facts.support import EKS_SUPPORT
from fleet.facts.versions import CHARTS, RUNNER_IMAGE
from fleet.providers.eks.cluster import EksPools
from fleet.providers.finding import Finding, ok, skipped, wrong
from fleet.providers.fleet import Fleet
from gpu_ci.doctor.sources import eks, github
from gpu_ci.doctor.sources.github import numbers
from gpu_ci.doctor.sources.web import SourceError, Web

AREA = "freshness"
_SOON = timedelta(days=7)
_FRESHEN = "python -m gpu_ci freshen --only"


def findings(fleet: Fleet, web: Web, day: date, session: Callable[[], Any] = eks.session) -> Iterator[Finding]:
    """The findings on a day. `session` gives a boto3 session, or raises SourceError."""
    host, _, path = fleet.github.url.removeprefix("https://").partition("/")
    if host == "github.com" or host.endswith(".ghe.com"):
        yield from _guarded("the runner", lambda: [_runner(web, host, path, day)])
    else:
        yield skipped(AREA, f"the runner: {host} is a server of your own, and GitHub has no list of its last days")
    yield from _guarded("ARC", lambda: [_arc(web)])
    clusters = {name: cluster for name, cluster in fleet.clusters_by_name() if isinstance(cluster, EksPools)}
    if clusters:
        yield from _guarded("EKS", lambda: list(_eks(clusters, session())))


def _guarded(what: str, check: Callable[[], list[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except SourceError as error:
        yield skipped(AREA, f"{what}: {error}")


def _runner(web: Web, host: str, path: str, day: date) -> Finding:
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
        return ok(AREA, f"runner {version}: no last day is set (by {by})")
    left = (end - day).days
    said = f"runner {version}: GitHub gives it no jobs from {end} on, {f'in {left} days' if left > 0 else 'over'} (by {by})"
    return ok(AREA, said) if end - day > _SOON else wrong(AREA, said, f"{_FRESHEN} runner, then pulumi up")


def _by_rule(web: Web, version: str) -> date | None:
    """The day on which the next release is 30 days old; None if there is none. GitHub may set a later day."""
    releases = github.releases(web, "runner", r"v(\d+\.\d+\.\d+)")
    newer = [release.day for release in releases if numbers(release.version) > numbers(version)]
    return min(newer) + timedelta(INSTALL_WITHIN) if newer else None


def _arc(web: Web) -> Finding:
    version = CHARTS["gha-runner-scale-set"].version
    releases = github.releases(web, "arc", r"gha-runner-scale-set-(\d+\.\d+\.\d+)")
    newest = max(releases, key=lambda each: numbers(each.version), default=None)
    if newest is None or numbers(newest.version) <= numbers(version):
        return ok(AREA, f"ARC {version} is the newest")
    return ok(AREA, f"ARC {version} is pinned, and {newest.version} of {newest.day} is the newest; {_FRESHEN} arc")


def _eks(clusters: Mapping[str, EksPools], session: Any) -> Iterator[Finding]:
    first = next(iter(clusters.values()))
    minors = {entry.minor: entry for entry in eks.minors(eks.client(session, "eks", first.region))}
    for name, cluster in clusters.items():
        minor, release = cluster.kubernetes.minor, cluster.kubernetes.ami_release
        real, row = minors.get(minor), EKS_SUPPORT.get(minor)
        if real is None:
            yield wrong(AREA, f"{name}: EKS has no Kubernetes {minor} any more", f"write one of {', '.join(minors)}")
        elif row is None or (row.standard_until, row.extended_until) != (real.standard_until, real.extended_until):
            said = (
                f"{name}: AWS ends standard support of {minor} on {real.standard_until}, and all support on {real.extended_until}"
            )
            yield wrong(AREA, f"{said}; fleet/facts/data/eks_support.csv has other days", f"{_FRESHEN} 'eks support'")
        else:
            yield ok(AREA, f"{name}: AWS ends standard support of {minor} on {real.standard_until}, as the table has it")
        newest = eks.recommended(eks.client(session, "ssm", cluster.region), minor)
        state = f"is pinned, and AWS recommends {newest}" if build_of(newest) > build_of(release) else "is the newest"
        yield ok(AREA, f"{name}: node image {release} {state}")
