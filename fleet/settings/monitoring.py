"""Settings of metrics, alerts and dashboards of a cluster."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fleet.settings.alerts import Alerts
from fleet.settings.github import RepositoryName
from fleet.settings.model import DnsLabel, Duration, LabelKey, LabelValue, Memory, Model, problem

NAMESPACE = "monitoring"


class Monitoring(Model):
    """Prometheus, the metrics that it reads, alerts and dashboards."""

    prometheus: Literal["install", "existing"]
    """Whether to install kube-prometheus-stack, or to give monitors and rules to a Prometheus operator that the cluster has."""
    repositories: tuple[RepositoryName, ...] = ()
    """Repositories whose cost has series of their own. The cost of all others adds up to `other`, so that the number of series
    stays bounded. A GitHub scope of one repository needs no entry."""
    namespace: DnsLabel = NAMESPACE
    """Namespace of Prometheus. An existing one may have another."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that an existing Prometheus asks of monitors and rules, such as `release: prometheus`."""
    storage: Memory = 50 * 1024
    """MiB of the volume of an installed Prometheus."""
    retention: Duration = 15 * 86400
    """Seconds for which an installed Prometheus keeps samples."""
    alerts: Alerts = Alerts()

    @model_validator(mode="after")
    def _of_an_existing_one(self) -> Self:
        """Refuse labels for an installed Prometheus, because it selects every monitor and rule."""
        if self.prometheus == "install" and self.labels:
            raise problem("monitoring_labels", "an installed Prometheus selects every monitor; remove labels", at=("labels",))
        return self
