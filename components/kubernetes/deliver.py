"""How a chart gets into a cluster: as a Helm release, or as an ArgoCD Application in Git."""

from collections.abc import Sequence
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Resources
from components.kubernetes.custom import custom
from components.unordered import require_items, unordered
from fleet.charts.chart import Chart
from fleet.render.gitops.application import application
from fleet.settings.gitops import GitOps

_TIMEOUT = 600
"""Seconds that Helm waits, because a system node may have to start first."""


def deliver(
    logical_name: str,
    chart: Chart,
    *,
    git: GitOps | None = None,
    parent: pulumi.Resource,
    depends_on: Resources,
    replace_on: Sequence[str] = (),
    replace_on_items: str = "",
    keeps: Sequence[str] = (),
    validate: bool = True,
    awaits: bool = True,
) -> pulumi.Resource:
    """The chart as a Helm release with an explicit name and version, or with `git` as an Application in that repository.

    A change of a property path in `replace_on` replaces the release. A change of the items of the value `replace_on_items`
    replaces it too, but another order does not. The old release is deleted first, because both have one name. `keeps` are
    property paths that an update leaves as they are. `validate`: whether Helm checks its manifests against the kinds that the
    cluster has now. `awaits`: whether the release is ready only when its pods are, is rolled back otherwise, and is deleted only
    when its objects are gone. ArgoCD replaces no release, and validates in the cluster itself.
    """
    if git is not None:
        return custom(logical_name, application(chart, git), parent=parent, depends_on=depends_on)
    waits = pulumi.ResourceOptions(parent=parent, depends_on=[*depends_on], replace_on_changes=[*replace_on])
    waits.ignore_changes, waits.delete_before_replace = [*keeps], True
    oci, value = chart.repository.startswith("oci://"), replace_on_items
    options = unordered(f"values.{value}", chart.values[value]) if value else pulumi.ResourceOptions()
    release = kubernetes.helm.v3.Release(
        logical_name,
        name=chart.name,
        namespace=chart.namespace,
        chart=f"{chart.repository}/{chart.chart}" if oci else chart.chart,
        repository_opts=None if oci else kubernetes.helm.v3.RepositoryOptsArgs(repo=chart.repository),
        version=chart.version,
        values=chart.values,
        timeout=_TIMEOUT,
        atomic=awaits,  # Helm waits for whatever is atomic
        cleanup_on_fail=True,
        skip_await=not awaits,
        disable_openapi_validation=None if validate else True,
        opts=pulumi.ResourceOptions.merge(options, waits),
    )
    if value:
        deployed = release.values.apply(lambda values: None if values is None else values.get(value, ()))
        require_items(f"values.{value}", chart.values[value], release.urn, deployed)
    return cast("pulumi.Resource", release)
