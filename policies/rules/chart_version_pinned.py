"""chart-version-pinned: a release names one version of its chart, from a registry or a repository that TLS vouches for.

Judged: Helm releases and ArgoCD's Applications, which alone stay opaque. Of `helm.sh/v4:Chart` and `helm.sh/v3:Chart` the
children are judged. A real preview sees a release after its provider has filled in the newest version, so a missing one is found
offline alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .kinds import HELM
from .read import Later, shown, text
from .releases import Release, releases
from .rule import Args, Rule, Section, Severity

# semver.org 2.0.0, with the v that some charts put before it.
_VERSION = re.compile(r"v?(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
# A repository that is one chart takes a digest, too (argo-cd 3.4, docs/user-guide/oci.md).
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SAFE = re.compile(r"(?:oci|https)://[^/@]+/?.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Mends:
    """How to say where a chart comes from: without a source, with a safe one, with a login."""

    source: str
    safe: str
    login: str


_BY_HELM = _Mends(
    "write oci://…, or set repositoryOpts.repo to https://…",
    "write oci://… or https://…",
    "use repositoryOpts.username and password",
)
_BY_ARGO = _Mends(
    "set repoURL to https://…, or to a registry without oci://",
    "write https://…, or a registry without oci://",
    "keep it in a repository Secret of ArgoCD",
)


def _check(args: Args, later: Later) -> Iterator[str]:
    for release in releases(args.resource_type, args.props, later):
        yield from _faults(release, later)


def _faults(release: Release, later: Later) -> Iterator[str]:
    mends = _BY_HELM if release.application is None else _BY_ARGO
    with later:
        version = release.version
        if not (_VERSION.fullmatch(text(version)) or (release.image and _DIGEST.fullmatch(text(version)))):
            yield f"{release.path('version')} is {shown(version)}: one version exactly, no range; write it whole, as in 0.14.2"
    with later:
        chart = release.chart
        if "://" in chart:
            yield from _source_faults(release.chart_path, chart, mends)
            return
        repository = release.repository
        # Helm takes a path for a path, whatever the repository.
        if repository and not chart.startswith((".", "/")):
            yield from _source_faults(release.path("repository"), text(repository), mends)
        else:
            yield (
                f"{release.chart_path} is {shown(chart)} without a repository: a folder or a list of repositories is another one "
                f"on every machine; {mends.source}"
            )


def _source_faults(path: str, address: str, mends: _Mends) -> Iterator[str]:
    # ArgoCD writes a registry without a scheme.
    whole = f"oci://{address}" if mends is _BY_ARGO and address and "://" not in address else address
    # What stands before an @ is a password: such an address is not shown.
    if "@" in whole.partition("://")[2].partition("/")[0]:
        yield f"{path} holds a password: everybody who reads the stack reads it; {mends.login}"
    elif not _SAFE.fullmatch(whole):
        yield f"{path} is {shown(address)}: nothing vouches for what it serves; {mends.safe}"


RULE = Rule(
    id="chart-version-pinned",
    order=(Section.SUPPLY_CHAIN, 20),
    title="Charts have one version and a trusted source",
    severity=Severity.MEDIUM,
    types=HELM,
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    rationale="A chart without an exact version changes what runs, with rights over the cluster, on a day that nobody chose.",
    source="https://helm.sh/docs/chart_best_practices/dependencies/",
    fix="Set version (targetRevision) to one version, and chart to oci://… or repositoryOpts.repo (repoURL) to https://….",
    check=_check,
)
