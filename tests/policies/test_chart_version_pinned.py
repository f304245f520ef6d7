"""chart-version-pinned: one exact version, from a source with TLS."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.arc import arc_controller
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.charts.device_plugin import device_plugin
from policies.rules.chart_version_pinned import RULE
from policies.rules.kinds import APPLICATION, RELEASE
from tests.policies.applications import application
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said
from tests.policies.suite import Suite

OCI = {"chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set", "version": "0.14.2"}
HTTPS = {"chart": "gpu-operator", "version": "v26.7.0", "repositoryOpts": {"repo": "https://helm.ngc.nvidia.com/nvidia"}}


def inexact(shown: str) -> str:
    return f"version is {shown}: must be one exact version, not a range; write it in full, as in 0.14.2"


def sourceless(shown: str) -> str:
    return (
        f"chart is {shown} without a repository: local charts and repository lists differ from machine to machine; "
        "write oci://…, or set repositoryOpts.repo to https://…"
    )


def unsafe(path: str, shown: str) -> str:
    return f"{path} is {shown}: without TLS nothing verifies what it serves; write oci://… or https://…"


@pytest.mark.parametrize("version", ["0.14.2", "v26.7.0", "1.2.3-rc.1", "1.2.3+build.5", "10.20.30-alpha-1+x"])
def test_one_version_passes(version: str) -> None:
    assert judge(RULE, RELEASE, changed(OCI, "version", version)) == CLEAN


@pytest.mark.parametrize(
    "version",
    ["", "~0.14", "^1.2.3", ">=1.0.0", "1.2.3 - 2.0.0", "1.2", "1", "*", "1.2.x", "latest", "01.2.3", " 1.2.3", "1.2.3\n"],
)
def test_a_range_or_a_part_of_a_version_is_none(version: str) -> None:
    (message,) = judge(RULE, RELEASE, changed(OCI, "version", version)).messages
    assert message.endswith("must be one exact version, not a range; write it in full, as in 0.14.2")


@pytest.mark.parametrize(("version", "shown"), [(REMOVE, "not set"), (None, "not set"), (1.2, "1.2"), ([], "a list")])
def test_what_is_no_version_at_all_is_shown_as_it_is(version: Any, shown: str) -> None:
    assert judge(RULE, RELEASE, changed(OCI, "version", version)) == said(inexact(shown))


@pytest.mark.parametrize("chart", ["./charts/mine", "/srv/charts/mine", "stable/mine", "mine", "mine-1.2.3.tgz", "", None])
def test_a_chart_without_a_repository_is_another_one_elsewhere(chart: str | None) -> None:
    shown = "not set" if chart is None else f'"{chart}"'
    found = judge(RULE, RELEASE, changed(OCI, "chart", chart))
    assert found == said(sourceless('""' if chart is None else shown))


@pytest.mark.parametrize("chart", ["./charts/gpu-operator", "../gpu-operator", "/srv/charts/gpu-operator"])
def test_a_folder_stays_one_beside_a_repository(chart: str) -> None:
    assert judge(RULE, RELEASE, changed(HTTPS, "chart", chart)) == said(sourceless(f'"{chart}"'))


@pytest.mark.parametrize(
    "address", ["http://charts.example.com", "file:///srv/charts", "git+https://example.com/x", "https:///x"]
)
def test_a_source_is_oci_or_https(address: str) -> None:
    repository = changed(HTTPS, "repositoryOpts", "repo", address)
    assert judge(RULE, RELEASE, repository) == said(unsafe("repositoryOpts.repo", f'"{address}"'))
    assert judge(RULE, RELEASE, changed(OCI, "chart", address)) == said(unsafe("chart", f'"{address}"'))


def test_a_password_in_an_address_is_told_and_not_shown() -> None:
    props = changed(HTTPS, "repositoryOpts", "repo", "https://ci:hunter2@charts.example.com")
    (message,) = judge(RULE, RELEASE, props).messages
    assert message.startswith("repositoryOpts.repo contains a password")
    assert "hunter2" not in message
    assert judge(RULE, RELEASE, changed(OCI, "chart", f"{OCI['chart']}@sha256:{'1' * 64}")) == CLEAN, "a digest is not a password"


def test_an_archive_by_https_has_a_source() -> None:
    assert judge(RULE, RELEASE, {"chart": "https://example.com/mine-1.2.3.tgz", "version": "1.2.3"}) == CLEAN


def test_the_charts_of_this_project_pass() -> None:
    for chart in (arc_controller(), device_plugin(), cluster_autoscaler("c", "us-west-2", "1.34")):
        oci = chart.repository.startswith("oci://")
        where = (
            {"chart": f"{chart.repository}/{chart.chart}"}
            if oci
            else {"chart": chart.chart, "repositoryOpts": {"repo": chart.repository}}
        )
        assert judge(RULE, RELEASE, where | {"version": chart.version}) == CLEAN


def test_what_is_known_to_be_wrong_is_told_beside_what_is_unknown() -> None:
    props = changed(HTTPS, "repositoryOpts", "repo", "http://x")
    assert judge(RULE, RELEASE, props, unknown=("version",)) == said(
        unsafe("repositoryOpts.repo", '"http://x"'), unknown="version"
    )


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("https://helm.ngc.nvidia.com/nvidia", ""),
        ("ghcr.io/nvidia", ""),
        ("oci://ghcr.io/nvidia", ""),
        ("http://charts.example.com", "without TLS"),
        ("git+https://example.com/x", "without TLS"),
        ("/srv/charts", "without TLS"),
        ("", "without a repository"),
        ("https://ci:hunter2@charts.example.com", "contains a password"),
        ("ci:hunter2@ghcr.io/nvidia", "contains a password"),
    ],
)
def test_argo_cd_writes_a_registry_without_a_scheme(address: str, fault: str) -> None:
    found = judge(RULE, APPLICATION, changed(application(HTTPS), "spec", "source", "repoURL", address))
    assert [fault in message for message in found.messages] == ([True] if fault else [])
    assert not any("hunter2" in message for message in found.messages)
    assert not any("repositoryOpts" in message for message in found.messages), "that is a property of another kind"


def test_a_chart_that_is_its_repository_has_one_version_too() -> None:
    source = {"repoURL": "oci://registry.example.com/charts/gpu-operator", "path": ".", "targetRevision": ">=26"}
    assert judge(RULE, APPLICATION, {"spec": {"source": source}}) == said(
        'spec.source.targetRevision is ">=26": must be one exact version, not a range; write it in full, as in 0.14.2'
    )


def test_a_chart_that_is_its_repository_may_have_a_digest() -> None:
    digest = "sha256:" + "0a" * 32
    source = {"repoURL": "oci://registry.example.com/charts/gpu-operator", "path": ".", "targetRevision": digest}
    assert judge(RULE, APPLICATION, {"spec": {"source": source}}).messages == ()
    for repository, revision in (("registry.example.com/charts", digest), (source["repoURL"], digest[:-1])):
        held = {"repoURL": repository, "chart": "gpu-operator", "targetRevision": revision}
        held = held if "oci" not in repository else source | {"targetRevision": revision}
        (message,) = judge(RULE, APPLICATION, {"spec": {"source": held}}).messages
        assert "one exact version" in message


SUITE = Suite(
    RULE,
    passing=(Case(RELEASE, OCI), Case(RELEASE, HTTPS)),
    violating=(
        Case(RELEASE, changed(OCI, "version", "~0.14"), (inexact('"~0.14"'),)),
        Case(RELEASE, changed(HTTPS, "repositoryOpts", REMOVE), (sourceless('"gpu-operator"'),)),
    ),
)
