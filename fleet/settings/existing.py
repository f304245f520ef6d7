"""Settings of a cluster that exists already and that the program did not create."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from fleet.facts.remark import said
from fleet.facts.scheduling import GPU_TAINT_KEY
from fleet.facts.versions import CHARTS
from fleet.settings.model import DnsLabel, Labels, Model
from fleet.settings.refusals import matching, problem, refusal, refuses

CONTROLLER_CHART, AUTOSCALER_CHART = "arc-controller", "cluster-autoscaler"
NODE_AGENT = "eks-node-monitoring-agent"
"""EKS add-on that watches nodes. On each GPU node it runs a DCGM engine, which no setting switches off."""
_OnNodes = Literal["dcgm-exporter", "device-plugin", "eks-node-monitoring-agent"]
Installed = Literal["arc-controller", "cluster-autoscaler", _OnNodes, "gpu-operator", "metrics-server"]
"""What a cluster may have already. The program does not install it again."""
ENABLEMENTS = ("device-plugin", "gpu-operator")

EXISTS, CREATED = "existing", "created"
"""The tags of a provider's two models: a cluster that exists already, and one that the program creates."""

ServiceAccount = Annotated[str, matching("service_account", r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", most=253)]


class Controller(Model):
    """The ARC controller that the cluster has: its namespace and its service account."""

    namespace: DnsLabel
    """Namespace of the controller. Example: `arc-systems`"""
    service_account: ServiceAccount
    """Service account of the controller, as `kubectl get serviceaccounts` shows it. Example: `arc-gha-rs-controller`"""


class Existing(Model):
    """Facts of an existing cluster that the program cannot read before `pulumi up`."""

    installed: tuple[Installed, ...]
    """What the cluster has already, `[]` if it has none of these. The program installs the rest. `arc-controller` needs
    `controller`."""
    controller: Controller | None = None
    """The ARC controller that the cluster has. The roles of each runner set are bound to its service account. Required if
    `installed` lists `arc-controller`. Mark: first."""
    system_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes that run controllers and listeners. Default: any node whose taints they tolerate. Mark: first."""

    KEY: ClassVar[str]
    """The key that identifies it."""
    CALLED: ClassVar[str]
    """What one is, with {identity} and {region}. Only one cluster of a stack may be it."""

    @property
    def identity(self) -> str:
        """What pools and objects call the cluster: its name, its OCID or its context."""
        return str(getattr(self, self.KEY))

    @property
    def releases(self) -> frozenset[str]:
        """The names of the releases that the program leaves out."""
        # The release of the device plugin has another name.
        return frozenset("nvidia-device-plugin" if name == "device-plugin" else name for name in self.installed)

    def unseen(self, enablement: str) -> Iterator[str]:
        """What nothing in the settings shows of the cluster, as warnings. `enablement` is what advertises its GPUs."""
        yield said("existing_pods")
        if self.controller is not None:
            yield said("existing_controller", namespace=self.controller.namespace, version=CHARTS["gha-runner-scale-set"].version)
        if enablement in self.installed:
            yield said("existing_enablement", enablement=enablement, taint=GPU_TAINT_KEY)
        if AUTOSCALER_CHART in self.installed:
            yield said("existing_autoscaler")

    @refusal
    def _controller_rules(self) -> None:
        """Refuse an installed ARC controller that is not described, and a description of one that is not installed."""
        if (CONTROLLER_CHART in self.installed) != (self.controller is not None):
            at = ("controller",) if self.controller is not None else ("installed",)
            raise problem("existing_controller", at=at, chart=CONTROLLER_CHART)


Context = Annotated[str, matching("context", r"[^\s\x00-\x1f\x7f]+", most=160)]


class ExistingContext(Existing):
    """A cluster as the kubeconfig names it."""

    KEY: ClassVar[str] = "context"
    CALLED: ClassVar[str] = "the cluster of context {identity}"

    context: Context
    """Name of the kubeconfig context. Objects in the state belong to it: another name replaces all of them."""
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    """Path of the kubeconfig file. Default: as kubectl finds it (KUBECONFIG, ~/.kube/config). Example: `/home/ci/.kube/config`"""


def no_caches(rule: str) -> AfterValidator:
    """A validator that refuses every cache."""

    def check(caches: dict[str, Any]) -> None:
        for name in caches:
            raise problem(rule, at=(name,), value=name)

    return refuses(check)


NO_CACHES = no_caches("existing_cache")
"""The program cannot read which storage drivers an existing cluster has."""
