"""chart-version-pinned: a release has one exact chart version, from a registry or repository with TLS.

Judged: Helm releases, ArgoCD's Applications, and the releases of Flux and K3s, because the program does not see the resources in
them. The rules judge the children of `helm.sh/v4:Chart` and `helm.sh/v3:Chart` instead. In a real preview the provider has
already filled in the newest version, so only an offline plan finds a missing version.
"""

import re

from .kinds import HELM, fields
from .read import Faults, Later, keys, shown, text, walk
from .releases import Release, installs, releases
from .rule import Args, Rule, facts, said

# semver.org 2.0.0, with the v that some charts put before it.
_VERSION = re.compile(r"v?(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
# An OCI repository of a single chart can also be pinned by digest (argo-cd 3.4, docs/user-guide/oci.md).
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SAFE = re.compile(r"(?:oci|https)://[^/@]+/?.*", re.DOTALL)


_FIXES = fields("chart_sources")
_BY_HELM, _BY_ARGO = _FIXES["helm"], _FIXES["argo"]
"""How to fix a chart's source: one that is missing, one without TLS, one with a password."""


def _check(args: Args, later: Later) -> Faults:
    for release in releases(args.type, args.props, later):
        with later:
            version = release.version
            pinned = _VERSION.fullmatch(text(version)) or (release.image and _DIGEST.fullmatch(text(version)))
            # The object of a chartRef has the version.
            if not (pinned or keys(walk(release.source, "chartRef"))):
                yield said("inexact_version", path=release.path("version"), version=version)
        with later:
            # `sources-allowed` judges the object that a release of Flux names.
            if release.reference is None:
                yield from _chart_faults(release, _BY_HELM if release.application is None else _BY_ARGO)


def _chart_faults(release: Release, fixes: tuple[str, str, str]) -> Faults:
    chart = release.chart
    # Helm reads a path as a local chart, even if a repository is set.
    if "://" in chart:
        yield from _source_faults(release.chart_path, chart, fixes)
    elif (repository := release.repository) and not chart.startswith((".", "/")):
        yield from _source_faults(release.path("repository"), text(repository), fixes)
    else:
        yield said("chart_without_repository", release=release, chart=chart, fixes=fixes)


def _source_faults(path: str, address: str, fixes: tuple[str, str, str]) -> Faults:
    # ArgoCD writes a registry without a scheme.
    whole = f"oci://{address}" if fixes is _BY_ARGO and address and "://" not in address else address
    # The part before an @ may be a password, so the message does not show the address.
    if "@" in whole.partition("://")[2].partition("/")[0]:
        yield f"{path} contains a password, which everybody who reads the stack can read; {fixes[2]}"
    elif not _SAFE.fullmatch(whole):
        yield f"{path} is {shown(address)}: without TLS nothing verifies what it serves; {fixes[1]}"


RULE = Rule(**facts(__name__), types=HELM, others=installs, check=_check)
