"""The providers, one row each. No other code asks which provider a cluster has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fleet.charts.chart import Chart
from fleet.facts.bill import Paid
from fleet.facts.pricing import Line
from fleet.facts.scheduling import EKS_PROFILE, KUBERNETES_PROFILE, OKE_PROFILE, TALOS_PROFILE, SchedulingProfile
from fleet.providers.eks.bill import eks_bill
from fleet.providers.eks.charts import eks_charts
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.eks.fallback import eks_moves, eks_priorities
from fleet.providers.eks.quotas import eks_needs, quota_remarks
from fleet.providers.kubernetes.bill import kubernetes_bill
from fleet.providers.kubernetes.cluster import KubernetesCluster
from fleet.providers.oke.bill import oke_bill
from fleet.providers.oke.charts import oke_charts
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.existing import ExistingOkeCluster
from fleet.providers.oke.fallback import oke_moves
from fleet.providers.oke.quotas import oke_needs
from fleet.providers.oke.system_pool import oke_system_machines
from fleet.providers.quotas import Need
from fleet.providers.tags import AWS_TAGS, NO_TAGS, OCI_TAGS, TagRules
from fleet.providers.talos.bill import talos_bill
from fleet.providers.talos.cluster import TalosCluster
from fleet.settings.cluster import Cluster
from fleet.settings.github import GitHub
from fleet.settings.pool import SystemMachines


@dataclass(frozen=True, slots=True)
class Provider:
    """The functions and facts of one provider.

    `bill` returns what one cluster pays for, at the prices of a day; `fleet.prove.bill` counts it. `needs` returns the quotas
    that a cluster declares, from all clusters of its provider. `tags` are the tag rules of the cloud. `deployable`: whether
    `pulumi up` creates the cluster. `charts` returns the charts of this provider only, from the settings, the cluster's physical
    name and the GitHub scope.
    `system_machines` returns the machines of the system pool of a cluster that the program creates; None if the settings do not
    describe them.
    `quota_remarks` returns the quotas that all clusters of the provider may lack. `existing` are the settings of a cluster that
    exists already; None if the provider has no such clusters.
    `moves` says when the autoscaler moves on to the next pool of an order and when it comes back, from the cluster's name, its
    settings and the order; None if the program configures no autoscaler. `priorities` returns the text of the autoscaler's
    ConfigMap from the cluster's name and its settings; empty if no class names several pools, or if only the cloud knows it.
    `boots` is the row of `data/starts.csv` for the boot of a node.
    `components.build` has the builder of a cluster, `fleet.render.files` the files of its machines.
    """

    settings: type[Cluster]
    profile: SchedulingProfile
    bill: Callable[[str, Any, date], Iterator[Paid | Line]]
    needs: Callable[[Any, Iterable[Any]], tuple[Need, ...]]
    tags: TagRules
    deployable: bool
    charts: Callable[[Any, str, GitHub], tuple[Chart, ...]] = lambda *_: ()
    system_machines: Callable[[Any], SystemMachines] | None = None
    quota_remarks: Callable[[Iterable[Any]], Iterator[str]] = lambda _: iter(())
    existing: type[Cluster] | None = None
    moves: Callable[[str, Any, Sequence[str]], str] | None = None
    priorities: Callable[[str, Any], str] = lambda *_: ""
    boots: str = "elsewhere"


PROVIDERS: dict[str, Provider] = {
    "eks": Provider(
        EksCluster,
        EKS_PROFILE,
        eks_bill,
        eks_needs,
        AWS_TAGS,
        deployable=True,
        charts=eks_charts,
        system_machines=lambda cluster: (cluster.system.machines, cluster.system.disk, cluster.system.nodes),
        quota_remarks=quota_remarks,
        existing=ExistingEksCluster,
        moves=eks_moves,
        priorities=eks_priorities,
        boots="ec2",
    ),
    "oke": Provider(
        OkeCluster,
        OKE_PROFILE,
        oke_bill,
        oke_needs,
        OCI_TAGS,
        deployable=True,
        charts=oke_charts,
        system_machines=oke_system_machines,
        existing=ExistingOkeCluster,
        moves=oke_moves,
        boots="oci",
    ),
    "kubernetes": Provider(KubernetesCluster, KUBERNETES_PROFILE, kubernetes_bill, lambda *_: (), NO_TAGS, deployable=True),
    "talos": Provider(TalosCluster, TALOS_PROFILE, talos_bill, lambda *_: (), NO_TAGS, deployable=False),
}
