"""Settings of an EKS cluster that exists already. The program adds GPU pools to it, and the charts that the cluster lacks."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fleet.facts.remark import said
from fleet.facts.scheduling import STARTUP_GATE
from fleet.providers.eks.cluster import EksPools, SubnetId
from fleet.providers.eks.ecr import ROLE
from fleet.providers.eks.runners import EksPodRunner
from fleet.settings.existing import AUTOSCALER_CHART, NO_CACHES, NODE_AGENT, Existing
from fleet.settings.model import DnsLabel, without
from fleet.settings.refusals import matching, refusal, refuse_if, require_once
from fleet.settings.runner import SetName

ClusterName = Annotated[str, matching("eks_name", r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")]


class ExistingEks(Existing):
    """An EKS cluster as AWS shows it."""

    KEY: ClassVar[str] = "name"
    CALLED: ClassVar[str] = "the EKS cluster {identity} in {region}"

    name: ClusterName
    """Name of the EKS cluster."""
    node_role_arn: Annotated[str, matching("role_arn", ROLE)]
    """ARN of the IAM role of the new nodes. It needs the policies of a node and no others. Source: EKS user guide, node IAM
    role."""
    subnets: Annotated[dict[str, SubnetId], Field(min_length=1)]
    """Private subnets of the new nodes, by zone. Each needs its own route out: a NAT gateway or VPC endpoints. Example:
    `{us-west-2a: subnet-0a1b2c3d4e5f60718}`"""

    @refusal
    def _subnet_rules(self) -> None:
        """Refuse one subnet for several zones."""
        require_once("repeated_subnet", self.subnets.values(), at=("subnets",))


class ExistingEksCluster(EksPools):
    """An EKS cluster that exists already: GPU pools, charts, runner sets. The program does not own network and control plane."""

    model_config = ConfigDict(json_schema_extra=without("caches", "gitops"))

    ZONES_AT: ClassVar[tuple[str, ...]] = ("existing", "subnets")
    SELLS_VOLUMES: ClassVar[bool] = False

    existing: ExistingEks
    """The EKS cluster: its name, its network and what it has already (docs/existing-clusters.md)."""
    delivery: Literal["helm"] = "helm"
    """Always `helm`: `pulumi up` installs the charts. Example: `helm`"""
    caches: Annotated[dict[DnsLabel, Any], NO_CACHES] = Field(default_factory=dict)
    runners: dict[SetName, EksPodRunner] = Field(default_factory=dict)

    @property
    def accounts(self) -> frozenset[str]:
        """As in the base class, and the account of the node role."""
        return super().accounts | {self.existing.node_role_arn.split(":")[4]}

    @refusal
    def _existing_rules(self) -> None:
        """Refuse a node role of another account, which EC2 cannot use, and settings of a control plane or that do not fit the
        cluster.
        """
        refuse_if("node_role_account", len(self.accounts) > 1, at=("existing", "nodeRoleArn"), account=self.account)
        self._require_existing(self.existing)

    @property
    def node_zones(self) -> tuple[str, ...]:
        """As in the base class: those of the subnets."""
        return tuple(self.existing.subnets)

    def _cluster_remarks(self) -> Iterator[str]:
        """As in the base class: what nothing here shows of the cluster."""
        yield from self.existing.unseen(self.enablement)
        yield said("existing_eks", name=self.existing.name, minor=self.kubernetes_version)
        if self.monitoring is not None and NODE_AGENT not in self.existing.installed:
            yield said("existing_dcgm", agent=NODE_AGENT, name=self.existing.name)
        if self.health is not None and self.health.startup_gate and self.enablement in self.existing.installed:
            yield said("existing_gate", enablement=self.enablement, taint=STARTUP_GATE.key)
        users = [] if AUTOSCALER_CHART in self.existing.installed else ["the autoscaler"]
        users += [f"runner class {name}" for name, runner in self.runners.items() if runner.role]
        if users:
            yield said("existing_pod_identity", users=" and ".join(users), name=self.existing.name)
