"""Settings of metrics, alerts and dashboards of a cluster."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.settings.alerts import Alerts
from fleet.settings.github import RepositoryName
from fleet.settings.model import IN_ANY_ORDER, DnsLabel, Duration, Labels, Memory, Model
from fleet.settings.refusals import between, matching, refusal, refuse, refuse_if

NAMESPACE = "monitoring"
_OF_AN_INSTALLED_ONE = {"storage": "storage", "storage_class": "storageClass", "retention": "retention"}
_SMALLEST = 50 * 1024
"""MiB of the smallest block volume of OCI."""
_VOLUME = between("monitoring_storage", _SMALLEST, step=1024)

REMOTE_WRITE = matching("remote_write_url", r"https?://[a-z0-9.-]+(:[0-9]+)?/[A-Za-z0-9._/-]+", private=True)


class Monitoring(Model):
    """Prometheus, the metrics that it reads, alerts and dashboards."""

    prometheus: Literal["install", "existing"]
    """`install` installs kube-prometheus-stack. `existing` gives monitors and rules to a Prometheus operator that the cluster
    has."""
    operator_installed: bool = False
    """Whether you have installed a Prometheus operator in a cluster that this stack created, so that `prometheus: existing` works
    there. Only allowed with it. Example: `true`"""
    repositories: Annotated[tuple[RepositoryName, ...], IN_ANY_ORDER] = ()
    """Repositories whose cost has series of their own, as owner/name. The cost of all others adds up to `other`, so that the
    number of series stays bounded. Example: `[acme/app]`"""
    namespace: DnsLabel = NAMESPACE
    """Namespace of Prometheus. Example: `observability`"""
    labels: Labels = Field(default_factory=dict)
    """Labels that an existing Prometheus requires of monitors and rules. Not allowed with `prometheus: install`. Example:
    `{release: prometheus}`"""
    storage: Annotated[Memory, _VOLUME] = 50 * 1024
    """Volume of an installed Prometheus: a whole number of Gi, at least 50Gi."""
    storage_class: DnsLabel | None = None
    """Storage class of that volume. Default: one that the program creates on EKS and OKE, otherwise the default class. Example:
    `local-path`"""
    retention: Annotated[Duration, Field(ge=3600)] = 15 * 86400
    """Time for which an installed Prometheus keeps samples, at least 1h."""
    remote_write_url: Annotated[str, REMOTE_WRITE] | None = None
    """URL at which an existing Prometheus takes remote write, as pods of the cluster reach it. OCI machines push their metrics
    there. An installed Prometheus needs none. Example: `"http://prometheus.metrics.svc:9090/api/v1/write"`"""
    alerts: Alerts = Alerts()
    """Thresholds of the alerts."""
    cloudwatch: bool = False
    """Whether CloudWatch gets Container Insights and the GPU metrics too, by its add-on for EKS."""

    @property
    def installs(self) -> bool:
        """Whether the program installs Prometheus."""
        return self.prometheus == "install"

    @refusal
    def _one_kind(self) -> None:
        """Refuse labels for an installed Prometheus, which selects every monitor and rule, and a volume for an existing one."""
        refuse("labels", monitoring_labels=self.installs and self.labels)
        refuse("remoteWriteUrl", monitoring_remote_write=self.installs and self.remote_write_url is not None)
        refuse("operatorInstalled", monitoring_operator=self.installs and self.operator_installed)
        for field, key in _OF_AN_INSTALLED_ONE.items():
            refuse_if("monitoring_existing", not self.installs and field in self.model_fields_set, at=(key,), key=key)
