"""One way to hand a chart to a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts import Chart

_TIMEOUT = 600
"""Seconds that Helm waits: a system node may have to start first."""


def deliver(
    logical_name: str,
    chart: Chart,
    *,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource],
    replace_on: Sequence[str] = (),
    validate: bool = True,
) -> kubernetes.helm.v3.Release:
    """The chart as a Helm release of explicit name and version.

    `replace_on` are property paths whose change replaces the release (the old one goes first, since the name is the same);
    `validate` is whether Helm holds what it renders to the kinds that the cluster knows already.
    """
    oci = chart.repository.startswith("oci://")
    return kubernetes.helm.v3.Release(
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
            parent=parent,
            depends_on=list(depends_on),
            replace_on_changes=list(replace_on),
            delete_before_replace=True,
        ),
    )
