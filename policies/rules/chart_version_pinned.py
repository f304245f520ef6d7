"""chart-version-pinned: a Helm release names one version of its chart, from a registry or a repository that TLS vouches for.

Judged: Helm releases, which alone stay opaque. Of `helm.sh/v4:Chart` and `helm.sh/v3:Chart` the children are judged. A real
preview sees a release after its provider has filled in the newest version, so a missing one is found offline alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from .kinds import HELM
from .read import Later, shown, text, walk
from .rule import Rule

# semver.org 2.0.0, with the v that some charts put before it.
_VERSION = re.compile(r"v?(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_SAFE = re.compile(r"(?:oci|https)://[^/@]+/?.*", re.DOTALL)


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    later = Later()
    for fault in _faults(args.props, later):
        report(fault, None)
    later.settle()


def _faults(props: Any, later: Later) -> Iterator[str]:
    with later:
        version = walk(props, "version")
        if not _VERSION.fullmatch(text(version)):
            yield f"version is {shown(version)}: one version exactly, no range; write it whole, as in 0.14.2"
    with later:
        chart = text(walk(props, "chart"))
        if "://" in chart:
            yield from _source_faults("chart", chart)
        else:
            repository = walk(props, "repositoryOpts", "repo")
            # Helm takes a path for a path, whatever the repository.
            if repository and not chart.startswith((".", "/")):
                yield from _source_faults("repositoryOpts.repo", text(repository))
            else:
                yield (
                    f"chart is {shown(chart)} without a repository: a folder or a list of repositories is another one on every "
                    "machine; write oci://…, or set repositoryOpts.repo to https://…"
                )


def _source_faults(path: str, address: str) -> Iterator[str]:
    # What stands before an @ is a password: such an address is not shown.
    if "@" in address.partition("://")[2].partition("/")[0]:
        yield f"{path} holds a password: everybody who reads the stack reads it; use repositoryOpts.username and password"
    elif not _SAFE.fullmatch(address):
        yield f"{path} is {shown(address)}: nothing vouches for what it serves; write oci://… or https://…"


RULE = Rule(
    id="chart-version-pinned",
    title="Charts have one version and a trusted source",
    severity=Severity.MEDIUM,
    types=HELM,
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    rationale="A chart without an exact version changes what runs, with rights over the cluster, on a day that nobody chose.",
    source="https://helm.sh/docs/chart_best_practices/dependencies/",
    fix="Set version to one version, and chart to oci://… or repositoryOpts.repo to https://….",
    check=_check,
)
