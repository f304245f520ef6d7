"""Settings of an OKE cluster that exists already. The program adds GPU pools to it, and the charts that the cluster lacks."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fleet.facts.remark import said
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.ocid import ClusterId, CompartmentId, SecurityGroupId, SubnetId
from fleet.providers.oke.runners import OkePodRunner
from fleet.settings.enablement import GPU_PLUGIN_ADDON
from fleet.settings.existing import AUTOSCALER_CHART, NO_CACHES, ExistingContext
from fleet.settings.model import DnsLabel, without
from fleet.settings.refusals import refusal, refuse
from fleet.settings.runner import SetName


class ExistingOke(ExistingContext):
    """An OKE cluster as the console shows it, and the kubeconfig context of its Kubernetes API."""

    KEY: ClassVar[str] = "id"
    CALLED: ClassVar[str] = "the OKE cluster {identity}"

    id: ClusterId
    """OCID of the OKE cluster."""
    node_subnet: SubnetId
    """OCID of the private subnet of the new nodes and of their pods."""
    node_security_group: SecurityGroupId
    """OCID of the network security group of the new nodes and of their pods."""
    network_compartment: CompartmentId | None = None
    """OCID of the compartment of the subnet. Default: that of the cluster. Example: `ocid1.compartment.oc1..examplenetwork`"""


class ExistingOkeCluster(OkePools):
    """An OKE cluster that exists already: GPU pools, charts, runner sets. The program does not own network and control plane."""

    model_config = ConfigDict(json_schema_extra=without("caches", "gitops"))

    DEFAULT_CLASS: ClassVar[bool] = True
    SELLS_VOLUMES: ClassVar[bool] = False

    existing: ExistingOke
    """The OKE cluster: its OCID, its network and what it has already (docs/existing-clusters.md)."""
    delivery: Literal["helm"] = "helm"
    """Always `helm`: `pulumi up` installs the charts. Example: `helm`"""
    caches: Annotated[dict[DnsLabel, Any], NO_CACHES] = Field(default_factory=dict)
    runners: dict[SetName, OkePodRunner] = Field(default_factory=dict)

    def _here(self) -> Iterator[tuple[tuple[str, ...], str | None]]:
        """As in the base class, and the cluster with its network."""
        existing = self.existing
        yield ("existing", "id"), existing.id
        yield ("existing", "nodeSubnet"), existing.node_subnet
        yield ("existing", "nodeSecurityGroup"), existing.node_security_group
        yield from super()._here()

    def _cluster_remarks(self) -> Iterator[str]:
        """As in the base class: what nothing here shows of the cluster."""
        yield from self.existing.unseen(self.enablement)
        yield said("existing_oke", minor=self.kubernetes_version)
        if self.enablement == GPU_PLUGIN_ADDON:
            yield said("existing_plugin_addon")
        if AUTOSCALER_CHART in self.existing.installed:
            yield said("existing_oke_autoscaler")
        else:
            yield said("existing_oke_no_autoscaler")

    @refusal
    def _existing_rules(self) -> None:
        """Refuse settings of a control plane, and settings that do not fit what the cluster has."""
        self._require_existing(self.existing)
        refuse("declareQuotas", existing_quotas=self.declare_quotas)
