"""Cluster Autoscaler of one EKS cluster, with minimal rights."""

import pulumi

from components.component import Component, Resources, Text
from components.eks.iam import allow, document, pod_identity
from components.kubernetes.deliver import deliver
from fleet.charts.chart import KUBE_SYSTEM, Chart
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.facts.scheduling import DISCOVERY_TAG, owner_tag
from fleet.facts.tables import beside

_RIGHTS: dict[str, list[str]] = beside(__file__, "autoscaler-rights.toml")


def autoscaler_rights(cluster_name: str) -> str:
    """The IAM policy. EC2's API cannot limit reads to resources; writes are limited to this cluster's groups by their tags."""
    # EKS puts both tags on the groups of its managed node groups.
    tags = {f"aws:ResourceTag/{DISCOVERY_TAG}": "true", f"aws:ResourceTag/{owner_tag(cluster_name)}": "owned"}
    return document(allow(_RIGHTS["reads"]), allow(_RIGHTS["writes"], StringEquals=tags))


class EksAutoscaler(Component[str, Text, Chart | None, Resources]):
    """A role, its association with the autoscaler's service account, and the chart.

    `physical_name` is the cluster's name as text; `cluster_name` the same with its dependency on the control plane.
    `chart` is the autoscaler's. It is None if ArgoCD installs it.
    """

    role_arn: pulumi.Output[str]
    """ARN of the autoscaler's IAM role."""

    def declare(self, name: str, physical_name: str, cluster_name: Text, chart: Chart | None, ready: Resources) -> None:
        rights = autoscaler_rights(physical_name)
        role, before = pod_identity(name, cluster_name, KUBE_SYSTEM, AUTOSCALER, parent=self, rights=rights)
        if chart is not None:
            deliver(f"{name}-chart", chart, parent=self, depends_on=[*before, *ready])
        self.role_arn = role.arn
