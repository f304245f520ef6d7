"""Settings of any Kubernetes cluster that exists already, by its kubeconfig context. The program buys no node for it."""

from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fleet.facts.pricing import Money, quoted
from fleet.facts.remark import said, todo
from fleet.facts.scheduling import GPU_PRESENT_LABEL, GPU_TAINT_KEY, Effect, SchedulingProfile, Taint, Toleration
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, Enablement
from fleet.settings.existing import NO_CACHES, ExistingContext
from fleet.settings.kubelet import DescribedKubelet
from fleet.settings.machines import WithMachines
from fleet.settings.model import DnsLabel, LabelKey, LabelValue, Model, QuotedText, without
from fleet.settings.pool import MachineName, Pool
from fleet.settings.refusals import problem, refusal, refuse, refuse_if
from fleet.settings.runner import PodRunner, SetName


class NodeTaint(Model):
    """A taint that the nodes of a pool have."""

    key: LabelKey
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint. Default: empty."""
    effect: Literal["NoSchedule", "NoExecute"] = Effect.NO_SCHEDULE.value
    """What the taint does with pods that do not tolerate it: keep them off, or also evict those that run. Example: `NoExecute`"""


class DescribedPool(Pool):
    """GPU nodes that exist already. The settings describe them for the proofs; the program changes nothing of them."""

    model_config = ConfigDict(json_schema_extra=without("cdi", "idleDelay", "labels", "reservation", "schedules", "sharing"))

    LABELED: ClassVar[bool] = False
    MANAGERS_AT: ClassVar[tuple[str, ...]] = ()

    instance_types: Annotated[tuple[MachineName, ...], Field(min_length=1)]
    """Machine types of the nodes, with the same GPU model, GPU memory and number of GPUs: types of a cloud, or machines that the
    cluster describes below `machines`."""
    capacity: Literal["on-demand", "spot"] = "on-demand"
    """How the machines are bought. It decides which pods may run there; the program buys nothing. Example: `spot`"""
    image: Literal["al2023-nvidia", "bottlerocket-nvidia", "oke-gpu", "ubuntu", "talos", "passthrough"]
    """Kind of node image: which of driver and container toolkit the nodes have (docs/layers.md)."""
    selector: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)]
    """Labels of the nodes, by which pods select them."""
    taints: tuple[NodeTaint, ...] = ()
    """All taints of the nodes that keep pods off. The pods of the program tolerate them."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price of one node. Default: that of its machine below `machines`, or else unknown. Unit: USD per hour."""
    kubelet: DescribedKubelet | None = None
    """Policies of kubelet that the nodes have. The program does not set them; the plan counts with them. Default: those of
    kubelet, which align nothing."""

    def price(self, instance_type: str, region: str) -> Money:
        """As the settings state it: for every type of the pool, or else of the machine that they describe."""
        price = next(machine.own_price for machine in self.machines if machine.name == instance_type)
        return quoted(price) if self.usd_per_hour is None else Money(self.usd_per_hour)

    def node_selector(self, name: str) -> dict[str, str]:
        """As in the base class: the labels that the settings name."""
        return dict(self.selector)

    def tolerations(self, profile: SchedulingProfile) -> tuple[Toleration, ...]:
        """As in the base class, and the taints that the settings name."""
        tolerations = (Toleration(taint.key, effect=taint.effect) for taint in self.taints)
        return tuple(dict.fromkeys((*super().tolerations(profile), *tolerations)))

    def node_taints(self, profile: SchedulingProfile) -> tuple[Taint, ...]:
        """As in the base class: the taints that the settings name."""
        return tuple(Taint(taint.key, taint.value, Effect(taint.effect)) for taint in self.taints)

    def node_labels(self, cluster: str, name: str, profile: SchedulingProfile, flavor: str = "") -> dict[str, str]:
        """As in the base class: the labels that the settings name."""
        return dict(self.selector)

    @refusal
    def _described_rules(self) -> None:
        """Refuse settings that would change nodes which exist already."""
        for key in sorted({"cdi", "idle_delay", "labels", "sharing"} & self.model_fields_set):
            name = "idleDelay" if key == "idle_delay" else key
            raise problem("described_pool", at=(name,), name=name)


class KubernetesCluster(Cluster, WithMachines):
    """A cluster of any provider that exists already: charts, ARC and runner sets on nodes that the settings describe."""

    model_config = ConfigDict(json_schema_extra=without("budget", "caches", "gitops", "queues"))

    SELLS_VOLUMES: ClassVar[bool] = False

    provider: Literal["kubernetes"]
    """Any cluster that exists already, by its kubeconfig context."""
    region: Annotated[str, Field(min_length=1)] = "elsewhere"
    """A name for the place of the nodes. No cloud reads it. Example: `lab`"""
    kubernetes_version: QuotedText = ""
    """Nothing reads it, because the program installs no node. Example: `"1.36"`"""
    existing: ExistingContext
    """The cluster: its kubeconfig context and what it has already (docs/existing-clusters.md)."""
    enablement: Enablement
    delivery: Literal["helm"] = "helm"
    """Always `helm`: `pulumi up` installs the charts. Example: `helm`"""
    caches: Annotated[dict[DnsLabel, Any], NO_CACHES] = Field(default_factory=dict)
    pools: dict[DnsLabel, DescribedPool] = Field(default_factory=dict)
    """GPU nodes that exist already, as pools by a name of your choice."""
    runners: dict[SetName, PodRunner] = Field(default_factory=dict)
    """Runner classes by name. The name is what a workflow writes in `runs-on`, at most 45 characters."""

    def _remarks(self) -> Iterator[str]:
        """As in the base class, and what nothing here shows of the cluster."""
        yield from super()._remarks()
        yield from self.existing.unseen(self.enablement)
        for name, pool in self.pools.items():
            labels = ",".join(f"{key}={value}" for key, value in pool.selector.items())
            yield said("described_nodes", name=name, labels=labels)
            if GPU_TAINT_KEY not in {taint.key for taint in pool.taints}:
                yield todo(said("no_taint", name=name, taint=GPU_TAINT_KEY))
        if self.pools and self.enablement == DEVICE_PLUGIN and DEVICE_PLUGIN not in self.existing.installed:
            yield said("plugin_label", label=GPU_PRESENT_LABEL)

    @refusal
    def _existing_rules(self) -> None:
        """Refuse what only a cloud has, queues, and settings that do not fit what the cluster has."""
        self._require_existing(self.existing)
        for (first, earlier), (second, later) in combinations(self.pools.items(), 2):
            if earlier.selector.items() <= later.selector.items() or later.selector.items() <= earlier.selector.items():
                raise problem("overlapping_selectors", at=("pools", second, "selector"), first=first)
        for key, value in (("budget", self.budget), ("declareQuotas", self.declare_quotas)):
            refuse_if("existing_cloud", value, at=(key,), key=key)
        refuse("queues", existing_queues=self.queues is not None)
        self._require_enablement()
