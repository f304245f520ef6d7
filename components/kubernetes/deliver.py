"""The ways to hand a chart to a cluster: as a Helm release, or as what ArgoCD makes one of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pulumi
import pulumi_kubernetes as kubernetes

from components.kubernetes.custom import custom
from fleet.charts.chart import Chart
from fleet.render.gitops.application import application
from fleet.settings.gitops import GitOps

_TIMEOUT = 600
"""Seconds that Helm waits: a system node may have to start first."""


class Deliver(Protocol):
    """Declares a chart as a resource, whose readiness is that of the release."""

    def __call__(
        self,
        logical_name: str,
        chart: Chart,
        *,
        parent: pulumi.Resource,
        depends_on: Sequence[pulumi.Resource],
        replace_on: Sequence[str] = (),
        validate: bool = True,
    ) -> pulumi.Resource:
        """`replace_on` are property paths whose change replaces the release (the old one goes first, since the name is the same);
        `validate` is whether Helm holds what it renders to the kinds that the cluster knows already.
        """


def by_helm(
    logical_name: str,
    chart: Chart,
    *,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource],
    replace_on: Sequence[str] = (),
    validate: bool = True,
) -> pulumi.Resource:
    """The chart as a Helm release of explicit name and version."""
    oci = chart.repository.startswith("oci://")
    release: pulumi.Resource = kubernetes.helm.v3.Release(
        logical_name,
        name=chart.name,
        namespace=chart.namespace,
        chart=f"{chart.repository}/{chart.chart}" if oci else chart.chart,
        repository_opts=None if oci else kubernetes.helm.v3.RepositoryOptsArgs(repo=chart.repository),
        version=chart.version,
        values=chart.values,
        timeout=_TIMEOUT,
        atomic=True,
        cleanup_on_fail=True,
        skip_await=False,
        disable_openapi_validation=None if validate else True,
        opts=pulumi.ResourceOptions(
            parent=parent, depends_on=list(depends_on), replace_on_changes=list(replace_on), delete_before_replace=True
        ),
    )
    return release


def by_git(git: GitOps) -> Deliver:
    """The chart as an Application, which Git has; ArgoCD replaces nothing and asks the cluster itself what it knows."""

    def deliver(
        logical_name: str, chart: Chart, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource], **_: object
    ) -> pulumi.Resource:
        return custom(logical_name, application(chart, git), parent=parent, depends_on=depends_on)

    return deliver
